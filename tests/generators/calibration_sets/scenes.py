"""Pictures with the statistics of photographs, from a seed: what a good calibration set is made of.

Photographs cannot be in this repository, so these have what sets photographs apart from noise and from graphics: spectra
that fall as 1/f (Field 1987), objects that occlude one another with sizes of a power law (the dead-leaves model, Lee,
Mumford & Huang 2001), shading, colours along the daylight axis (sky at the top, earth, leaves, skin), gamma, sensor noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]  # (H, W, 3), RGB
Light = npt.NDArray[np.float32]  # (H, W, 3), linear RGB, 0..1 before exposure

# Reflectances (linear RGB) and how often they occur: earth and wood, leaves, stone, red things, blue things.
SURFACES = (
    ((0.32, 0.20, 0.11), 0.38),
    ((0.14, 0.20, 0.06), 0.24),
    ((0.34, 0.33, 0.31), 0.22),
    ((0.42, 0.10, 0.08), 0.09),
    ((0.10, 0.16, 0.36), 0.07),
)
SKINS = ((0.62, 0.40, 0.31), (0.48, 0.29, 0.20), (0.30, 0.17, 0.11), (0.16, 0.09, 0.06))


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """Where a face is in a portrait.

    Attributes:
        box_xywh: Pixels.
        landmarks_xy: Left eye, right eye, nose, left and right corner of the mouth, in pixels.
        yaw_deg: Turn of the head, 0 for frontal.
    """

    box_xywh: tuple[float, float, float, float]
    landmarks_xy: tuple[tuple[float, float], ...]
    yaw_deg: float


def field(rng: np.random.Generator, height: int, width: int, exponent: float = 1.0) -> npt.NDArray[np.float32]:
    """Noise with an amplitude spectrum of 1/f^exponent, mean 0, standard deviation 1."""
    fy, fx = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    radius = np.hypot(fy, fx)
    radius[0, 0] = np.inf
    phases = rng.standard_normal((*radius.shape, 2)) @ (1, 1j)
    made = np.fft.irfft2(phases / radius**exponent, s=(height, width))
    return (made / made.std()).astype(np.float32)


def developed(light: Light, rng: np.random.Generator, *, exposure: float = 1.0, noise: float = 0.006) -> Picture:
    """What a camera makes of it: exposure, shot noise, clipping, gamma 2.2, 8 bits."""
    exposed = light * np.float32(exposure)
    exposed = exposed + rng.standard_normal(light.shape).astype(np.float32) * noise * np.sqrt(0.05 + exposed.clip(0))
    return np.rint(255 * exposed.clip(0, 1) ** (1 / 2.2)).astype(np.uint8)


def surface(rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """A reflectance near one of SURFACES."""
    colors, shares = zip(*SURFACES, strict=True)
    base = np.asarray(colors[rng.choice(len(colors), p=shares)], np.float32)
    return base * np.float32(rng.lognormal(0, 0.45)) * rng.normal(1, 0.12, 3).astype(np.float32).clip(0.6, 1.4)


def dead_leaves(rng: np.random.Generator, height: int, width: int, count: int = 90) -> Light:
    """Objects of all sizes, large ones behind, each with its own colour, shading and texture."""
    canvas = np.empty((height, width, 3), np.float32)
    canvas[:] = surface(rng)
    radii = np.sort(np.minimum(width, height) * 0.04 * (1 + rng.pareto(1.6, count)))[::-1].clip(1, 0.6 * width)
    for radius in radii:
        center = (int(rng.integers(0, width)), int(rng.integers(0, height)))
        angle, flat = float(rng.uniform(0, 180)), float(rng.uniform(0.4, 1))
        color = tuple(float(v) for v in surface(rng))
        if rng.random() < 0.4:  # a box
            corners = cv2.boxPoints((center, (2 * radius, 2 * radius * flat), angle))
            cv2.fillPoly(canvas, [np.rint(corners).astype(np.int32)], color, cv2.LINE_AA)
        else:
            axes = (max(int(radius), 1), max(int(radius * flat), 1))
            cv2.ellipse(canvas, center, axes, angle, 0, 360, color, -1, cv2.LINE_AA)
    shading = np.exp(0.35 * field(rng, height, width, 1.6) + 0.12 * field(rng, height, width, 0.8))
    return canvas * shading[..., None]


def with_sky(rng: np.random.Generator, land: Light) -> Light:
    """The upper part becomes sky: blue, overcast or evening."""
    height, width, _ = land.shape
    horizon = height * rng.uniform(0.25, 0.5) + 0.05 * height * field(rng, height, width, 1.8)[0]
    rows = np.arange(height, dtype=np.float32)[:, None]
    above = np.clip(horizon[None] - rows, 0, 1)[..., None]
    high, low = {
        "blue": ((0.18, 0.34, 0.70), (0.55, 0.70, 0.86)),
        "overcast": ((0.62, 0.65, 0.70), (0.80, 0.81, 0.82)),
        "evening": ((0.30, 0.33, 0.48), (0.90, 0.55, 0.28)),
    }[str(rng.choice(["blue", "overcast", "evening"], p=[0.5, 0.35, 0.15]))]
    down = (rows / max(float(horizon.max()), 1.0)).clip(0, 1)[..., None]
    sky = np.asarray(high, np.float32) * (1 - down) + np.asarray(low, np.float32) * down
    clouds = field(rng, height, width, 1.5).clip(0, 2)[..., None] * 0.18
    return above * (sky * (1 - clouds) + clouds * 0.9) + (1 - above) * land


def scene(seed: int, height: int = 120, width: int = 160) -> Picture:
    """One photograph: outdoors, indoors, close-up, mist or bright contrast, each with an exposure of its own."""
    rng = np.random.default_rng((1, seed))
    kind = str(rng.choice(["outdoors", "indoors", "close-up", "mist"], p=[0.5, 0.25, 0.2, 0.05]))
    light = dead_leaves(rng, height, width, count=25 if kind == "close-up" else 110)
    if kind == "outdoors":
        light = with_sky(rng, light)
    elif kind == "indoors":
        lamp = np.exp(0.5 * field(rng, height, width, 2.0))[..., None]
        light = light * lamp * np.asarray((1.15, 1.0, 0.82), np.float32)
    elif kind == "close-up":
        far = cv2.GaussianBlur(dead_leaves(rng, height, width, 40), (0, 0), 5)
        near = (field(rng, height, width, 2.0) > 0.2).astype(np.float32)
        near = cv2.GaussianBlur(near, (0, 0), 0.8)[..., None]
        light = near * light + (1 - near) * far
    else:
        light = 0.45 * light + 0.30
    balance = rng.normal(1, 0.04, 3).astype(np.float32)
    mean = float(light.mean())
    return developed(light * balance, rng, exposure=float(0.24 / mean * rng.lognormal(0, 0.35)))


def night(seed: int, height: int = 120, width: int = 160) -> Picture:
    """A dark picture: a few lamps, shapes in their light, much noise."""
    rng = np.random.default_rng((2, seed))
    light = dead_leaves(rng, height, width) * 0.05
    for _ in range(int(rng.integers(3, 9))):
        center = (int(rng.integers(0, width)), int(rng.integers(0, height)))
        lamp = np.zeros((height, width, 3), np.float32)
        color = rng.choice([(1.0, 0.75, 0.42), (0.9, 0.95, 1.0), (1.0, 0.4, 0.25)])
        cv2.circle(lamp, center, int(rng.integers(1, 4)), tuple(float(v) for v in color), -1, cv2.LINE_AA)
        light = light + lamp * 2 + 3 * cv2.GaussianBlur(lamp, (0, 0), 9)
    return developed(light, rng, exposure=0.9, noise=0.03)


def portrait(
    seed: int, height: int = 160, width: int = 128, *, yaw_deg: float = 0.0, share: float = 0.27, contrast: float = 1.0
) -> tuple[Picture, Face]:
    """A face in front of something out of focus.

    Args:
        seed: Of everything else.
        height, width: Pixels.
        yaw_deg: Turn of the head; features move sideways with its sine.
        share: Area of the box over area of the picture.
        contrast: Below 1 the face is washed out.
    """
    rng = np.random.default_rng((3, seed))
    light = cv2.GaussianBlur(dead_leaves(rng, height, width, 50), (0, 0), 4)
    box_width = float(np.sqrt(share * height * width / 1.25))
    box_height = 1.25 * box_width
    cx, cy = width * rng.uniform(0.46, 0.54), height * rng.uniform(0.44, 0.50)
    skin = np.asarray(SKINS[int(rng.integers(0, len(SKINS)))], np.float32) * np.float32(rng.uniform(0.85, 1.15))
    coat, hair = surface(rng), np.asarray((0.05, 0.035, 0.025), np.float32) * np.float32(rng.uniform(0.6, 4))

    def ellipse(x: float, y: float, a: float, b: float, color: npt.NDArray[np.float32]) -> None:
        axes = (max(round(a), 1), max(round(b), 1))
        cv2.ellipse(light, (round(x), round(y)), axes, 0, 0, 360, tuple(map(float, color)), -1, cv2.LINE_AA)

    ellipse(cx, cy + 1.35 * box_height, 1.2 * box_width, 0.75 * box_height, coat)
    ellipse(cx, cy - 0.08 * box_height, 0.60 * box_width, 0.62 * box_height, hair)
    ellipse(cx, cy + 0.02 * box_height, 0.46 * box_width, 0.49 * box_height, skin)
    turn = float(np.sin(np.radians(yaw_deg))) * 0.42 * box_width
    eye = 0.19 * box_width * float(np.cos(np.radians(yaw_deg)))
    points = [(cx + turn - eye, cy - 0.1 * box_height), (cx + turn + eye, cy - 0.1 * box_height)]
    points += [(cx + 1.25 * turn, cy + 0.09 * box_height)]
    points += [(cx + turn - 0.8 * eye, cy + 0.26 * box_height), (cx + turn + 0.8 * eye, cy + 0.26 * box_height)]
    for x, y in points[:2]:
        ellipse(x, y, 0.085 * box_width, 0.045 * box_height, np.asarray((0.75, 0.72, 0.70), np.float32))
        ellipse(x, y, 0.045 * box_width, 0.045 * box_height, np.asarray((0.03, 0.025, 0.02), np.float32))
        ellipse(x, y - 0.09 * box_height, 0.10 * box_width, 0.018 * box_height, hair)
    ellipse(*points[2], 0.05 * box_width, 0.035 * box_height, skin * np.float32(0.6))
    mouth = ((points[3][0] + points[4][0]) / 2, points[3][1])
    ellipse(*mouth, 0.8 * eye, 0.035 * box_height, skin * np.asarray((0.8, 0.4, 0.4), np.float32))
    across = (np.arange(width, dtype=np.float32) - cx) / box_width
    side = float(rng.choice([-1.0, 1.0]))
    light = light * np.exp(side * 1.6 * across.clip(-1, 1))[None, :, None]
    light = light * np.exp(0.10 * field(rng, height, width, 1.2))[..., None]
    box = (cx - box_width / 2, cy - box_height / 2, box_width, box_height)
    if contrast != 1.0:
        x0, y0, x1, y1 = int(box[0]), int(box[1]), int(box[0] + box[2]) + 1, int(box[1] + box[3]) + 1
        inside = light[max(y0, 0) : y1, max(x0, 0) : x1]
        inside[:] = inside.mean(axis=(0, 1)) * (1 - contrast) + inside * contrast
    picture = developed(cv2.GaussianBlur(light, (0, 0), 0.5), rng, exposure=float(rng.uniform(0.9, 1.5)))
    return picture, Face(box_xywh=box, landmarks_xy=tuple(points), yaw_deg=yaw_deg)

"""Sets with one thing wrong each, and the id that has to say so.

What the audit may also say, because it follows from what is wrong, stands in `allowed`; anything else is a false alarm.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from tests.generators.calibration_sets.case import (
    BYTES,
    IMAGENET,
    SIDE_PX,
    SIGNED,
    UNIT,
    Case,
    save_boxes,
    save_pictures,
    save_tensors,
    tensor,
)
from tests.generators.calibration_sets.good_sets import YAWS_DEG
from tests.generators.calibration_sets.scenes import Face, Picture, dead_leaves, developed, portrait, scene

from fts.vocabulary.preprocessing import Preprocessing

COUNT = 16
BGR = Preprocessing(color="bgr")

# --- no pictures at all -----------------------------------------------------------------------------------------------


def uniform_noise(folder: Path) -> Path:
    rng = np.random.default_rng(1)
    return save_pictures(folder, [rng.integers(0, 256, (96, 128, 3), np.uint8) for _ in range(COUNT)], suffix=".png")


def gaussian_noise_tensors(folder: Path) -> Path:
    rng = np.random.default_rng(2)
    noise = rng.normal(0.5, 0.16, (COUNT, 1, 3, SIDE_PX, SIDE_PX)).clip(0, 1)
    return save_tensors(folder, list(noise.astype(np.float32)))


def low_bytes(folder: Path) -> Path:
    """16-bit pictures of which `astype(uint8)` kept the lower byte: noise, although it was a photograph."""
    rng = np.random.default_rng(3)
    deep = [scene(2000 + i).astype(np.uint32) * 257 + rng.integers(0, 257, (120, 160, 3)) for i in range(COUNT)]
    return save_pictures(folder, [(picture * 7).astype(np.uint8) for picture in deep], suffix=".png")


def constant(folder: Path) -> Path:
    rng = np.random.default_rng(4)
    colors = rng.integers(0, 256, (COUNT, 3), np.uint8)
    return save_pictures(folder, [np.broadcast_to(c, (96, 128, 3)).copy() for c in colors], suffix=".png")


def nearly_constant(folder: Path) -> Path:
    rng = np.random.default_rng(5)
    pictures = [rng.integers(30, 220, 3) + rng.integers(-1, 2, (96, 128, 3)) for _ in range(COUNT)]
    return save_pictures(folder, [p.astype(np.uint8) for p in pictures], suffix=".png")


def flat_tiles(folder: Path) -> Path:
    """Walls and skies: a slight gradient, the camera's noise, nothing to see."""
    pictures = []
    for seed in range(COUNT):
        rng = np.random.default_rng((6, seed))
        ramp = np.linspace(1, 1.08, 128, dtype=np.float32)[None, :, None]
        color = rng.uniform(0.1, 0.6, 3).astype(np.float32)
        pictures.append(developed(np.broadcast_to(color, (96, 128, 3)) * ramp, rng))
    return save_pictures(folder, pictures)


def screenshots(folder: Path) -> Path:
    """Text on a plain page, with a bar and a button."""
    pictures = []
    for seed in range(COUNT):
        rng = np.random.default_rng((7, seed))
        page = np.full((160, 240, 3), rng.choice([255, 245, 30]), np.uint8)
        ink = (30, 30, 30) if page[0, 0, 0] > 128 else (225, 225, 225)
        top = int(rng.integers(16, 30))
        page[:top] = rng.integers(0, 256, 3)
        left = int(rng.integers(4, 120))
        page[130:150, left : left + 70] = rng.integers(0, 256, 3)
        for line in range(int(rng.integers(3, 7))):
            words = "".join(rng.choice(list("abcdefgh ijklmnop rstuvw "), int(rng.integers(10, 30))))
            cv2.putText(page, words, (6, top + 16 + 14 * line), cv2.FONT_HERSHEY_SIMPLEX, 0.4, ink, 1, cv2.LINE_8)
        pictures.append(page)
    return save_pictures(folder, pictures, suffix=".png")


def not_a_number(folder: Path) -> Path:
    tensors = [tensor(scene(2100 + i), UNIT) for i in range(COUNT)]
    tensors[7][0, 1, 30:33, 40] = np.nan
    return save_tensors(folder, tensors)


def infinite(folder: Path) -> Path:
    tensors = [tensor(scene(2130 + i), UNIT) for i in range(COUNT)]
    tensors[3][0, 0, 10, 11] = np.inf
    return save_tensors(folder, tensors)


# --- not what was declared --------------------------------------------------------------------------------------------


def tensors_of(pre: Preprocessing, first_seed: int) -> list[npt.NDArray[np.float32]]:
    return [tensor(scene(first_seed + i), pre) for i in range(COUNT)]


def bytes_given(folder: Path) -> Path:
    return save_tensors(folder, tensors_of(BYTES, 2200))


def unit_given(folder: Path) -> Path:
    return save_tensors(folder, tensors_of(UNIT, 2230))


def signed_given(folder: Path) -> Path:
    return save_tensors(folder, tensors_of(SIGNED, 2260))


def half_in_bytes(folder: Path) -> Path:
    return save_tensors(folder, tensors_of(UNIT, 2290)[:8] + tensors_of(BYTES, 2290)[8:])


def sixteen_bits(folder: Path) -> Path:
    return save_tensors(folder, [t * 257 for t in tensors_of(BYTES, 2320)])


def normalised_twice(folder: Path) -> Path:
    mean, std = (np.asarray(v, np.float32)[:, None, None] for v in (IMAGENET.mean, IMAGENET.std))
    return save_tensors(folder, [(t - mean) / std for t in tensors_of(IMAGENET, 2350)])


def channels_reversed(folder: Path) -> Path:
    return save_tensors(folder, tensors_of(BGR, 2380))


def channels_last_reshaped(folder: Path) -> Path:
    """`x.reshape(1, 3, H, W)` where `x.transpose(0, 3, 1, 2)` was meant."""
    hwc = replace(UNIT, layout="nhwc")
    return save_tensors(folder, [t.reshape(1, 3, SIDE_PX, SIDE_PX) for t in tensors_of(hwc, 2410)])


def gray_for_color(folder: Path) -> Path:
    pictures = [cv2.cvtColor(scene(2440 + i), cv2.COLOR_RGB2GRAY) for i in range(COUNT)]
    return save_pictures(folder, [np.repeat(p[..., None], 3, axis=2) for p in pictures])


def half_reversed_portraits(folder: Path) -> Path:
    """Some of the portraits went through a reader that gives BGR, and were saved as if they were RGB."""
    made = [portrait(2500 + i, yaw_deg=yaw) for i, yaw in enumerate(YAWS_DEG)]
    save_boxes(folder, [face for _, face in made])
    return save_pictures(folder, [p[..., ::-1].copy() if i % 2 else p for i, (p, _) in enumerate(made)])


def photos(folder: Path) -> Path:
    """Nothing is wrong with them but what is declared."""
    save_pictures(folder, [scene(2550 + i) for i in range(COUNT)])
    return save_pictures(folder, [portrait(2550 + i)[0] for i in range(8)], name="face")


# --- not enough, or too much of the same ------------------------------------------------------------------------------


def too_few(folder: Path) -> Path:
    return save_pictures(folder, [scene(2600 + i) for i in range(5)])


def copies(folder: Path) -> Path:
    pictures = [scene(2630 + i) for i in range(14)]
    save_pictures(folder, pictures)
    return save_pictures(folder, pictures, name="copy")


def near_copies(folder: Path) -> Path:
    """Every picture three more times: compressed again, made smaller, moved by two pixels."""
    pictures = [scene(2660 + i, 150, 200) for i in range(13)]
    save_pictures(folder, pictures, suffix=".png")
    save_pictures(folder, pictures, name="again")
    save_pictures(folder, [cv2.resize(p, (140, 105), interpolation=cv2.INTER_AREA) for p in pictures], name="smaller")
    return save_pictures(folder, [p[2:, 2:] for p in pictures], name="moved")


def one_scene(folder: Path) -> Path:
    """A fixed camera: one place, something that moves, the light of the day, noise."""
    rng = np.random.default_rng(8)
    place = dead_leaves(rng, 120, 160)
    frames = []
    for number in range(24):
        light = place.copy()
        center = (int(10 + 6 * number), int(60 + 25 * np.sin(number)))
        cv2.ellipse(light, center, (13, 22), 0, 0, 360, (0.5, 0.3, 0.2), -1, cv2.LINE_AA)
        frames.append(developed(light, rng, exposure=float(1 + 0.03 * number)))
    return save_pictures(folder, frames)


def one_outlier(folder: Path) -> Path:
    """Misty pictures, and a single one with full contrast that alone decides every range."""
    hazy = [tensor(scene(2700 + i), UNIT) * np.float32(0.08) + np.float32(0.45) for i in range(COUNT)]
    hazy[4] = tensor(scene(2704), UNIT)
    return save_tensors(folder, hazy)


# --- badly taken ------------------------------------------------------------------------------------------------------


def overexposed(folder: Path) -> Path:
    pictures = [scene(2800 + i).astype(np.float32) * 4 for i in range(COUNT)]
    return save_pictures(folder, [p.clip(0, 255).astype(np.uint8) for p in pictures])


def underexposed(folder: Path) -> Path:
    pictures = [(scene(2830 + i).astype(np.float32) - 120) * 0.6 for i in range(COUNT)]
    return save_pictures(folder, [p.clip(0, 255).astype(np.uint8) for p in pictures])


def color_cast(folder: Path) -> Path:
    """Everything under a sodium lamp."""
    lamp = np.array([1.0, 0.62, 0.25], np.float32)
    return save_pictures(folder, [(scene(2860 + i) * lamp).astype(np.uint8) for i in range(COUNT)])


def black_bars(folder: Path) -> Path:
    """Wide film frames with their bars."""
    pictures = [scene(2890 + i, 90, 160) for i in range(COUNT)]
    return save_pictures(folder, [cv2.copyMakeBorder(p, 27, 27, 0, 0, cv2.BORDER_CONSTANT) for p in pictures])


def cut_out_on_black(folder: Path) -> Path:
    """Cut-outs with transparency, whose hidden pixels are black."""
    pictures: list[Picture] = []
    for seed in range(COUNT):
        picture, face = portrait(2920 + seed)
        x, y, w, h = face.box_xywh
        alpha = np.zeros(picture.shape[:2], np.uint8)
        cv2.ellipse(alpha, (int(x + w / 2), int(y + h / 2)), (int(0.62 * w), int(0.6 * h)), 0, 0, 360, 255, -1)
        pictures.append(np.dstack([picture * (alpha[..., None] > 0), alpha]))
    return save_pictures(folder, pictures, suffix=".png")


def enlarged_thumbnails(folder: Path) -> Path:
    small = [cv2.resize(scene(2950 + i), (32, 24), interpolation=cv2.INTER_AREA) for i in range(COUNT)]
    return save_pictures(folder, [cv2.resize(p, (256, 192), interpolation=cv2.INTER_CUBIC) for p in small])


def thumbnails(folder: Path) -> Path:
    small = [cv2.resize(scene(2980 + i), (32, 24), interpolation=cv2.INTER_AREA) for i in range(COUNT)]
    return save_pictures(folder, small, suffix=".png")


# --- faces ------------------------------------------------------------------------------------------------------------


def save_portraits(folder: Path, made: list[tuple[Picture, Face]]) -> Path:
    save_boxes(folder, [face for _, face in made])
    return save_pictures(folder, [picture for picture, _ in made])


def profiles(folder: Path) -> Path:
    yaws = [(-60, 50, 0, -45, 70, 5)[i % 6] for i in range(COUNT)]
    return save_portraits(folder, [portrait(3000 + i, yaw_deg=yaw) for i, yaw in enumerate(yaws)])


def faces_far_away(folder: Path) -> Path:
    return save_portraits(folder, [portrait(3030 + i, share=0.04) for i in range(COUNT)])


def washed_out_faces(folder: Path) -> Path:
    return save_portraits(folder, [portrait(3060 + i, contrast=0.15) for i in range(COUNT)])


def covered_faces(folder: Path) -> Path:
    """Masks: in half of the pictures the nose and the mouth cannot be seen."""
    made = [portrait(3090 + i) for i in range(COUNT)]
    save_boxes(folder, [face for _, face in made], visible=lambda face, point: bool(face % 2) or point < 2)
    return save_pictures(folder, [picture for picture, _ in made])


def _ids(*ids: str) -> frozenset[str]:
    return frozenset(ids)


BAD_SETS = (
    Case(name="uniform noise", write=uniform_noise, expected=_ids("random-data")),
    Case(name="gaussian noise tensors", write=gaussian_noise_tensors, expected=_ids("random-data")),
    Case(name="low byte of 16-bit", write=low_bytes, expected=_ids("random-data")),
    Case(name="constant", write=constant, expected=_ids("constant-data")),
    Case(name="nearly constant", write=nearly_constant, expected=_ids("constant-data")),
    Case(name="flat tiles", write=flat_tiles, expected=_ids("flat-data")),
    Case(name="screenshots", write=screenshots, expected=_ids("graphics"), allowed=_ids("uniform-border", "one-scene")),
    Case(name="NaN", write=not_a_number, expected=_ids("not-finite"), is_refused=True),
    Case(name="infinity", write=infinite, expected=_ids("not-finite"), is_refused=True),
    Case(name="0..255 where 0..1", write=bytes_given, expected=_ids("value-range")),
    Case(name="0..1 where -1..1", write=unit_given, declared=SIGNED, expected=_ids("value-range")),
    Case(name="0..1 where 0..255", write=unit_given, declared=BYTES, expected=_ids("value-range")),
    Case(name="-1..1 where 0..1", write=signed_given, expected=_ids("value-range")),
    Case(name="some in 0..255", write=half_in_bytes, expected=_ids("value-range")),
    Case(name="16-bit values", write=sixteen_bits, declared=BYTES, expected=_ids("value-range")),
    Case(name="normalised twice", write=normalised_twice, declared=IMAGENET, expected=_ids("value-range")),
    Case(name="mean and std forgotten", write=unit_given, declared=IMAGENET, expected=_ids("value-range")),
    Case(name="BGR tensors", write=channels_reversed, expected=_ids("color-order")),
    Case(name="NHWC reshaped", write=channels_last_reshaped, expected=_ids("channel-layout")),
    Case(name="grey for colour", write=gray_for_color, expected=_ids("grey-pictures")),
    Case(name="some portraits BGR", write=half_reversed_portraits, expected=_ids("color-order"), has_faces=True),
    Case(
        name="net wants BGR",
        write=photos,
        declared=IMAGENET,
        net=replace(IMAGENET, color="bgr"),
        expected=_ids("contract"),
    ),
    Case(name="net wants -1..1", write=photos, net=SIGNED, expected=_ids("contract")),
    Case(name="net wants 0..255", write=photos, net=BYTES, expected=_ids("contract")),
    Case(name="too few", write=too_few, expected=_ids("too-few")),
    Case(name="copies", write=copies, expected=_ids("duplicates")),
    Case(name="near copies", write=near_copies, expected=_ids("near-duplicates")),
    Case(name="one scene", write=one_scene, expected=_ids("one-scene"), allowed=_ids("near-duplicates")),
    Case(
        name="one outlier",
        write=one_outlier,
        net=UNIT,
        expected=_ids("unstable-ranges"),
        allowed=_ids("flat-data", "contract"),
    ),
    Case(name="overexposed", write=overexposed, expected=_ids("overexposed")),
    Case(name="underexposed", write=underexposed, expected=_ids("underexposed")),
    Case(name="colour cast", write=color_cast, expected=_ids("color-cast")),
    Case(name="black bars", write=black_bars, expected=_ids("uniform-border")),
    Case(name="cut out on black", write=cut_out_on_black, expected=_ids("uniform-border")),
    Case(name="enlarged thumbnails", write=enlarged_thumbnails, expected=_ids("low-detail")),
    Case(name="thumbnails", write=thumbnails, expected=_ids("low-detail")),
    Case(name="profiles", write=profiles, has_faces=True, expected=_ids("faces-turned")),
    Case(name="faces far away", write=faces_far_away, has_faces=True, expected=_ids("faces-size")),
    Case(name="washed-out faces", write=washed_out_faces, has_faces=True, expected=_ids("faces-contrast")),
    Case(name="covered faces", write=covered_faces, has_faces=True, expected=_ids("faces-covered")),
)

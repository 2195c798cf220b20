"""What is kept of a sample after it was seen once: a few figures, a thumbnail, a hash; about 2 KB, whatever its size.

Pixels are RGB (or grey), 0..255 by the declared contract. A decoded picture has them; of a raw tensor they are
(x * std + mean) / scale, so that both are judged by the same measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fts.imaging.opencv import cv2
from fts.vocabulary.preprocessing import Preprocessing
from fts_calibration.audit.boxes_json import Face
from fts_calibration.audit.perceptual_hash import perceptual_hash

Pixels = npt.NDArray[np.float32]  # (H, W, C), C = 1 or 3, RGB
AnyPixels = (
    npt.NDArray[np.float32] | npt.NDArray[np.uint8]
)  # a decoded picture stays in bytes: 12 MP are 144 MB in float32

THUMBNAIL_PX = 16
# Of larger pictures every k-th row (and column) is measured: neighbours stay neighbours, and 12 MP cost 1/24.
_MOST_LINES = 128
# A channel value at or beyond these is taken for clipped: JPEG moves 0 and 255 by a little.
CLIPPED_LOW, CLIPPED_HIGH = 2.0, 253.0
_COLORED = 20.0  # difference of channels from which on a pixel has a colour, of 255


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceLook:
    """A face in its picture.

    Attributes:
        face: As declared, or as found.
        share: Area of the box over area of the picture.
        std: Standard deviation of grey values inside the box, of 255.
        red_over_blue: Mean of R - B in the middle of the box, of 255.
    """

    face: Face
    share: float
    std: float
    red_over_blue: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Look:
    """What is kept of one sample of one image input. Shares are 0..1; colours are of 255.

    Attributes:
        path: The sample's name, as in its record.
        size_wh: Pixels of the decoded picture, or of the tensor.
        is_picture: False for raw tensors.
        percentiles: Pixels at 1 % and 99 %; outside 0..255 where a tensor does not keep the contract.
        values: The same percentiles in the tensor's own unit; those of pixels for pictures.
        mean_rgb: Mean colour; equal numbers for grey.
        std: Standard deviation of the grey picture.
        correlation: Of neighbouring grey pixels, the smaller of horizontal and vertical; 1 for constant pictures.
        equal_neighbors: Share of pixels that equal the one to the right in every channel.
        clipped_low, clipped_high: Share of channel values at the ends.
        chroma: Mean difference between the largest and the smallest channel.
        white_rgb: Mean colour of the brightest twentieth.
        orange, azure: Share of pixels with R > G > B, and with B > G > R, among all.
        azure_height: Mean height of the azure pixels, 0 bottom, 1 top; 0.5 without any.
        border: Share of the outermost pixels that have one and the same colour.
        detail: Contrast of the finest octave over that of the finest two, at the size at which the net sees the sample.
        interleaved: How much more alike are values 3 apart than neighbours, when a tensor's memory is read as if its
            channels came last; above 1 they do. 0 for pictures.
        thumbnail: uint8 (16, 16, 3).
        hash: 64 bits.
        faces: Those that boxes.json names in this picture, or that were found in it.
    """

    path: str
    size_wh: tuple[int, int]
    is_picture: bool
    percentiles: tuple[float, float]
    values: tuple[float, float]
    mean_rgb: tuple[float, float, float]
    std: float
    correlation: float
    equal_neighbors: float
    clipped_low: float
    clipped_high: float
    chroma: float
    white_rgb: tuple[float, float, float]
    orange: float
    azure: float
    azure_height: float
    border: float
    detail: float
    interleaved: float
    thumbnail: npt.NDArray[np.uint8]
    hash: int
    faces: tuple[FaceLook, ...] = ()


def look_at_picture(
    path: str, frame_bgr: npt.NDArray[np.uint8], pre: Preprocessing, net_wh: tuple[int, int], faces: Sequence[Face] = ()
) -> Look:
    """Look at a decoded picture, uint8 (H, W, 3) in BGR order."""
    if pre.color == "gray":
        frame_bgr = cv2.cvtColor(frame_bgr, cv2.COLOR_BGR2GRAY)[..., None]
    return _look(path, frame_bgr[..., ::-1], np.ascontiguousarray(_shrunk(frame_bgr, net_wh)[..., ::-1]), faces)


def look_at_tensor(path: str, tensor: npt.NDArray[np.generic], pre: Preprocessing, faces: Sequence[Face] = ()) -> Look:
    """Look at a raw tensor (1, C, H, W), or (1, H, W, C) as `pre.layout` says."""
    real = tensor[0].astype(np.float32)
    pixels = _pixels(real, pre)
    interleaved = _interleaved(real) if pre.layout == "nchw" and len(real) == 3 else 0.0
    return _look(path, pixels, pixels, faces, values=_percentiles(real), interleaved=interleaved)


def picture_from_tensor(tensor: npt.NDArray[np.generic], pre: Preprocessing) -> npt.NDArray[np.uint8]:
    """The picture that a raw tensor holds by its contract, uint8 (H, W, 3) in BGR order."""
    rgb = _pixels(tensor[0].astype(np.float32), pre)
    bgr = np.broadcast_to(rgb[..., ::-1], (*rgb.shape[:2], 3))
    return np.ascontiguousarray(np.rint(bgr.clip(0, 255)), np.uint8)


def _pixels(real: npt.NDArray[np.float32], pre: Preprocessing) -> Pixels:
    """Pixels of a tensor without its batch axis."""
    hwc = real.transpose(1, 2, 0) if pre.layout == "nchw" else real
    pixels = (hwc * np.asarray(pre.std, np.float32) + np.asarray(pre.mean, np.float32)) / np.float32(pre.scale)
    return np.asarray(pixels[..., ::-1] if pre.color == "bgr" else pixels, np.float32)


def _look(
    path: str,
    pixels: AnyPixels,
    small: Pixels,
    faces: Sequence[Face],
    *,
    values: tuple[float, float] | None = None,
    interleaved: float = 0.0,
) -> Look:
    """`small` is what the net sees of the pixels; `values` are given for raw tensors alone."""
    height, width, channels = pixels.shape
    rows = pixels[:: -(-height // _MOST_LINES)].astype(np.float32)
    columns = pixels[:, :: -(-width // _MOST_LINES)].astype(np.float32)
    gray = rows.mean(axis=2)
    std = float(gray.std())
    red, green, blue = (rows[..., min(c, channels - 1)] for c in range(3))
    azure = (blue > green) & (green > red) & (blue - red > _COLORED)
    azure_rows = np.nonzero(azure)[0]
    return Look(
        path=path,
        size_wh=(width, height),
        is_picture=values is None,
        percentiles=_percentiles(rows),
        values=_percentiles(rows) if values is None else values,
        mean_rgb=_rgb(rows.mean(axis=(0, 1))),
        std=std,
        correlation=min(_correlation(gray), _correlation(columns.mean(axis=2).T)),
        equal_neighbors=float((rows[:, 1:] == rows[:, :-1]).all(axis=2).mean()) if width > 1 else 0.0,
        clipped_low=float((rows <= CLIPPED_LOW).mean()),
        clipped_high=float((rows >= CLIPPED_HIGH).mean()),
        chroma=float((rows.max(axis=2) - rows.min(axis=2)).mean()),
        white_rgb=_rgb(rows[gray >= np.percentile(gray, 95)].mean(axis=0)),
        orange=float(((red > green) & (green > blue) & (red - blue > _COLORED)).mean()),
        azure=float(azure.mean()),
        azure_height=1 - float(azure_rows.mean()) / max(len(rows) - 1, 1) if azure_rows.size else 0.5,
        border=_border(pixels),
        detail=_detail(small.mean(axis=2)),
        interleaved=interleaved,
        thumbnail=_thumbnail(small),
        hash=perceptual_hash(small.mean(axis=2)),
        faces=tuple(_face_look(face, pixels) for face in faces),
    )


def _percentiles(values: npt.NDArray[np.float32]) -> tuple[float, float]:
    low, high = np.percentile(values, (1, 99)).tolist()
    return low, high


def _rgb(values: npt.NDArray[np.float32]) -> tuple[float, float, float]:
    red, green, blue = np.broadcast_to(values, 3).tolist()
    return red, green, blue


def _correlation(gray: npt.NDArray[np.float32]) -> float:
    """Lag-1 autocorrelation along the last axis; 1 where nothing varies."""
    centered = gray.astype(np.float64) - gray.mean()
    power = float((centered**2).mean())
    if gray.shape[1] < 2 or power < 1e-12:
        return 1.0
    return float((centered[:, 1:] * centered[:, :-1]).mean()) / power


def _shrunk(pixels: AnyPixels, net_wh: tuple[int, int]) -> Pixels:
    """At most the size at which the net sees it."""
    height, width, _ = pixels.shape
    factor = min(net_wh[0] / width, net_wh[1] / height, 1.0)
    size = (max(round(width * factor), 1), max(round(height * factor), 1))
    shrunk = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return np.asarray(shrunk, np.float32).reshape(size[1], size[0], -1)


def _detail(gray: npt.NDArray[np.float32]) -> float:
    """Contrast of the finest octave over that of the finest two: about 0.6 under a 1/f spectrum, near 0 after enlarging."""
    height, width = gray.shape
    if min(height, width) < 8:
        return 0.0
    finest, two = (float((gray - _through(gray, 2**octaves)).std()) for octaves in (1, 2))
    return finest / two if two > 1e-3 else 0.0


def _through(gray: npt.NDArray[np.float32], factor: int) -> npt.NDArray[np.float32]:
    """Made smaller by a factor and large again."""
    height, width = gray.shape
    coarse = cv2.resize(gray, (width // factor, height // factor), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC))


def _border(pixels: AnyPixels) -> float:
    """Share of the outermost ring that has its most frequent colour, exactly."""
    ring = np.concatenate([pixels[0], pixels[-1], pixels[1:-1, 0], pixels[1:-1, -1]])
    _, counts = np.unique(ring, axis=0, return_counts=True)
    return float(counts.max() / len(ring))


def _interleaved(real: npt.NDArray[np.float32]) -> float:
    """Memory of a (3, H, W) tensor read as (H, W, 3): mean difference of neighbours over that of values 3 apart."""
    flat = real.reshape(-1)
    if flat.size < 4:
        return 0.0
    near, far = float(np.abs(flat[1:] - flat[:-1]).mean()), float(np.abs(flat[3:] - flat[:-3]).mean())
    return near / far if far > 0 else 0.0


def _thumbnail(small: Pixels) -> npt.NDArray[np.uint8]:
    tiny = cv2.resize(small, (THUMBNAIL_PX, THUMBNAIL_PX), interpolation=cv2.INTER_AREA)
    rgb = np.broadcast_to(tiny.reshape(THUMBNAIL_PX, THUMBNAIL_PX, -1), (THUMBNAIL_PX, THUMBNAIL_PX, 3))
    return np.asarray(np.rint(rgb.clip(0, 255)), np.uint8)


def _face_look(face: Face, pixels: AnyPixels) -> FaceLook:
    height, width, _ = pixels.shape
    x, y, w, h = face.box_xywh

    def part(keep: float) -> Pixels:
        """The middle of the box, `keep` of its width and height, inside the picture."""
        x0, x1 = (int(np.clip(x + w * (0.5 + side * keep / 2), 0, width)) for side in (-1, 1))
        y0, y1 = (int(np.clip(y + h * (0.5 + side * keep / 2), 0, height)) for side in (-1, 1))
        return pixels[y0 : max(y1, y0 + 1), x0 : max(x1, x0 + 1)].astype(np.float32)

    whole, middle = part(1.0), part(0.5)
    empty = not (whole.size and middle.size)
    return FaceLook(
        face=face,
        share=w * h / (width * height),
        std=0.0 if empty else float(whole.mean(axis=2).std()),
        red_over_blue=0.0 if empty else float((middle[..., 0] - middle[..., -1]).mean()),
    )

"""The verify pictures as data URIs, small enough that the page stays light.

Lossless PNG while all of them fit; else JPEG at falling size and quality, and the page says so: a picture that hides the
engine's faults behind its own would be worse than none. The untouched files stay in the report folder.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fts.imaging.opencv import cv2
from fts_converters.side_by_side import ROLES

Picture = npt.NDArray[np.uint8]

# Base64 makes 4 characters of 3 bytes: 1.5 MB of files are 2 MB of the page's 3.
BUDGET_BYTES = 1_500_000
# (longest side in pixels, JPEG quality), tried in this order.
JPEG_STEPS = ((1024, 95), (768, 92), (512, 90), (384, 85), (256, 80))


@dataclass(frozen=True, slots=True, kw_only=True)
class Triple:
    """One sample of the verify split, as `data:` URIs."""

    name: str
    width_px: int
    height_px: int
    input: str
    fp32: str
    engine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureSet:
    """All samples, and how they were made smaller ("" when they were not)."""

    triples: tuple[Triple, ...] = ()
    note: str = ""


def read_pictures(folder: Path) -> PictureSet:
    """Read `verify_<n>_{input,fp32,engine}.png`; an absent folder gives no pictures."""
    groups = []
    for first in sorted(folder.glob("verify_*_input.png")):
        stem = first.name.removesuffix("_input.png")
        paths = [folder / f"{stem}_{role}.png" for role in ROLES]
        if all(p.is_file() for p in paths):
            groups.append((stem.replace("verify_", "Sample "), [p.read_bytes() for p in paths]))
    return picture_set(groups)


def picture_set(groups: Sequence[tuple[str, Sequence[bytes]]]) -> PictureSet:
    """Encode PNG files, three a sample, so that all together stay under BUDGET_BYTES."""
    if sum(len(data) for _, files in groups for data in files) <= BUDGET_BYTES:
        return PictureSet(triples=tuple(_triple(name, files, "png") for name, files in groups))
    for side_px, quality in JPEG_STEPS:
        smaller = [(name, [_jpeg(data, side_px, quality) for data in files]) for name, files in groups]
        if sum(len(data) for _, files in smaller for data in files) <= BUDGET_BYTES:
            break
    note = f"shown here as JPEG (quality {quality}, at most {side_px} px); the PNG files lie beside the bundle"
    return PictureSet(triples=tuple(_triple(name, files, "jpeg") for name, files in smaller), note=note)


def _triple(name: str, files: Sequence[bytes], kind: str) -> Triple:
    height, width = _decoded(files[-1]).shape[:2]
    shown = [f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}" for data in files]
    return Triple(name=name, width_px=width, height_px=height, input=shown[0], fp32=shown[1], engine=shown[2])


def _jpeg(data: bytes, side_px: int, quality: int) -> bytes:
    picture = _decoded(data)
    scale = side_px / max(picture.shape[:2])
    if scale < 1:
        picture = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    flags = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]
    _, encoded = cv2.imencode(".jpg", picture, flags)
    return bytes(encoded.tobytes())


def _decoded(data: bytes) -> Picture:
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if picture is None:
        raise ValueError("a picture of the report folder cannot be decoded")
    decoded: Picture = picture.astype(np.uint8, copy=False)
    return decoded

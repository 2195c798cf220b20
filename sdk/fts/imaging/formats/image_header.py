"""What the bytes of a picture file say about it before anything is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ImageFormat = Literal["png", "jpeg", "webp", "tiff", "bmp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageHeader:
    """Format, size and state of a picture file.

    Attributes:
        format: What the contents are, whatever the name says.
        width_px: Stored width, before any EXIF orientation.
        height_px: Stored height, likewise.
        complete: Every part that the format promises is in the file.
        reason: What is missing; empty when complete.
        unsupported: Why the decoder would show other colours, or one picture of several; empty when it would not.
        bit_depth: Bits a sample, 16 where more than 8 have to be brought down.
        orientation: EXIF orientation 1..8 that the decoder has to apply; 1 for TIFF, whose decoder does it itself.
        has_alpha: Set for TIFF alone, whose decoder multiplies colours by alpha.
    """

    format: ImageFormat
    width_px: int
    height_px: int
    complete: bool
    reason: str = ""
    unsupported: str = ""
    bit_depth: int = 8
    orientation: int = 1
    has_alpha: bool = False

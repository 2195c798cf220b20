"""Picture files to frames and back: BGR uint8 (H, W, 3), upright, or an error; never half a picture.

Colours are what training loaders see (Pillow's convert("RGB")): transparency is dropped, not laid over a background,
so a fully transparent pixel has the colour that is stored under it. Embedded colour profiles are not applied.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fts.errors import ImageDecodeError, SourceError, UsageError
from fts.imaging.header import MAX_PIXELS, header_from_bytes
from fts.imaging.opencv import cv2, quiet_opencv

picture_suffixes: tuple[str, ...] = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp")

_JPEG_QUALITY = 95  # OpenCV's default, spelled out because outputs are compared between releases


def is_picture_name(name: str) -> bool:
    """True when the name's suffix, in any case, is one of a picture format read here."""
    return name.lower().endswith(picture_suffixes)


def decode_bgr(data: bytes, *, max_pixels: int = MAX_PIXELS) -> npt.NDArray[np.uint8]:
    """Decode a picture file.

    16-bit samples become v / 257 rounded, so that full white is 255 and v * 257 is v. Of a TIFF with several pages
    the first one is read.

    Args:
        data: The whole file; the format is told from the contents.
        max_pixels: Pictures with more pixels are refused before anything is decoded.

    Returns:
        BGR uint8 (H, W, 3), C-contiguous, EXIF orientation applied.

    Raises:
        ImageDecodeError: No picture, incomplete, damaged, too large, or of a kind whose colours would be wrong; the
            text is the reason alone.
    """
    header = header_from_bytes(data, max_pixels=max_pixels)
    size, pixels = f"{header.width_px}x{header.height_px}", header.width_px * header.height_px
    if pixels > max_pixels:
        raise ImageDecodeError(f"{size} is {pixels} pixels, the limit is {max_pixels}")
    if header.unsupported:
        raise ImageDecodeError(header.unsupported)
    if not header.complete:
        raise ImageDecodeError(header.reason)
    if header.has_alpha:
        _require_opaque(data)
    stored = _decode(data, cv2.IMREAD_COLOR | (cv2.IMREAD_ANYDEPTH if header.bit_depth == 16 else 0))
    if sorted(stored.shape[:2]) != sorted((header.height_px, header.width_px)):
        raise ImageDecodeError(f"damaged: decoded to {stored.shape[1]}x{stored.shape[0]}, the header says {size}")
    if stored.dtype == np.uint16:
        # The product is never within float32 rounding of a half: 257 is odd, so v / 257 is at least 1/514 away from it.
        stored = cv2.convertScaleAbs(stored, alpha=1 / 257)
    if stored.dtype != np.uint8 or stored.ndim != 3 or stored.shape[2] != 3:
        raise ImageDecodeError(f"OpenCV decodes it to {stored.dtype} {stored.shape}, not to colours")
    return np.ascontiguousarray(_upright(stored, header.orientation), dtype=np.uint8)


def read_bgr(path: str | os.PathLike[str]) -> npt.NDArray[np.uint8]:
    """Read a picture from disk; names outside ASCII work, because Python reads the bytes.

    Args:
        path: The file.

    Returns:
        BGR uint8 (H, W, 3).

    Raises:
        SourceError: The file cannot be read or decoded; the text names it.
    """
    try:
        return decode_bgr(Path(path).read_bytes())
    except OSError as cause:
        raise SourceError(f"{os.fspath(path)}: cannot be read ({cause.strerror or cause})") from cause
    except ImageDecodeError as cause:
        raise SourceError(f"{os.fspath(path)}: {cause}") from cause


def write_image(path: str | os.PathLike[str], bgr: npt.NDArray[np.uint8]) -> None:
    """Write a picture in the format of the suffix; the name appears only when the file is whole.

    Args:
        path: Where to; the suffix, in any case, chooses the format.
        bgr: BGR uint8 (H, W, 3), or (H, W) for grey.

    Raises:
        UsageError: The suffix is not one of a format written here.
        SourceError: The picture cannot be encoded or the file cannot be written.
    """
    target = Path(path)
    if not is_picture_name(target.name):
        raise UsageError(
            f"{target}: cannot write a picture with this suffix; these work: {', '.join(picture_suffixes)}"
        )
    options = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY] if target.suffix.lower() in (".jpg", ".jpeg") else []
    try:
        with quiet_opencv():
            ok, encoded = cv2.imencode(target.suffix.lower(), np.ascontiguousarray(bgr), options)
    except cv2.error as cause:
        raise SourceError(
            f"{target}: cannot encode {bgr.dtype} {bgr.shape} as {target.suffix} ({cause.err})"
        ) from cause
    if not ok:
        raise SourceError(f"{target}: cannot encode {bgr.dtype} {bgr.shape} as {target.suffix}")
    beside = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        beside.write_bytes(encoded.tobytes())
        os.replace(beside, target)
    except OSError as cause:
        raise SourceError(f"{target}: cannot be written ({cause.strerror or cause})") from cause
    finally:
        beside.unlink(missing_ok=True)


def _decode(data: bytes, flags: int) -> npt.NDArray[np.generic]:
    """Decode as stored; OpenCV's exceptions and None become one error."""
    try:
        with quiet_opencv():
            pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error as cause:
        raise ImageDecodeError("damaged: the picture data cannot be decoded") from cause
    if pixels is None:
        raise ImageDecodeError("damaged: the picture data cannot be decoded")
    decoded: npt.NDArray[np.generic] = pixels
    return decoded


def _require_opaque(data: bytes) -> None:
    """Refuse a TIFF with transparent pixels: libtiff multiplies its colours by alpha, and the loss cannot be undone."""
    pixels = _decode(data, cv2.IMREAD_UNCHANGED)
    opaque = 65535 if pixels.dtype == np.uint16 else 255
    if pixels.ndim == 3 and pixels.shape[2] == 4 and pixels[..., 3].min() < opaque:
        raise ImageDecodeError("TIFF with transparent pixels: its colours would be darkened; save it as PNG")


def _upright(stored: npt.NDArray[np.generic], orientation: int) -> npt.NDArray[np.generic]:
    """Undo an EXIF orientation (EXIF 2.32, tag 0x0112); stored and result are (H, W, 3), 5..8 swap H and W."""
    rows = -1 if orientation in (3, 4, 6, 7) else 1
    columns = -1 if orientation in (2, 3, 7, 8) else 1
    flipped = stored[::rows, ::columns]
    return flipped.swapaxes(0, 1) if orientation >= 5 else flipped

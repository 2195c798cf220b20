"""Format, size and completeness of a picture file from its bytes alone, before anything is decoded.

Decoders return half a picture and a line on stderr where a file is cut off; here such a file has `complete = False`
and a reason.
"""

from __future__ import annotations

from fts.errors import ImageDecodeError
from fts.imaging.formats import bmp, jpeg, png, tiff, webp
from fts.imaging.formats.image_header import ImageFormat, ImageHeader

__all__ = ["MAX_PIXELS", "ImageFormat", "ImageHeader", "header_from_bytes"]

# Pillow's limit for its DecompressionBombError, 2 * 89,478,485 (89,478,485 = 2**28 / 3, a quarter GiB of RGB):
# https://pillow.readthedocs.io/en/stable/reference/Image.html#PIL.Image.open
MAX_PIXELS = 178_956_970

# Pictures that people have and this library does not read, by signature and its offset.
_KNOWN_OTHERS = (
    (0, b"GIF87a", "GIF"),
    (0, b"GIF89a", "GIF"),
    (4, b"ftypavif", "AVIF"),
    (4, b"ftypheic", "HEIC"),
    (4, b"ftypheix", "HEIC"),
    (4, b"ftypmif1", "HEIF"),
    (4, b"jP  \r\n\x87\n", "JPEG 2000"),
    (0, b"8BPS", "Photoshop"),
)


def header_from_bytes(data: bytes, *, max_pixels: int = MAX_PIXELS) -> ImageHeader:
    """Read what a picture file says about itself.

    Args:
        data: The whole file.
        max_pixels: Larger pictures are not checked further than their header.

    Returns:
        The header, also of files that are incomplete or of a kind that is not read.

    Raises:
        ImageDecodeError: The contents are no picture of a format read here, or end before the size is known.
    """
    if not data:
        raise ImageDecodeError("empty file (0 bytes)")
    if data.startswith(png.SIGNATURE):
        return png.header_from_png(data, max_pixels)
    if data.startswith(jpeg.SIGNATURE):
        return jpeg.header_from_jpeg(data)
    if webp.is_webp(data):
        return webp.header_from_webp(data)
    if data.startswith(tiff.SIGNATURES):
        return tiff.header_from_tiff(data)
    if data.startswith(bmp.SIGNATURE):
        return bmp.header_from_bmp(data)
    if data.startswith(tiff.BIG_SIGNATURES):
        raise ImageDecodeError("BigTIFF is not read: save it as TIFF or PNG")
    for offset, signature, name in _KNOWN_OTHERS:
        if data.startswith(signature, offset):
            raise ImageDecodeError(f"{name} is not read: save it as PNG or JPEG")
    raise ImageDecodeError(f"not a picture: starts with {_readable(data[:12])}")


def _readable(start: bytes) -> str:
    text = start.decode("latin-1").rstrip("\n\r\0 ")
    return repr(text) if text.isascii() and text.isprintable() and text else start.hex(" ")

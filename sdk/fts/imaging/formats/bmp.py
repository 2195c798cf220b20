"""BMP: a file header with the offset of the pixel array, an info header, and the array.

Source:
    Microsoft Win32: BITMAPFILEHEADER, BITMAPCOREHEADER, BITMAPINFOHEADER.
"""

from __future__ import annotations

import struct

from fts.errors import ImageDecodeError
from fts.imaging.formats.image_header import ImageHeader

SIGNATURE = b"BM"

_RLE8, _RLE4 = 1, 2
_CORE_HEADER_BYTES = 12


def header_from_bmp(data: bytes) -> ImageHeader:
    """Read both headers of a BMP file.

    Args:
        data: The file, starting with BM.

    Returns:
        The header; complete only when the pixel array lies inside the file.

    Raises:
        ImageDecodeError: The headers are cut off or impossible.
    """
    if len(data) < 26:
        raise ImageDecodeError("BMP cut off inside its header")
    offset, header_bytes = struct.unpack_from("<II", data, 10)
    compression, stored_bytes = 0, 0
    if header_bytes == _CORE_HEADER_BYTES:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
    elif len(data) >= 38 and header_bytes >= 40:
        width, height, _, bits, compression, stored_bytes = struct.unpack_from("<iiHHII", data, 18)
    else:
        raise ImageDecodeError("BMP cut off inside its header")
    height = abs(height)  # a negative height only says that rows run top-down
    if width <= 0 or not height or bits not in (1, 4, 8, 16, 24, 32):
        raise ImageDecodeError(f"damaged BMP header: {width}x{height}, {bits} bits a pixel")
    run_length_coded = compression in (_RLE8, _RLE4)
    needed = stored_bytes if run_length_coded else height * ((width * bits + 31) // 32 * 4)
    reason = ""
    if offset + needed > len(data):
        reason = f"truncated BMP: {len(data)} of {offset + needed} bytes"
    elif run_length_coded and data[offset : offset + needed][-2:] != b"\0\1":
        reason = "truncated BMP: its run-length code has no end-of-bitmap mark"
    return ImageHeader(format="bmp", width_px=width, height_px=height, complete=not reason, reason=reason)

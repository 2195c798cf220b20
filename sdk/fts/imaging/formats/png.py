"""PNG: chunks with a CRC each, up to IEND; the IDAT chunks together are one zlib stream of all scan lines.

Source:
    PNG (Third Edition), W3C, sections 5 (chunks), 8.1 (Adam7), 7.2 (scan lines), 11.2.2 (IHDR).
"""

from __future__ import annotations

import struct
import zlib

from fts.errors import ImageDecodeError
from fts.imaging.formats.exif import orientation_from_exif
from fts.imaging.formats.image_header import ImageHeader

SIGNATURE = b"\x89PNG\r\n\x1a\n"

_SAMPLES_BY_COLOR_TYPE = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
# Adam7 passes: first column, first row, column step, row step.
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_INFLATE_STEP_BYTES = 1 << 20


def header_from_png(data: bytes, max_pixels: int) -> ImageHeader:
    """Walk the chunks of a PNG file.

    Args:
        data: The file, starting with the signature.
        max_pixels: The zlib stream of a larger picture is not measured: such a picture is refused anyway.

    Returns:
        The header; complete only when each CRC is right and the zlib stream holds every scan line.
    """
    if len(data) < 33 or data[12:16] != b"IHDR":
        raise ImageDecodeError("PNG cut off inside its header")
    width, height, depth, color_type, _, _, interlace = struct.unpack_from(">IIBBBBB", data, 16)
    if not width or not height or color_type not in _SAMPLES_BY_COLOR_TYPE or depth not in (1, 2, 4, 8, 16):
        raise ImageDecodeError(f"damaged PNG header: {width}x{height}, depth {depth}, colour type {color_type}")
    reason, unsupported, orientation, pieces = "truncated PNG: it ends before IEND", "", 1, []
    at = 8
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            break
        body = memoryview(data)[at + 8 : end - 4]
        if zlib.crc32(memoryview(data)[at + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            reason = f"damaged PNG: wrong checksum in chunk {kind.decode('latin-1')}"
            break
        if kind == b"IDAT":
            pieces.append(body)
        elif kind == b"acTL":
            unsupported = "animated PNG: save one frame as a picture of its own"
        elif kind == b"eXIf":
            orientation = orientation_from_exif(bytes(body))
        elif kind == b"IEND":
            reason = ""
            break
        at = end
    if not reason and width * height <= max_pixels:
        expected = _scan_line_bytes(
            width, height, depth * _SAMPLES_BY_COLOR_TYPE[color_type], interlaced=interlace == 1
        )
        reason = _missing_scan_lines(pieces, expected)
    return ImageHeader(
        format="png",
        width_px=width,
        height_px=height,
        complete=not reason,
        reason=reason,
        unsupported=unsupported,
        bit_depth=16 if depth == 16 else 8,
        orientation=orientation,
    )


def _scan_line_bytes(width: int, height: int, bits_per_pixel: int, *, interlaced: bool) -> int:
    """Size of the inflated data: per scan line one filter byte and the packed pixels."""
    passes = _ADAM7 if interlaced else ((0, 0, 1, 1),)
    total = 0
    for x0, y0, dx, dy in passes:
        columns, rows = -(-(width - x0) // dx), -(-(height - y0) // dy)
        if columns > 0 and rows > 0:
            total += rows * (1 + (columns * bits_per_pixel + 7) // 8)
    return total


def _missing_scan_lines(pieces: list[memoryview], expected: int) -> str:
    """Inflate in small steps and count; decoders fill what is missing with black and only print a warning."""
    inflate, found = zlib.decompressobj(), 0
    try:
        for piece in pieces:
            pending: bytes | memoryview = piece
            while pending and found < expected:
                found += len(inflate.decompress(pending, min(_INFLATE_STEP_BYTES, expected - found)))
                pending = inflate.unconsumed_tail
    except zlib.error as error:
        return f"damaged PNG: its compressed data cannot be read ({error})"
    if found < expected:
        return f"truncated PNG: {found} of {expected} bytes of scan lines"
    return ""

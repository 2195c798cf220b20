"""WebP: a RIFF container with one VP8 or VP8L picture, or a VP8X header in front of parts.

Source:
    RFC 9649: sections 2.3-2.7 (container), 3.4 (VP8L header); RFC 6386, section 9.1 (VP8 frame header).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from fts.errors import ImageDecodeError
from fts.imaging.formats.exif import orientation_from_exif
from fts.imaging.formats.image_header import ImageHeader

_ANIMATION_FLAG = 0x02


def is_webp(data: bytes) -> bool:
    """True when the bytes start like a WebP file."""
    return data[:4] == b"RIFF" and data[8:12] == b"WEBP"


def header_from_webp(data: bytes) -> ImageHeader:
    """Walk the chunks of a WebP file.

    Args:
        data: The file, starting with RIFF....WEBP.

    Returns:
        The header; complete only when the RIFF size fits into the file and the picture's chunk into the RIFF.

    Raises:
        ImageDecodeError: The file ends or breaks before its size is known.
    """
    riff_end = 8 + struct.unpack_from("<I", data, 4)[0]
    size: tuple[int, int] | None = None
    reason, unsupported, orientation, has_picture = "", "", 1, False
    if riff_end > len(data):
        reason = f"truncated WebP: {len(data)} of {riff_end} bytes"
    for kind, body, whole in _chunks(data, min(riff_end, len(data))):
        if kind == b"VP8X" and len(body) >= 10:
            size = 1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little")
            if body[0] & _ANIMATION_FLAG:
                unsupported = "animated WebP: save one frame as a picture of its own"
        elif kind in (b"VP8 ", b"VP8L"):
            size = size or _size_from_bitstream(kind, body)
            has_picture = whole
        elif kind == b"EXIF" and whole:
            orientation = orientation_from_exif(bytes(body))
    if size is None:
        raise ImageDecodeError(reason or "damaged WebP: no picture inside")
    if not reason and not has_picture and not unsupported:
        reason = "damaged WebP: its picture chunk is missing or cut off"
    return ImageHeader(
        format="webp",
        width_px=size[0],
        height_px=size[1],
        complete=not reason,
        reason=reason,
        unsupported=unsupported,
        orientation=orientation,
    )


def _chunks(data: bytes, end: int) -> Iterator[tuple[bytes, memoryview, bool]]:
    """Yield (FourCC, body, whether the body is whole); bodies are padded to even length."""
    at = 12
    while at + 8 <= end:
        kind, length = struct.unpack_from("<4sI", data, at)
        body = memoryview(data)[at + 8 : min(at + 8 + length, end)]
        yield kind, body, len(body) == length
        at += 8 + length + length % 2


def _size_from_bitstream(kind: bytes, body: memoryview) -> tuple[int, int] | None:
    """Width and height from the first bytes of the picture itself; None when they are not there."""
    if kind == b"VP8 " and len(body) >= 10 and bytes(body[3:6]) == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", body, 6)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and len(body) >= 5 and body[0] == 0x2F:
        bits = int.from_bytes(body[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return None

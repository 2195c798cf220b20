"""The orientation tag of an EXIF block, which is a little TIFF file.

Read here, not by OpenCV: its releases differ in the formats they honour it for (WebP not before 4.11).

Source:
    EXIF 2.32 (CIPA DC-008), section 4.6.4: tag 0x0112, SHORT, 1..8.
"""

from __future__ import annotations

import struct

_ORIENTATION_TAG = 0x0112
_SHORT = 3


def orientation_from_exif(exif: bytes) -> int:
    """Read the orientation from an EXIF block, with or without its "Exif" prefix.

    Args:
        exif: The block's bytes.

    Returns:
        1..8; 1 (as stored) when the block has no such tag or is damaged, as every viewer does.
    """
    block = exif[6:] if exif.startswith(b"Exif\0") else exif
    endian = {b"II": "<", b"MM": ">"}.get(block[:2])
    if endian is None:
        return 1
    try:
        (offset,) = struct.unpack_from(endian + "I", block, 4)
        (count,) = struct.unpack_from(endian + "H", block, offset)
        for index in range(count):
            tag, kind, _, value = struct.unpack_from(endian + "HHIH", block, offset + 2 + 12 * index)
            if tag == _ORIENTATION_TAG and kind == _SHORT:
                return int(value) if 1 <= value <= 8 else 1
    except struct.error:
        return 1
    return 1

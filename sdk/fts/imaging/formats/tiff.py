"""TIFF: directories of tags; the first one describes the picture that is read, others are further pages.

OpenCV reads some kinds of TIFF wrongly and says nothing: 16-bit grey with white as 0 comes out inverted, 16-bit planes
stored one after another come out scrambled, and colours with 8-bit alpha come out multiplied by it (seen with 4.8 and
5.0). They are refused here, with the way out.

Source:
    TIFF 6.0 (Adobe, 1992), sections 2 (structure), 8 (baseline tags), 15 (tiles), 18 (ExtraSamples), 19 (SampleFormat).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from fts.errors import ImageDecodeError
from fts.imaging.formats.image_header import ImageHeader

SIGNATURES = (b"II*\0", b"MM\0*")
BIG_SIGNATURES = (b"II+\0", b"MM\0+")

_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC = 256, 257, 258, 262
_STRIP_OFFSETS, _SAMPLES, _ROWS_PER_STRIP, _STRIP_COUNTS, _PLANAR = 273, 277, 278, 279, 284
_TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_COUNTS = 322, 323, 324, 325
_EXTRA_SAMPLES, _SAMPLE_FORMAT = 338, 339

_FORMAT_BY_TYPE = {1: "B", 3: "H", 4: "I"}  # BYTE, SHORT, LONG: the types of every tag read here
_UNSIGNED, _FLOAT = 1, 3
_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _PALETTE, _CMYK, _YCBCR = 0, 1, 2, 3, 5, 6
_ASSOCIATED_ALPHA, _UNASSOCIATED_ALPHA = 1, 2
_SEPARATE_PLANES = 2

_Tags = Mapping[int, tuple[int, ...]]


def header_from_tiff(data: bytes) -> ImageHeader:
    """Read the first directory of a TIFF file.

    Args:
        data: The file, starting with II*. or MM.*

    Returns:
        The header; complete only when all strips or tiles of the first page are listed and lie inside the file.

    Raises:
        ImageDecodeError: The directory is cut off or lacks the size.
    """
    tags = _first_directory(data)
    width, height = _one(tags, _WIDTH, 0), _one(tags, _HEIGHT, 0)
    if not width or not height:
        raise ImageDecodeError(f"damaged TIFF: size {width}x{height}")
    reason = _missing_data(tags, width, height, len(data))
    return ImageHeader(
        format="tiff",
        width_px=width,
        height_px=height,
        complete=not reason,
        reason=reason,
        unsupported=_refusal(tags),
        bit_depth=16 if max(tags.get(_BITS, (1,))) == 16 else 8,
        has_alpha=_has_alpha(tags),
    )


def _first_directory(data: bytes) -> _Tags:
    """Tag number to values, for the tags with integer values."""
    endian = "<" if data[:2] == b"II" else ">"
    tags: dict[int, tuple[int, ...]] = {}
    try:
        (offset,) = struct.unpack_from(endian + "I", data, 4)
        (entries,) = struct.unpack_from(endian + "H", data, offset)
        for index in range(entries):
            at = offset + 2 + 12 * index
            tag, kind, count = struct.unpack_from(endian + "HHI", data, at)
            if kind not in _FORMAT_BY_TYPE or count > len(data):
                continue
            form = f"{endian}{count}{_FORMAT_BY_TYPE[kind]}"
            if struct.calcsize(form) > 4:
                (where,) = struct.unpack_from(endian + "I", data, at + 8)
            else:
                where = at + 8
            tags[tag] = struct.unpack_from(form, data, where)
    except struct.error as cause:
        raise ImageDecodeError("truncated TIFF: its first directory is cut off") from cause
    return tags


def _one(tags: _Tags, tag: int, default: int) -> int:
    values = tags.get(tag, ())
    return values[0] if values else default


def _missing_data(tags: _Tags, width: int, height: int, file_bytes: int) -> str:
    """What is wrong with the list of strips or tiles, or an empty text."""
    planes = _one(tags, _SAMPLES, 1) if _one(tags, _PLANAR, 1) == _SEPARATE_PLANES else 1
    if _TILE_OFFSETS in tags:
        offsets, counts = tags[_TILE_OFFSETS], tags.get(_TILE_COUNTS, ())
        across, down = max(_one(tags, _TILE_WIDTH, 1), 1), max(_one(tags, _TILE_HEIGHT, 1), 1)
        expected = -(-width // across) * -(-height // down) * planes
    else:
        offsets, counts = tags.get(_STRIP_OFFSETS, ()), tags.get(_STRIP_COUNTS, ())
        rows = max(min(_one(tags, _ROWS_PER_STRIP, height), height), 1)
        expected = -(-height // rows) * planes
    if len(offsets) < expected or len(counts) < expected:
        return f"truncated TIFF: {min(len(offsets), len(counts))} of {expected} strips or tiles are listed"
    for offset, count in zip(offsets[:expected], counts[:expected], strict=True):
        if count == 0 or offset + count > file_bytes:
            return f"truncated TIFF: picture data up to byte {offset + count}, the file has {file_bytes}"
    return ""


def _has_alpha(tags: _Tags) -> bool:
    extra = tags.get(_EXTRA_SAMPLES, ())
    return _ASSOCIATED_ALPHA in extra or _UNASSOCIATED_ALPHA in extra


def _refusal(tags: _Tags) -> str:
    """Why OpenCV would return other colours than the file holds, or an empty text."""
    sample_format, bits = _one(tags, _SAMPLE_FORMAT, _UNSIGNED), set(tags.get(_BITS, (1,)))
    photometric, samples = _one(tags, _PHOTOMETRIC, _BLACK_IS_ZERO), _one(tags, _SAMPLES, 1)
    if sample_format == _FLOAT:
        return "TIFF with floating-point samples: its white level is unknown; save it with 8 or 16 bits"
    if sample_format != _UNSIGNED or not bits <= {1, 2, 4, 8, 16} or len(bits) > 1:
        return f"TIFF with samples of {sorted(bits)} bits, format {sample_format}: save it with 8 or 16 bits"
    if photometric not in (_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _PALETTE, _CMYK, _YCBCR):
        return f"TIFF in a colour space that is not read (PhotometricInterpretation {photometric}): save it as RGB"
    if bits == {16}:
        plain = (photometric, samples) in ((_BLACK_IS_ZERO, 1), (_RGB, 3), (_RGB, 4))
        if not plain or (samples > 1 and _one(tags, _PLANAR, 1) == _SEPARATE_PLANES):
            return "16-bit TIFF that is neither plain grey nor interleaved RGB: save it as PNG"
    if samples == 2 and _ASSOCIATED_ALPHA in tags.get(_EXTRA_SAMPLES, ()):
        return "grey TIFF multiplied by its transparency: save it as PNG"
    return ""

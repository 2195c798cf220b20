"""JPEG: marker segments, then scans of entropy-coded data, up to the end-of-image marker.

A decoder fills a picture that stops early with grey and only prints a warning; hence the walk to EOI. Damage inside
the entropy-coded data that keeps the markers intact is not seen here: JPEG has no checksum.

Source:
    ITU-T T.81, Annex B (markers, byte stuffing); Adobe Technical Note 5116 (APP14 and inverted inks).
"""

from __future__ import annotations

import struct

from fts.errors import ImageDecodeError
from fts.imaging.formats.exif import orientation_from_exif
from fts.imaging.formats.image_header import ImageHeader

SIGNATURE = b"\xff\xd8\xff"

_SOF_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_HUFFMAN_DCT = frozenset({0xC0, 0xC1, 0xC2})  # baseline, extended sequential, progressive: what every decoder reads
_RESTART_OR_STUFFING = frozenset({0x00, *range(0xD0, 0xD8)})
_SOS, _EOI, _APP1, _APP14, _TEM = 0xDA, 0xD9, 0xE1, 0xEE, 0x01


def header_from_jpeg(data: bytes) -> ImageHeader:
    """Walk segments and scans of a JPEG file.

    Args:
        data: The file, starting with SOI.

    Returns:
        The header; complete only when every component has a scan and EOI follows the last one.

    Raises:
        ImageDecodeError: The file ends or breaks before its size is known.
    """
    frame: _Frame | None = None
    adobe, orientation, scanned = False, 1, set[int]()
    reason = "truncated JPEG: it ends before the end-of-image marker"
    at = 2
    while at + 2 <= len(data):
        if data[at] != 0xFF:
            reason = f"damaged JPEG: no marker at byte {at}"
            break
        marker = data[at + 1]
        if marker in (0xFF, _TEM) or marker in _RESTART_OR_STUFFING:
            at += 1 if marker == 0xFF else 2
            continue
        if marker == _EOI:
            reason = "" if frame and scanned >= frame.components else "truncated JPEG: a colour component has no scan"
            break
        if at + 4 > len(data):
            break
        end = at + 2 + struct.unpack_from(">H", data, at + 2)[0]
        body = data[at + 4 : end]
        if end > len(data):
            break
        if marker in _SOF_MARKERS:
            frame = _frame_from_segment(marker, body)
        elif marker == _APP1 and body.startswith(b"Exif\0"):
            orientation = orientation_from_exif(body)
        elif marker == _APP14 and body.startswith(b"Adobe"):
            adobe = True
        elif marker == _SOS:
            count = body[0] if body else 0
            scanned.update(body[1 : 1 + 2 * count : 2])
            end = _end_of_scan(data, end)
        at = end
    if frame is None:
        raise ImageDecodeError(reason)
    return ImageHeader(
        format="jpeg",
        width_px=frame.width,
        height_px=frame.height,
        complete=not reason,
        reason=reason,
        unsupported=frame.refusal(adobe=adobe),
        orientation=orientation,
    )


class _Frame:
    """The start-of-frame segment."""

    def __init__(self, marker: int, precision: int, height: int, width: int, components: frozenset[int]) -> None:
        self.marker, self.precision, self.height, self.width = marker, precision, height, width
        self.components = components

    def refusal(self, *, adobe: bool) -> str:
        """Why decoders disagree about this kind of JPEG, or an empty text."""
        if self.marker not in _HUFFMAN_DCT or self.precision != 8:
            return f"JPEG of a rare kind (SOF{self.marker - 0xC0}, {self.precision} bits): save it as 8-bit baseline"
        if len(self.components) not in (1, 3, 4):
            return f"JPEG with {len(self.components)} colour components"
        if len(self.components) == 4 and not adobe:
            # With the marker inks are stored inverted; without it nobody can tell, and half of the files would come
            # out as negatives.
            return "CMYK JPEG without an Adobe marker: whether its inks are inverted is unknown; save it as RGB"
        return ""


def _frame_from_segment(marker: int, body: bytes) -> _Frame:
    """Parse SOFn: precision, height, width, and 3 bytes a component that start with its id."""
    if len(body) < 6 or len(body) < 6 + 3 * body[5] or not body[5]:
        raise ImageDecodeError("damaged JPEG: its frame header is too short")
    precision, height, width, count = struct.unpack_from(">BHHB", body)
    if not width or not height:
        raise ImageDecodeError(f"damaged JPEG: size {width}x{height}")
    return _Frame(marker, precision, height, width, frozenset(body[6 : 6 + 3 * count : 3]))


def _end_of_scan(data: bytes, at: int) -> int:
    """Position of the first marker behind entropy-coded data that is neither stuffing nor a restart."""
    while True:
        at = data.find(b"\xff", at)
        if at < 0 or at + 1 >= len(data):
            return len(data)
        if data[at + 1] == 0xFF:
            at += 1  # fill byte
        elif data[at + 1] in _RESTART_OR_STUFFING:
            at += 2
        else:
            return at

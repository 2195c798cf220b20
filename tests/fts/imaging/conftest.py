"""Picture files written by hand, so that tests do not depend on what OpenCV can write."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import cv2
import numpy as np
import pytest

Array = np.ndarray


class PictureBytes:
    """Makers of file contents; pixels are RGB (H, W, 3) or grey (H, W)."""

    @staticmethod
    def scene(seed: int = 0, height: int = 24, width: int = 40) -> Array:
        """A smooth RGB picture without symmetry, so that every flip, swap and inversion shows."""
        rng = np.random.default_rng(seed)
        coarse = rng.integers(10, 240, (4, 5, 3), dtype=np.uint8)
        return cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR)

    @staticmethod
    def encoded(suffix: str, rgb: Array, *options: int) -> bytes:
        ok, data = cv2.imencode(suffix, np.ascontiguousarray(rgb[..., ::-1]), list(options))
        assert ok
        return data.tobytes()

    @staticmethod
    def png_chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    def png(
        self,
        rows: Sequence[bytes],
        width: int,
        depth: int,
        color_type: int,
        *,
        before_data: bytes = b"",
        height: int | None = None,
    ) -> bytes:
        """Scan lines without filter bytes; `before_data` holds whole chunks (PLTE, tRNS, eXIf, acTL)."""
        header = struct.pack(">IIBBBBB", width, len(rows) if height is None else height, depth, color_type, 0, 0, 0)
        data = zlib.compress(b"".join(b"\0" + row for row in rows))
        chunks = self.png_chunk(b"IHDR", header) + before_data
        return b"\x89PNG\r\n\x1a\n" + chunks + self.png_chunk(b"IDAT", data) + self.png_chunk(b"IEND", b"")

    def exif(self, orientation: int, endian: str = "<") -> bytes:
        mark = b"II*\0" if endian == "<" else b"MM\0*"
        entry = struct.pack(endian + "HHIHH", 0x0112, 3, 1, orientation, 0)
        return mark + struct.pack(endian + "IH", 8, 1) + entry + struct.pack(endian + "I", 0)

    def jpeg_with_segment(self, jpeg: bytes, marker: int, body: bytes) -> bytes:
        return jpeg[:2] + bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body + jpeg[2:]

    def webp_with_exif(self, webp: bytes, exif: bytes, width: int, height: int) -> bytes:
        extended = bytes([0x08, 0, 0, 0]) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        body = b"VP8X" + struct.pack("<I", 10) + extended + webp[12:]
        body += b"EXIF" + struct.pack("<I", len(exif)) + exif + b"\0" * (len(exif) % 2)
        return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body

    def four_inks(self, planes: Sequence[Array], *, adobe_transform: int | None) -> bytes:
        """A four-component baseline JPEG, one scan a component; planes are stored as they are."""
        parts = [
            _segments_and_scan(cv2.imencode(".jpg", p, [cv2.IMWRITE_JPEG_QUALITY, 98])[1].tobytes()) for p in planes
        ]
        segments = parts[0][0]
        height, width = planes[0].shape
        out = b"\xff\xd8"
        if adobe_transform is not None:
            out += _segment(0xEE, b"Adobe" + struct.pack(">HHHB", 100, 0, 0, adobe_transform))
        out += b"".join(_segment(0xDB, body) for body in segments[0xDB])
        components = b"".join(bytes([i + 1, 0x11, 0]) for i in range(4))
        out += _segment(0xC0, struct.pack(">BHHB", 8, height, width, 4) + components)
        out += b"".join(_segment(0xC4, body) for body in segments[0xC4])
        for i, (_, scan) in enumerate(parts):
            out += _segment(0xDA, bytes([1, i + 1, 0, 0, 63, 0])) + scan
        return out + b"\xff\xd9"

    def inks(self, rgb: Array) -> Array:
        """Cyan, magenta, yellow, black in 0..1, (H, W, 4)."""
        part = rgb / 255
        black = 1 - part.max(axis=2)
        inks = (1 - part - black[..., None]) / np.maximum(1 - black[..., None], 1e-6)
        return np.dstack([inks, black])

    def tiff(
        self,
        pixels: Array,
        *,
        endian: str = "<",
        orientation: int = 1,
        photometric: int | None = None,
        extra: int | None = None,
        planar: int = 1,
        sample_format: int = 1,
        rows_per_strip: int | None = None,
        next_directory: int = 0,
    ) -> bytes:
        """An uncompressed TIFF of the pixels' own type."""
        height, width = pixels.shape[:2]
        samples = 1 if pixels.ndim == 2 else pixels.shape[2]
        bits = pixels.dtype.itemsize * 8
        ordered = pixels.astype(pixels.dtype.newbyteorder(endian))
        if planar == 2:
            strips = [ordered[..., i].tobytes() for i in range(samples)]
        else:
            step = rows_per_strip or height
            strips = [ordered[y : y + step].tobytes() for y in range(0, height, step)]
        if photometric is None:
            photometric = 2 if samples >= 3 else 1
        tags: dict[int, tuple[str, list[int]]] = {
            256: ("I", [width]),
            257: ("I", [height]),
            258: ("H", [bits] * samples),
            259: ("H", [1]),
            262: ("H", [photometric]),
            273: ("I", [0] * len(strips)),
            274: ("H", [orientation]),
            277: ("H", [samples]),
            278: ("I", [rows_per_strip or height]),
            279: ("I", [len(strip) for strip in strips]),
            284: ("H", [planar]),
            339: ("H", [sample_format] * samples),
        }
        if extra is not None:
            tags[338] = ("H", [extra])
        sizes = {tag: struct.calcsize(endian + form) * len(values) for tag, (form, values) in tags.items()}
        at = 8 + 2 + 12 * len(tags) + 4
        data_start = at + sum(size for size in sizes.values() if size > 4)
        positions = [data_start + sum(map(len, strips[:i])) for i in range(len(strips))]
        tags[273] = ("I", positions)
        directory, outside = b"", b""
        for tag, (form, values) in sorted(tags.items()):
            packed = struct.pack(f"{endian}{len(values)}{form}", *values)
            if len(packed) > 4:
                value = struct.pack(endian + "I", at + len(outside))
                outside += packed
            else:
                value = packed.ljust(4, b"\0")
            directory += struct.pack(endian + "HHI", tag, {"H": 3, "I": 4}[form], len(values)) + value
        mark = b"II*\0" if endian == "<" else b"MM\0*"
        start = mark + struct.pack(endian + "IH", 8, len(tags))
        return start + directory + struct.pack(endian + "I", next_directory) + outside + b"".join(strips)

    @staticmethod
    def stored_for(upright: Array, orientation: int) -> Array:
        """The picture as a camera stores it under an EXIF orientation (EXIF 2.32, 4.6.4, "0th row, 0th column")."""
        rows_then_columns = {
            1: upright,
            2: upright[:, ::-1],
            3: np.rot90(upright, 2),
            4: upright[::-1],
            5: upright.transpose(1, 0, 2),
            6: np.rot90(upright, 1),
            7: np.rot90(upright, 2).transpose(1, 0, 2),
            8: np.rot90(upright, -1),
        }
        return np.ascontiguousarray(rows_then_columns[orientation])


def _segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body


def _segments_and_scan(jpeg: bytes) -> tuple[dict[int, list[bytes]], bytes]:
    segments: dict[int, list[bytes]] = {}
    at = 2
    while True:
        marker, length = jpeg[at + 1], struct.unpack_from(">H", jpeg, at + 2)[0]
        segments.setdefault(marker, []).append(jpeg[at + 4 : at + 2 + length])
        at += 2 + length
        if marker == 0xDA:
            return segments, jpeg[at:-2]


@pytest.fixture(scope="session")
def files() -> PictureBytes:
    return PictureBytes()

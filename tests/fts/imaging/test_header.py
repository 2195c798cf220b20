from __future__ import annotations

import struct

import cv2
import numpy as np
import pytest

from fts.errors import ImageDecodeError
from fts.imaging.header import header_from_bytes

FORMATS = ("png", "jpeg", "progressive", "webp", "webp-lossless", "webp-extended", "tiff", "tiff-big-endian", "bmp")


def picture(files, kind: str, rgb: np.ndarray) -> bytes:
    height, width = rgb.shape[:2]
    match kind:
        case "png" | "bmp":
            return files.encoded("." + kind, rgb)
        case "jpeg":
            return files.encoded(".jpg", rgb)
        case "progressive":
            return files.encoded(".jpg", rgb, cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
        case "webp":
            return files.encoded(".webp", rgb, cv2.IMWRITE_WEBP_QUALITY, 80)
        case "webp-lossless":
            return files.encoded(".webp", rgb, cv2.IMWRITE_WEBP_QUALITY, 101)
        case "webp-extended":
            lossy = files.encoded(".webp", rgb, cv2.IMWRITE_WEBP_QUALITY, 80)
            return files.webp_with_exif(lossy, files.exif(1), width, height)
        case "tiff":
            return files.tiff(rgb, rows_per_strip=5)
    return files.tiff(rgb, endian=">", rows_per_strip=5)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("size", [(1, 1), (24, 40), (33, 7)])
def test_reads_format_and_size_of_a_whole_file(files, kind, size):
    header = header_from_bytes(picture(files, kind, files.scene(1, *size)))
    names = {"progressive": "jpeg"}
    assert header.format == names.get(kind, kind.split("-")[0])
    assert (header.height_px, header.width_px) == size
    assert (header.complete, header.reason, header.unsupported) == (True, "", "")


@pytest.mark.parametrize("kind", FORMATS)
def test_every_cut_is_incomplete_with_a_reason(files, kind):
    data = picture(files, kind, files.scene(2))
    for length in range(1, len(data) - 1, 3):
        try:
            header = header_from_bytes(data[:length])
        except ImageDecodeError:
            continue  # not even the size is there
        assert not header.complete, length
        assert "truncated" in header.reason or "damaged" in header.reason


@pytest.mark.parametrize("kind", FORMATS)
def test_bytes_behind_the_picture_do_no_harm(files, kind):
    assert header_from_bytes(picture(files, kind, files.scene(2)) + b"\0" * 100).complete


def test_a_jpeg_padded_with_zeros_after_a_cut_is_incomplete(files):
    data = files.encoded(".jpg", files.scene(3))
    header = header_from_bytes(data[: len(data) // 2] + b"\0" * len(data))
    assert not header.complete


def test_a_jpeg_thumbnail_inside_exif_is_not_taken_for_the_picture(files):
    thumbnail = files.encoded(".jpg", files.scene(3, 8, 8))
    data = files.jpeg_with_segment(files.encoded(".jpg", files.scene(3)), 0xE1, b"Exif\0\0" + thumbnail)
    header = header_from_bytes(data)
    assert (header.width_px, header.height_px, header.complete) == (40, 24, True)
    assert not header_from_bytes(data[: len(data) * 3 // 4]).complete


def test_a_jpeg_whose_last_component_has_no_scan_is_incomplete(files):
    planes = list(np.moveaxis(np.rint(255 * (1 - files.inks(files.scene(4)))).astype(np.uint8), 2, 0))
    data = files.four_inks(planes, adobe_transform=0)
    assert header_from_bytes(data).complete
    header = header_from_bytes(data[: data.rindex(b"\xff\xda")] + b"\xff\xd9")
    assert (header.complete, header.reason) == (False, "truncated JPEG: a colour component has no scan")


def test_jpeg_fill_bytes_and_restart_markers_are_walked_over(files):
    data = files.encoded(".jpg", files.scene(5, 64, 64), cv2.IMWRITE_JPEG_RST_INTERVAL, 1)
    assert b"\xff\xd0" in data
    assert header_from_bytes(data[:2] + b"\xff\xff" + data[2:]).complete


@pytest.mark.parametrize("bit", [0, 5])
def test_one_flipped_bit_of_a_png_is_named_with_its_chunk(files, bit):
    data = bytearray(files.encoded(".png", files.scene(6)))
    data[data.index(b"IDAT") + 20] ^= 1 << bit
    assert header_from_bytes(bytes(data)).reason == "damaged PNG: wrong checksum in chunk IDAT"


def test_a_png_with_right_checksums_and_missing_scan_lines_is_incomplete(files):
    rows = [bytes(40 * 3)] * 10
    header = header_from_bytes(files.png(rows, 40, 8, 2, height=24))
    assert header.reason == f"truncated PNG: {10 * 121} of {24 * 121} bytes of scan lines"


def test_a_tiff_strip_outside_the_file_is_named_with_both_sizes(files):
    data = files.tiff(files.scene(7))
    header = header_from_bytes(data[:-100])
    assert header.reason == f"truncated TIFF: picture data up to byte {len(data)}, the file has {len(data) - 100}"


def test_a_tiff_that_lists_too_few_strips_is_incomplete(files):
    data = files.tiff(files.scene(7))
    rows_per_strip = struct.pack("<HHII", 278, 4, 1, 24)
    assert data.count(rows_per_strip) == 1
    header = header_from_bytes(data.replace(rows_per_strip, struct.pack("<HHII", 278, 4, 1, 6)))
    assert header.reason == "truncated TIFF: 1 of 4 strips or tiles are listed"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file (0 bytes)"),
        (b"labels\n", "not a picture: starts with 'labels'"),
        (b"\0\1\2", "not a picture: starts with 00 01 02"),
        (b"GIF89a" + bytes(40), "GIF is not read: save it as PNG or JPEG"),
        (b"\0\0\0\x20ftypavif" + bytes(40), "AVIF is not read: save it as PNG or JPEG"),
        (b"\x89PNG\r\n\x1a\n", "PNG cut off inside its header"),
        (b"\xff\xd8\xff", "truncated JPEG: it ends before the end-of-image marker"),
        (b"RIFF\x04\0\0\0WEBP", "damaged WebP: no picture inside"),
        (b"II*\0\x08\0\0\0", "truncated TIFF: its first directory is cut off"),
        (b"II+\0\x08\0\0\0", "BigTIFF is not read: save it as TIFF or PNG"),
        (b"BM" + bytes(4), "BMP cut off inside its header"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_contents_that_are_no_picture_say_what_they_are(data, reason):
    with pytest.raises(ImageDecodeError) as caught:
        header_from_bytes(data)
    assert str(caught.value) == reason

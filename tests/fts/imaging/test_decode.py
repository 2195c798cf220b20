from __future__ import annotations

import os
import struct

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fts.errors import ImageDecodeError, SourceError, UsageError
from fts.imaging.decode import decode_bgr, is_picture_name, picture_suffixes, read_bgr, write_image

# JPEG halves the resolution of colour, which costs levels on so small a picture; swapped colours differ by tens.
JPEG_MEAN_ERROR = 4.0


def decode_rgb(data: bytes) -> np.ndarray:
    bgr = decode_bgr(data)
    assert bgr.dtype == np.uint8
    assert bgr.flags.c_contiguous
    return bgr[..., ::-1]


def mean_error(a: np.ndarray, b: np.ndarray) -> float:
    assert a.shape == b.shape
    return float(np.abs(a.astype(float) - b).mean())


def refusal(data: bytes, **options: int) -> str:
    with pytest.raises(ImageDecodeError) as caught:
        decode_bgr(data, **options)
    return str(caught.value)


# --- colours ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tiff"])
def test_lossless_formats_come_back_exactly(files, suffix):
    rgb = files.scene(0)
    assert np.array_equal(decode_rgb(files.encoded(suffix, rgb)), rgb)


def test_lossless_webp_comes_back_exactly(files):
    rgb = files.scene(0)
    assert np.array_equal(decode_rgb(files.encoded(".webp", rgb, cv2.IMWRITE_WEBP_QUALITY, 101)), rgb)


@pytest.mark.parametrize("progressive", [0, 1])
def test_jpeg_keeps_its_colours(files, progressive):
    rgb = files.scene(0)
    data = files.encoded(".jpg", rgb, cv2.IMWRITE_JPEG_QUALITY, 97, cv2.IMWRITE_JPEG_PROGRESSIVE, progressive)
    assert mean_error(decode_rgb(data), rgb) < JPEG_MEAN_ERROR


def test_grey_becomes_three_equal_channels(files):
    grey = files.scene(1)[..., 0]
    for data in (files.png([row.tobytes() for row in grey], 40, 8, 0), files.tiff(grey)):
        assert np.array_equal(decode_rgb(data), np.dstack([grey] * 3))


def test_one_bit_pictures_are_black_and_white(files):
    bits = np.random.default_rng(1).integers(0, 2, (24, 40), dtype=np.uint8)
    data = files.png([np.packbits(row).tobytes() for row in bits], 40, 1, 0)
    assert np.array_equal(decode_rgb(data), np.dstack([bits * 255] * 3))


@pytest.mark.parametrize("with_transparency", [False, True])
def test_palette_gives_its_colours_also_under_transparent_entries(files, with_transparency):
    palette = np.random.default_rng(2).integers(0, 256, (200, 3), dtype=np.uint8)
    index = np.random.default_rng(3).integers(0, 200, (24, 40), dtype=np.uint8)
    chunks = files.png_chunk(b"PLTE", palette.tobytes())
    if with_transparency:
        chunks += files.png_chunk(b"tRNS", bytes(range(200)))
    data = files.png([row.tobytes() for row in index], 40, 8, 3, before_data=chunks)
    assert np.array_equal(decode_rgb(data), palette[index])


@pytest.mark.parametrize("alpha", [0, 1, 128, 255])
def test_alpha_is_dropped_so_that_transparent_pixels_keep_their_stored_colour(files, alpha):
    rgb = files.scene(2)
    rgba = np.dstack([rgb, np.full(rgb.shape[:2], alpha, np.uint8)])
    assert np.array_equal(decode_rgb(files.png([row.tobytes() for row in rgba], 40, 8, 6)), rgb)
    grey_alpha = rgba[..., [0, 3]]
    assert np.array_equal(
        decode_rgb(files.png([row.tobytes() for row in grey_alpha], 40, 8, 4)), np.dstack([rgb[..., 0]] * 3)
    )


@pytest.mark.parametrize("color_type", [0, 2, 4, 6])
def test_every_16_bit_value_v_times_257_is_v(files, color_type):
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[color_type]
    ramp = np.repeat(np.arange(256, dtype=np.uint16)[None, :, None] * 257, channels, axis=2)
    decoded = decode_rgb(files.png([ramp[0].astype(">u2").tobytes()], 256, 16, color_type))
    assert np.array_equal(decoded[0], np.repeat(np.arange(256)[:, None], 3, axis=1))


def test_16_bit_values_are_divided_by_257_and_rounded_for_every_value(files):
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    decoded = decode_rgb(files.png([row.astype(">u2").tobytes() for row in values], 256, 16, 0))
    assert np.array_equal(decoded[..., 0], (values.astype(np.uint32) + 128) // 257)


@pytest.mark.parametrize("endian", ["<", ">"])
def test_16_bit_tiff_is_divided_by_257_in_both_byte_orders(files, endian):
    rgb = files.scene(3)
    assert np.array_equal(decode_rgb(files.tiff(rgb.astype(np.uint16) * 257, endian=endian)), rgb)


def test_adobe_cmyk_is_not_inverted(files):
    rgb = files.scene(4)
    planes = list(np.moveaxis(np.rint(255 * (1 - files.inks(rgb))).astype(np.uint8), 2, 0))
    assert mean_error(decode_rgb(files.four_inks(planes, adobe_transform=0)), rgb) < JPEG_MEAN_ERROR


def test_adobe_ycck_is_not_inverted(files):
    rgb = files.scene(4)
    inks = np.rint(255 * files.inks(rgb)).astype(np.uint8)
    luma, red, blue = np.moveaxis(cv2.cvtColor(np.ascontiguousarray(inks[..., :3]), cv2.COLOR_RGB2YCrCb), 2, 0)
    data = files.four_inks([luma, blue, red, 255 - inks[..., 3]], adobe_transform=2)
    assert mean_error(decode_rgb(data), rgb) < JPEG_MEAN_ERROR


def test_cmyk_without_an_adobe_marker_is_refused_because_it_may_be_a_negative(files):
    planes = list(np.moveaxis(np.rint(255 * files.inks(files.scene(4))).astype(np.uint8), 2, 0))
    reason = refusal(files.four_inks(planes, adobe_transform=None))
    assert reason == "CMYK JPEG without an Adobe marker: whether its inks are inverted is unknown; save it as RGB"


# --- TIFF ------------------------------------------------------------------------------------------------------------


def test_the_first_page_of_a_tiff_is_read(files):
    first, second = files.scene(5), 255 - files.scene(5)
    single = files.tiff(first)
    data = files.tiff(first, next_directory=len(single))
    second_page = files.tiff(second)  # its offsets count from its own start: never to be followed
    assert np.array_equal(decode_rgb(data + second_page[8:]), first)


def test_tiff_white_as_zero_is_shown_positive(files):
    grey = files.scene(5)[..., 0]
    assert np.array_equal(decode_rgb(files.tiff(255 - grey, photometric=0)), np.dstack([grey] * 3))


@pytest.mark.parametrize("extra", [1, 2])
def test_tiff_with_alpha_is_read_when_opaque_and_refused_when_not(files, extra):
    rgb = files.scene(6)
    opaque = np.full(rgb.shape[:2], 255, np.uint8)
    assert np.array_equal(decode_rgb(files.tiff(np.dstack([rgb, opaque]), extra=extra)), rgb)
    opaque[3, 4] = 254
    reason = refusal(files.tiff(np.dstack([rgb, opaque]), extra=extra))
    assert reason == "TIFF with transparent pixels: its colours would be darkened; save it as PNG"


@pytest.mark.parametrize(
    ("pixels", "options", "words"),
    [
        (np.zeros((4, 4), np.float32), {"sample_format": 3}, "floating-point"),
        (np.zeros((4, 4), np.int32), {"sample_format": 2}, "samples of [32] bits"),
        (np.zeros((4, 4), np.uint16), {"photometric": 0}, "16-bit TIFF that is neither"),
        (np.zeros((4, 4, 2), np.uint16), {"extra": 2}, "16-bit TIFF that is neither"),
        (np.zeros((4, 4, 3), np.uint16), {"planar": 2}, "16-bit TIFF that is neither"),
        (np.zeros((4, 4, 3), np.uint8), {"photometric": 8}, "PhotometricInterpretation 8"),
        (np.zeros((4, 4, 2), np.uint8), {"extra": 1}, "multiplied by its transparency"),
    ],
    ids=["float", "int32", "16-bit-white-is-zero", "16-bit-grey-alpha", "16-bit-planes", "lab", "associated-grey"],
)
def test_tiff_that_opencv_reads_wrongly_is_refused_with_the_way_out(files, pixels, options, words):
    reason = refusal(files.tiff(pixels, **options))
    assert words in reason
    assert "save it" in reason


# --- orientation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("endian", ["<", ">"])
def test_exif_orientation_is_applied_in_every_format(files, orientation, endian):
    upright = files.scene(7)
    stored = files.stored_for(upright, orientation)
    height, width = stored.shape[:2]
    exif = files.exif(orientation, endian)
    rows = [row.tobytes() for row in stored]
    exact = {
        "png": files.png(rows, width, 8, 2, before_data=files.png_chunk(b"eXIf", exif)),
        "webp": files.webp_with_exif(
            files.encoded(".webp", stored, cv2.IMWRITE_WEBP_QUALITY, 101), exif, width, height
        ),
        "tiff": files.tiff(stored, orientation=orientation, endian=endian),
    }
    for name, data in exact.items():
        assert np.array_equal(decode_rgb(data), upright), name
    wide = files.tiff(stored.astype(np.uint16) * 257, orientation=orientation, endian=endian)
    assert np.array_equal(decode_rgb(wide), upright)
    jpeg = files.encoded(".jpg", stored, cv2.IMWRITE_JPEG_QUALITY, 98)
    jpeg = files.jpeg_with_segment(jpeg, 0xE1, b"Exif\0\0" + exif)
    assert mean_error(decode_rgb(jpeg), upright) < JPEG_MEAN_ERROR


@pytest.mark.parametrize("exif", [b"", b"II*\0", b"II*\0\xff\xff\xff\xff", b"nonsense"])
def test_a_damaged_exif_block_leaves_the_picture_as_stored(files, exif):
    jpeg = files.jpeg_with_segment(files.encoded(".jpg", files.scene(7)), 0xE1, b"Exif\0\0" + exif)
    assert decode_bgr(jpeg).shape == (24, 40, 3)


# --- refusals --------------------------------------------------------------------------------------------------------


def test_animations_are_refused(files):
    rgb = files.scene(8)
    chunk = files.png_chunk(b"acTL", struct.pack(">II", 2, 0))
    animated = files.png([row.tobytes() for row in rgb], 40, 8, 2, before_data=chunk)
    assert refusal(animated) == "animated PNG: save one frame as a picture of its own"
    webp = bytearray(files.webp_with_exif(files.encoded(".webp", rgb), files.exif(1), 40, 24))
    webp[20] |= 0x02
    assert refusal(bytes(webp)) == "animated WebP: save one frame as a picture of its own"
    assert refusal(b"GIF89a" + bytes(30)) == "GIF is not read: save it as PNG or JPEG"


def test_a_gigapixel_header_is_refused_with_its_size_before_anything_is_decoded(files):
    data = files.png([bytes(5000)], 40_000, 1, 0, height=40_000)
    assert refusal(data) == "40000x40000 is 1600000000 pixels, the limit is 178956970"


def test_the_pixel_limit_counts_pixels_not_sides(files):
    data = files.encoded(".png", files.scene(8))
    assert decode_bgr(data, max_pixels=24 * 40).shape == (24, 40, 3)
    assert refusal(data, max_pixels=24 * 40 - 1) == "40x24 is 960 pixels, the limit is 959"


def test_no_cut_of_any_file_gives_a_picture(files):
    rgb = files.scene(9)
    whole = {
        "jpeg": files.encoded(".jpg", rgb),
        "progressive": files.encoded(".jpg", rgb, cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
        "png": files.encoded(".png", rgb),
        "webp": files.encoded(".webp", rgb, cv2.IMWRITE_WEBP_QUALITY, 80),
        "tiff": files.encoded(".tiff", rgb),
        "raw tiff": files.tiff(rgb, rows_per_strip=3),
        "bmp": files.encoded(".bmp", rgb),
    }
    for name, data in whole.items():
        for length in range(0, len(data) - 1, 7):
            try:
                decoded = decode_bgr(data[:length])
            except ImageDecodeError:
                continue
            # A TIFF may list its pages behind the pixels, so that nothing of the picture is lost with the last bytes.
            assert np.array_equal(decoded, decode_bgr(data)), (name, length)


@given(position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_a_flipped_bit_of_a_png_gives_an_error_never_another_picture(files, position, bit):
    rgb = files.scene(10)
    data = bytearray(files.encoded(".png", rgb))
    data[int(position * len(data))] ^= 1 << bit
    with pytest.raises(ImageDecodeError):
        decode_bgr(bytes(data))


@given(
    kind=st.sampled_from(["jpeg", "png", "webp", "tiff", "bmp"]),
    edits=st.lists(st.tuples(st.integers(0, 250), st.sampled_from([0, 1, 2, 127, 255])), min_size=1, max_size=4),
)
@settings(max_examples=300, deadline=None)
def test_damaged_headers_raise_nothing_but_decode_errors(files, kind, edits):
    rgb = files.scene(10)
    suffix = {"jpeg": ".jpg", "tiff": ".tiff"}.get(kind, "." + kind)
    data = bytearray(files.tiff(rgb) if kind == "tiff" else files.encoded(suffix, rgb))
    for position, value in edits:
        data[position % len(data)] = value
    try:
        decoded = decode_bgr(bytes(data))
    except ImageDecodeError as error:
        assert str(error)  # noqa: PT017
    else:
        assert decoded.dtype == np.uint8
        assert decoded.ndim == 3


def test_a_tiff_tag_without_values_is_as_good_as_absent(files):
    data = files.tiff(files.scene(10))
    tag = struct.pack("<HHI", 258, 3, 3)
    assert data.count(tag) == 1
    decode = data.replace(tag, struct.pack("<HHI", 258, 3, 0))
    with pytest.raises(ImageDecodeError):
        decode_bgr(decode)


def test_compressed_tiff_data_that_is_destroyed_is_an_error(files):
    data = files.encoded(".tiff", files.scene(11, 64, 64), cv2.IMWRITE_TIFF_COMPRESSION, 8)
    assert decode_bgr(data).shape == (64, 64, 3)
    hole = len(data) // 4
    assert "damaged TIFF" in refusal(data[:hole] + bytes(400) + data[hole + 400 :])


def test_decoding_broken_files_prints_nothing(files, capfd):
    data = files.encoded(".tiff", files.scene(11, 64, 64), cv2.IMWRITE_TIFF_COMPRESSION, 8)
    hole = len(data) // 4
    for broken in (data[:hole] + bytes(400) + data[hole + 400 :], files.encoded(".png", files.scene(1))[:200], b"text"):
        refusal(broken)
    out, err = capfd.readouterr()
    assert "OpenCV" not in out + err


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plain.png", "with space.BMP", "фото.tiff", "顔写真.WEBP", "ü.tif"])
def test_a_written_picture_reads_back_whatever_its_name(files, tmp_path, name):
    bgr = np.ascontiguousarray(files.scene(12)[..., ::-1])
    write_image(tmp_path / name, bgr)
    assert mean_error(read_bgr(tmp_path / name), bgr) < (6 if name.endswith("WEBP") else 1e-9)
    assert os.listdir(tmp_path) == [name]


def test_writing_takes_views_and_grey(files, tmp_path):
    bgr = files.scene(13)
    write_image(tmp_path / "view.png", bgr[::-1, ::2, ::-1])
    assert np.array_equal(read_bgr(tmp_path / "view.png"), bgr[::-1, ::2, ::-1])
    write_image(tmp_path / "grey.png", bgr[..., 0])
    assert np.array_equal(read_bgr(tmp_path / "grey.png"), np.dstack([bgr[..., 0]] * 3))


def test_an_unknown_suffix_names_those_that_work(files, tmp_path):
    with pytest.raises(UsageError) as caught:
        write_image(tmp_path / "out.gif", files.scene(0))
    assert "out.gif" in str(caught.value)
    assert all(suffix in str(caught.value) for suffix in picture_suffixes)


def test_a_failed_write_leaves_the_old_picture_and_no_temporary_file(files, tmp_path, monkeypatch):
    target = tmp_path / "out.png"
    write_image(target, files.scene(14))
    before = target.read_bytes()

    def no_space(source: object, destination: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(SourceError, match=r"out\.png: cannot be written \(No space left on device\)"):
        write_image(target, files.scene(15))
    assert target.read_bytes() == before
    assert os.listdir(tmp_path) == ["out.png"]


def test_a_picture_that_cannot_be_encoded_is_an_error(tmp_path):
    with pytest.raises(SourceError, match=r"cannot encode uint8 \(2, 2, 7\) as \.png"):
        write_image(tmp_path / "out.png", np.zeros((2, 2, 7), np.uint8))


def test_reading_names_the_file_and_the_reason(tmp_path):
    with pytest.raises(SourceError, match=r"none\.png: cannot be read \(No such file or directory\)"):
        read_bgr(tmp_path / "none.png")
    (tmp_path / "text.png").write_bytes(b"hello")
    with pytest.raises(SourceError, match=r"text\.png: not a picture: starts with 'hello'"):
        read_bgr(tmp_path / "text.png")


def test_picture_names_are_told_by_suffix_in_any_case():
    assert all(is_picture_name("a" + suffix.upper()) for suffix in picture_suffixes)
    assert not any(is_picture_name(name) for name in ("a.gif", "Thumbs.db", "png", "a.png.txt"))

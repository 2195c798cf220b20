"""Pictures inside the page: lossless while they fit, smaller and told otherwise."""

from __future__ import annotations

import base64

import cv2
import numpy as np
import pytest

from fts_converters.report_html import pictures
from fts_converters.report_html.pictures import picture_set, read_pictures

from . import samples


def decoded(uri: str) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(base64.b64decode(uri.partition(",")[2]), np.uint8), cv2.IMREAD_COLOR)


def test_small_pictures_are_embedded_without_loss():
    files = [samples.png(32, seed) for seed in range(3)]
    found = picture_set([("Sample 0", files)])
    assert found.note == ""
    (triple,) = found.triples
    for uri, data in zip((triple.input, triple.fp32, triple.engine), files, strict=True):
        assert uri.startswith("data:image/png;base64,")
        assert np.array_equal(decoded(uri), cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR))


def test_large_pictures_become_jpeg_under_the_budget_and_the_page_says_so(parsed):
    found = picture_set([("Sample 0", [samples.png(800, seed) for seed in range(3)])])
    (triple,) = found.triples
    assert triple.input.startswith("data:image/jpeg")
    assert sum(len(u) for u in (triple.input, triple.fp32, triple.engine)) * 3 / 4 < pictures.BUDGET_BYTES + 300
    assert decoded(triple.engine).shape[:2] == (triple.height_px, triple.width_px)
    assert max(triple.height_px, triple.width_px) <= 800
    assert "shown here as JPEG" in parsed(samples.report(), pictures=found).text


def test_only_complete_triples_are_shown(tmp_path):
    for role in ("input", "fp32", "engine"):
        (tmp_path / f"verify_0_{role}.png").write_bytes(samples.png(8, 1))
    (tmp_path / "verify_1_input.png").write_bytes(samples.png(8, 1))
    (tmp_path / "verify_0.png").write_bytes(samples.png(8, 1))
    assert [t.name for t in read_pictures(tmp_path).triples] == ["Sample 0"]


def test_a_missing_folder_has_no_pictures_and_no_section(tmp_path, parsed):
    found = read_pictures(tmp_path / "nothing")
    assert found.triples == ()
    assert "Side by side" not in parsed(samples.report(), pictures=found).text


def test_a_damaged_picture_is_named_as_such():
    with pytest.raises(ValueError, match="cannot be decoded"):
        picture_set([("Sample 0", [b"no picture"] * 3)])

"""Perceptual hash and scenes: alike pictures are near, others far."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import pytest
from tests.generators.calibration_sets.scenes import Picture, scene

from fts.vocabulary.preprocessing import Preprocessing
from fts_calibration.audit.look import Look, look_at_picture
from fts_calibration.audit.perceptual_hash import distances, perceptual_hash
from fts_calibration.audit.repetition import NEAR_BITS, mean_correlation, near_copies


def compressed(picture: Picture) -> Picture:
    return cv2.imdecode(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 60])[1], cv2.IMREAD_COLOR)


def look(picture: Picture, name: str) -> Look:
    return look_at_picture(name, picture, Preprocessing(), (96, 96))


def bits_apart(a: Picture, b: Picture) -> int:
    hashes = np.array([perceptual_hash(a.mean(axis=2).astype(np.float32))], np.uint64)
    return int(distances(hashes, perceptual_hash(b.mean(axis=2).astype(np.float32)))[0])


@pytest.mark.parametrize(
    "change",
    [
        compressed,
        lambda p: cv2.resize(p, (90, 68), interpolation=cv2.INTER_AREA),
        lambda p: p[1:, 1:],
        lambda p: (p * 0.9).astype(np.uint8),
    ],
    ids=["compressed", "smaller", "moved", "darker"],
)
def test_a_picture_that_was_changed_a_little_keeps_its_hash_nearly(change: Callable[[Picture], Picture]) -> None:
    assert max(bits_apart(p, change(p)) for p in map(scene, range(8))) <= NEAR_BITS


def test_different_pictures_differ_in_many_bits() -> None:
    pictures = [scene(seed) for seed in range(20)]
    apart = [bits_apart(a, b) for i, a in enumerate(pictures) for b in pictures[:i]]
    assert min(apart) > NEAR_BITS
    assert 28 <= float(np.mean(apart)) <= 36  # of unrelated hashes half of the 64 bits differ


def test_only_the_later_one_of_two_near_copies_is_named() -> None:
    pictures = [scene(1), scene(2), compressed(scene(1))]
    assert near_copies([look(p, str(i)) for i, p in enumerate(pictures)]) == ["2"]


def test_the_sum_over_all_pairs_is_what_pairs_give_one_by_one() -> None:
    looks = [look(scene(seed), str(seed)) for seed in range(6)]
    gray = [look.thumbnail.mean(axis=2).ravel() for look in looks]
    pairs = [np.corrcoef(a, b)[0, 1] for i, a in enumerate(gray) for b in gray[:i]]
    assert mean_correlation(looks) == pytest.approx(float(np.mean(pairs)), abs=1e-9)

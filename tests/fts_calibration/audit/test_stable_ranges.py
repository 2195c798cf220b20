"""Halves against each other: the error that is estimated is the error that there is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fts_calibration.audit.stable_ranges import LIMIT, PARTS, PartRanges, check_stable_ranges

TENSORS = 40


def parts_of(samples: np.ndarray) -> PartRanges:
    """samples (n, TENSORS): each sample's tensors reach from 0 to its number."""
    parts = PartRanges()
    for sample in samples:
        parts.add(np.zeros(len(sample)), sample)
    return parts


def test_the_estimated_error_is_near_the_true_one() -> None:
    """Widths that are maxima of uniform numbers; the true error of the maximum is known by repeating."""
    rng = np.random.default_rng(0)
    n = 32
    estimated = np.median(parts_of(rng.random((n, 400))).to_json()["errors"])
    true = rng.random((20_000, n)).max(axis=1).std()
    # maxima settle faster than 1/sqrt(n), so that halves overstate the error: by sqrt(2) here, as it falls as 1/n
    assert true <= estimated <= 2 * true


def test_equal_samples_have_no_error_and_one_outlier_has_a_large_one() -> None:
    samples = np.ones((24, TENSORS))
    assert max(parts_of(samples).to_json()["errors"]) == 0
    samples[5] = 10
    (finding,) = check_stable_ranges(parts_of(samples).to_json())
    assert finding.id == "unstable-ranges"
    assert finding.severity == "warning"


def test_more_photos_are_asked_for_by_the_square_of_the_error() -> None:
    (finding,) = check_stable_ranges({"samples": 10, "errors": [2 * LIMIT] * 3})
    assert "about 30 more" in finding.fix  # 10 * 2^2 - 10


def test_fewer_samples_than_parts_cannot_be_judged_and_that_is_said() -> None:
    (finding,) = check_stable_ranges(parts_of(np.ones((PARTS - 1, TENSORS))).to_json())
    assert (finding.id, finding.severity) == ("stability-not-checked", "note")


def test_tensors_that_never_change_and_empty_ones_are_left_out() -> None:
    parts = PartRanges()
    for value in range(1, 17):
        parts.add(np.array([0.0, 3.0, np.inf]), np.array([value, 3.0, -np.inf]))
    assert len(parts.to_json()["errors"]) == 1


@pytest.mark.parametrize("count", [8, 80])
def test_memory_does_not_grow_with_the_samples(count: int) -> None:
    parts = parts_of(np.random.default_rng(3).random((count, TENSORS)))
    assert sum(part.nbytes for part in parts._parts.values()) == PARTS * 2 * TENSORS * 8


@pytest.mark.parametrize("cut", [0, 3, PARTS, 13])
def test_goes_on_from_a_state_as_if_it_had_never_stopped(cut: int) -> None:
    samples = np.random.default_rng(2).normal(size=(20, TENSORS))
    first, second = parts_of(samples[:cut]), PartRanges()
    second.resume(json.loads(json.dumps(first.state())))
    for sample in samples[cut:]:
        second.add(np.zeros(TENSORS), sample)
    assert second.to_json() == parts_of(samples).to_json()

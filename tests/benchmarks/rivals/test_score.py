"""Figures of the bars against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from rivals.score import expected_age, fidelity


def test_the_peak_is_the_range_of_the_reference_over_all_crops():
    references = [np.zeros((1, 4), np.float32), np.full((1, 4), 10.0, np.float32)]
    tests = [r + np.float32(0.1) for r in references]
    found = fidelity(references, tests, in_years=False)
    assert found.db == pytest.approx((40.0, 40.0), abs=1e-4)  # 20 log10(10 / 0.1)
    assert found.mean_years is None
    assert found.merit == found.min_db


def test_an_output_that_is_not_finite_is_the_worst_of_all():
    reference = np.arange(4, dtype=np.float32)
    assert fidelity([reference], [reference * np.float32("nan")], in_years=False).min_db < -100


def test_expected_age_weighs_every_class_and_ignores_the_sum():
    p = np.zeros((1, 81), np.float32)
    p[0, 20], p[0, 40] = 0.3, 0.1
    assert expected_age(p) == pytest.approx(25.0)
    assert expected_age(p * 2.5) == pytest.approx(25.0)


def test_years_are_absolute_differences_and_merit_falls_with_them():
    def at(age: int):
        return np.eye(81, dtype=np.float32)[[age]]

    found = fidelity([at(30), at(40)], [at(33), at(39)], in_years=True)
    assert found.years == pytest.approx((3.0, 1.0))
    assert found.mean_years == pytest.approx(2.0)
    assert found.merit == pytest.approx(-2.0)

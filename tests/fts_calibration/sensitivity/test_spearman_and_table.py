"""Rank correlation by hand-made cases, and a table that survives JSON."""

from __future__ import annotations

import json
import math

import pytest

from fts.errors import CalibrationError
from fts_calibration.metrics.budget import Score, parse_budget
from fts_calibration.sensitivity.spearman import spearman
from fts_calibration.sensitivity.table import table_from_json, table_from_scores


def test_the_same_order_is_one_and_the_reverse_minus_one() -> None:
    assert spearman([1, 2, 3, 40], [0.1, 0.2, 7, 8]) == pytest.approx(1)
    assert spearman([1, 2, 3], [9, 5, 1]) == pytest.approx(-1)


def test_without_ties_it_is_the_textbook_formula() -> None:
    # 1 − 6 Σd² / (n (n² − 1)), d = 1, 1, 0, 2, 2 → Σd² = 10
    assert spearman([1, 2, 3, 4, 5], [2, 1, 3, 6, 4.5]) == pytest.approx(1 - 6 * 4 / 120)


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: cov 4.5, variances 4.5 and 5 (times n).
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))


def test_infinities_have_a_rank_and_nan_has_none() -> None:
    assert spearman([-math.inf, 0, math.inf], [1, 2, 3]) == pytest.approx(1)
    with pytest.raises(ValueError, match="NaN"):
        spearman([1, math.nan], [1, 2])


def test_without_an_order_there_is_no_correlation() -> None:
    assert math.isnan(spearman([1, 1, 1], [1, 2, 3]))


@pytest.mark.parametrize(("a", "b"), [([1], [1]), ([1, 2], [1, 2, 3])])
def test_lists_that_do_not_fit_are_refused(a, b) -> None:
    with pytest.raises(ValueError, match="expected two of one length"):
        spearman(a, b)


def table():
    budget = parse_budget("psnr.mean>=40")
    values = {"a": (41.0, 39.5), "b": (120.0, 120.0), "c": (1 / 3, 2.0), "d": (40.0, 40.5)}
    masks = Score(output="m", budget=parse_budget("iou>=90%"), values=(1.0, 0.95), noise=(1e-7, 1 / 3))
    scores = {unit: (Score(output="y", budget=budget, values=v),) for unit, v in values.items()}
    scores["c"] = (masks, *scores["c"])
    return table_from_scores("exhaustive", scores, samples=2, forward_passes=5.25)


def test_a_loss_is_how_far_the_worst_output_is_below_its_budget() -> None:
    assert table().losses["b"] == -80.0
    assert table().losses["c"] == pytest.approx(40 - (1 / 3 + 2) / 2)
    assert table().worst_first() == ("c", "a", "d", "b")


def test_a_table_survives_json() -> None:
    assert table_from_json(json.loads(json.dumps(table().to_json()))) == table()


@pytest.mark.parametrize("damage", [{"losses": 3}, {"scores": {"a": [{}]}}, {"samples": "many"}])
def test_another_json_is_refused(damage) -> None:
    with pytest.raises(CalibrationError, match="sensitivity table"):
        table_from_json({**table().to_json(), **damage})

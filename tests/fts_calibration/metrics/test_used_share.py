"""Shares of a budget in one unit: what the search adds up over layers and outputs."""

from __future__ import annotations

import pytest

from fts_calibration.metrics.budget import Budget, Score, parse_budget
from fts_calibration.metrics.used_share import used_share
from fts_calibration.metrics.user_metric import UserMetric


def score(text: str, *values: float, noise: tuple[float, ...] = ()) -> Score:
    return Score(output="y", budget=parse_budget(text), values=values, noise=noise)


@pytest.mark.parametrize(
    ("text", "value"),
    [("psnr>=40", 40.0), ("ssim>=0.9", 0.9), ("cosine>=0.99", 0.99), ("nme<=0.02", 0.02), ("age<=0.5", 0.5), ("top1>=0.75", 0.75),
     ("iou>=0.75", 0.75), ("drop<=25%", 0.25)],
)  # fmt: skip
def test_a_budget_that_just_holds_is_used_up(text, value):
    assert used_share(score(text, value)) == pytest.approx(1.0)
    assert used_share(score(text, value, value)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "best", "twice_the_amplitude"),
    [("psnr>=40", 120.0, 40 - 6.0206), ("cosine>=0.99", 1.0, 0.96), ("nme<=0.02", 0.0, 0.04), ("age<=0.5", 0.0, 1.0),
     ("top1>=0.75", 1.0, 0.5), ("drop<=25%", 0.0, 0.5)],
)  # fmt: skip
def test_equal_outputs_use_nothing_and_twice_the_error_four_times_its_power(text, best, twice_the_amplitude):
    assert used_share(score(text, best)) == pytest.approx(0.0, abs=1e-8)
    assert used_share(score(text, twice_the_amplitude)) == pytest.approx(4.0, rel=1e-5)


def test_a_budget_that_allows_nothing_is_finite():
    assert used_share(score("cosine>=1", 0.5)) == pytest.approx(0.5e9)
    assert used_share(score("nme<=0", 0.0)) == 0.0


def test_causes_that_a_rate_cannot_tell_apart_are_told_by_their_noise():
    whole = score("top1>=0.75", 1.0, 0.0, noise=(0.01, 0.03))
    quiet, loud = (score("top1>=0.75", 1.0, 1.0, noise=(n, n)) for n in (0.005, 0.015))
    assert used_share(quiet) == used_share(loud) == 0.0
    assert used_share(loud, whole) == pytest.approx(3 * used_share(quiet, whole))
    assert used_share(quiet, whole) + used_share(loud, whole) == pytest.approx(used_share(whole))


def test_a_metric_that_tells_causes_apart_is_asked_itself():
    whole = score("nme<=0.02", 0.04, noise=(0.5,))
    assert used_share(score("nme<=0.02", 0.01, noise=(0.4,)), whole) == pytest.approx(0.25)


def test_noise_decides_for_a_users_metric_only_where_it_says_nothing():
    condition = Budget(
        metric="metric",
        statistic="mean",
        threshold=0.5,
        relation=">=",
        best=1.0,
        user=UserMetric(reference="m:f", sha256="0"),
    )

    def scored(value: float, noise: float) -> Score:
        return Score(output="all outputs", budget=condition, values=(value,), noise=(noise,))

    whole = scored(0.0, 0.04)
    assert used_share(scored(1.0, 0.03), whole) > used_share(scored(1.0, 0.01), whole) > 0.0
    assert used_share(scored(0.9, 0.01), whole) > used_share(scored(1.0, 0.03), whole)

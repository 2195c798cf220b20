from __future__ import annotations

import math
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fts.errors import UsageError
from fts_calibration.metrics.budget import (
    METRICS,
    Budget,
    Score,
    default_budget,
    lower_bound_of_mean,
    parse_budget,
    statistic_of,
    student_t_95,
    worst,
)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("psnr>=40", Budget(metric="psnr", statistic="plain", at_least=40.0)),
        (" sqnr.mean >= 25.5 ", Budget(metric="sqnr", statistic="mean", at_least=25.5)),
        ("ssim.min>=.95", Budget(metric="ssim", statistic="min", at_least=0.95)),
        ("cosine>=-1e-3", Budget(metric="cosine", statistic="plain", at_least=-1e-3)),
        ("none", None),
        (" none ", None),
    ],
)
def test_reads(text, budget):
    assert parse_budget(text) == budget


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("psnr", "expected METRIC>=NUMBER"),
        ("psnr>40", "expected METRIC>=NUMBER"),
        ("psnr>=", "expected METRIC>=NUMBER"),
        ("psnr>=nan", "expected METRIC>=NUMBER"),
        ("psnr>=inf", "expected METRIC>=NUMBER"),
        ("psnr.max>=3", "expected METRIC>=NUMBER"),
        ("psnr>=1.2.3", "is not a number"),
        ("psnr>=.", "is not a number"),
        ("lpips>=1", "unknown metric 'lpips'; known: psnr, sqnr, ssim, cosine"),
        ("drop<=0.5%", "not in this version"),
        ("", "expected METRIC>=NUMBER"),
    ],
)
def test_refuses(text, says):
    with pytest.raises(UsageError) as caught:
        parse_budget(text)
    assert says in str(caught.value)
    assert caught.value.exit_code == 2


@given(
    metric=st.sampled_from(sorted(METRICS)),
    statistic=st.sampled_from(["plain", "min", "mean"]),
    at_least=st.floats(-1e6, 1e6),
)
def test_text_and_back_is_the_same_budget(metric, statistic, at_least):
    budget = Budget(metric=metric, statistic=statistic, at_least=at_least)
    assert parse_budget(str(budget)) == budget


def test_default_budgets():
    assert str(default_budget("image")) == "psnr>=30"
    assert str(default_budget("tensor")) == "sqnr>=20"


def test_plain_is_the_minimum_below_20_samples_and_a_bound_from_20_on():
    values = [30.0 + i for i in range(19)]
    assert statistic_of(values, "plain") == 30.0
    values.append(49.0)
    assert statistic_of(values, "plain") == lower_bound_of_mean(values)
    assert 30.0 < statistic_of(values, "plain") < fmean(values)


def test_min_and_mean_do_not_look_at_the_number_of_samples():
    for count in (1, 19, 20, 50):
        values = [float(i) for i in range(count)]
        assert statistic_of(values, "min") == 0.0
        assert statistic_of(values, "mean") == fmean(values)


# One-sided 0.95 quantiles as printed in tables of Student's t.
@pytest.mark.parametrize(
    ("degrees", "quantile"), [(19, 1.7291), (24, 1.7109), (29, 1.6991), (60, 1.6706), (120, 1.6577)]
)
def test_student_t_equals_the_tables(degrees, quantile):
    assert student_t_95(degrees) == pytest.approx(quantile, abs=1e-4)  # four printed digits, and the series' own bound


def test_lower_bound_by_hand():
    values = [40.0, 42.0] * 10  # mean 41, s = sqrt(20 / 19)
    assert stdev(values) == pytest.approx(math.sqrt(20 / 19))
    assert lower_bound_of_mean(values) == pytest.approx(41 - 1.7291 * math.sqrt(20 / 19) / math.sqrt(20), abs=1e-4)


def test_the_budget_holds_at_its_threshold():
    budget = Budget(metric="psnr", statistic="min", at_least=30.0)
    assert Score(output="y", budget=budget, values=(30.0, 31.0)).margin == 0.0
    assert Score(output="y", budget=budget, values=(29.9, 31.0)).margin < 0


def test_the_worst_output_decides_and_the_first_of_equals():
    budget = Budget(metric="psnr", statistic="min", at_least=30.0)
    a, b, c = (Score(output=n, budget=budget, values=(v,)) for n, v in (("a", 33.0), ("b", 31.0), ("c", 31.0)))
    assert worst((a, b, c)) is b

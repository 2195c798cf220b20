from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fts.errors import UsageError
from fts_calibration.metrics.budget import (
    METRICS,
    Budget,
    Score,
    bound_of_mean,
    budget_from_json,
    default_budget,
    parse_budget,
    parse_budgets,
    statistic_of,
    usual_budget,
    worst,
)
from fts_calibration.metrics.output_meaning import OutputMeaning
from fts_calibration.metrics.student_t import student_t
from fts_calibration.metrics.user_metric import UserMetric


def budget(text: str) -> Budget:
    found = parse_budget(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "metric", "statistic", "threshold"),
    [
        ("psnr>=40", "psnr", "plain", 40.0),
        (" sqnr.mean >= 25.5 ", "sqnr", "mean", 25.5),
        ("ssim.min>=.95", "ssim", "min", 0.95),
        ("cosine>=-1e-3", "cosine", "plain", -1e-3),
        ("nme<=0.02", "nme", "plain", 0.02),
        ("nme.max<=2%", "nme", "max", 0.02),
        ("age.mean<=0.5", "age", "mean", 0.5),
        ("top1>=99%", "top1", "plain", 0.99),
        ("iou>=0.95", "iou", "plain", 0.95),
        ("drop<=0.5%", "drop", "plain", 0.005),
        ("drop<=0", "drop", "plain", 0.0),
    ],
)
def test_reads(text, metric, statistic, threshold):
    assert parse_budget(text) == Budget(metric=metric, statistic=statistic, threshold=threshold)


def test_none_is_no_condition():
    assert parse_budget("none") is None
    assert parse_budget(" none ") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("psnr", "expected METRIC>=NUMBER"),
        ("psnr>40", "expected METRIC>=NUMBER"),
        ("psnr>=", "expected METRIC>=NUMBER"),
        ("psnr>=nan", "expected METRIC>=NUMBER"),
        ("psnr>=inf", "expected METRIC>=NUMBER"),
        ("psnr.max>=3", ".max is the best sample of psnr, expected .min or .mean"),
        ("nme.min<=3", ".min is the best sample of nme, expected .max or .mean"),
        ("psnr>=1.2.3", "is not a number"),
        ("psnr>=.", "is not a number"),
        ("psnr>=40%", "psnr is in decibels"),
        ("psnr<=40", "of psnr more is better, expected psnr>="),
        ("age>=1", "of age less is better, expected age<="),
        ("top1>=99", "top1 of equal outputs is 1, so nothing can be better"),
        ("drop<=-1%", "drop of equal outputs is 0"),
        ("lpips>=1", "unknown metric 'lpips'; known: psnr, sqnr, ssim, cosine, top1, iou, nme, age, drop"),
        ("y:psnr>=3", "names output 'y'"),
        ("", "expected METRIC>=NUMBER"),
    ],
)
def test_refuses(text, says):
    with pytest.raises(UsageError) as caught:
        parse_budget(text)
    assert says in str(caught.value)
    assert caught.value.exit_code == 2


NUMBERS = {"decibels": st.floats(-1e6, 1e6), "more": st.floats(-1e6, 1.0), "less": st.floats(0.0, 1e6)}


@given(name=st.sampled_from(sorted(METRICS)), is_mean=st.booleans(), is_plain=st.booleans(), data=st.data())
def test_text_and_back_is_the_same_budget(name, is_mean, is_plain, data):
    kind = METRICS[name]
    key = "decibels" if kind.growth == "decibels" else "less" if kind.is_less_better else "more"
    statistic = "plain" if is_plain else "mean" if is_mean else "max" if kind.is_less_better else "min"
    whole = Budget(metric=name, statistic=statistic, threshold=data.draw(NUMBERS[key]))
    assert parse_budget(str(whole)) == whole
    declared = replace(whole, meaning=OutputMeaning(ages=(1.5, 2.0), axis=1, eyes=((0,), (1, 2)), landmarks="planar"))
    assert budget_from_json(declared.to_json()) == declared
    assert declared.measured_by() != whole.measured_by()


def test_conditions_for_outputs_are_joined_by_commas_or_repeated():
    asked = parse_budgets(["heat:psnr>=40, points:nme<=0.02,aux:none", "sqnr>=25"])
    assert asked.named == {"heat": budget("psnr>=40"), "points": budget("nme<=0.02"), "aux": None}
    assert asked.every == budget("sqnr>=25")
    assert asked.text == "heat:psnr>=40, points:nme<=0.02,aux:none,sqnr>=25"
    assert not asked.is_none


def test_names_of_outputs_may_hold_colons_and_commas():
    asked = parse_budgets(["onnx::Mul_5:psnr>=40,a,b:psnr>=3,c,d:none"])
    assert list(asked.named) == ["onnx::Mul_5", "a,b", "c,d"]


USER = UserMetric(reference="my.metrics:far", sha256="0" * 64)


@pytest.mark.parametrize(
    ("text", "statistic", "relation", "threshold"),
    [
        ("metric>=0.9", "plain", ">=", 0.9),
        ("metric.max<=5%", "max", "<=", 0.05),
        ("metric.mean>=-3", "mean", ">=", -3.0),
    ],
)
def test_the_users_metric_is_judged_either_way(text, statistic, relation, threshold):
    asked = parse_budgets([text, "y:psnr>=40"], USER)
    assert asked.whole == Budget(
        metric="metric", statistic=statistic, relation=relation, threshold=threshold, user=USER
    )
    assert list(asked.named) == ["y"]
    assert parse_budget(str(asked.whole)) == replace(asked.whole, user=None)
    assert asked.whole.is_less_better == (relation == "<=")
    assert asked.whole.measured_by()["user"] == {"function": "my.metrics:far", "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("texts", "user", "says"),
    [
        (["metric>=0.9"], None, "metric is the function of --metric package.module:function, which is not given"),
        (["psnr>=30"], USER, "--metric my.metrics:far: expected a condition for it, as --budget 'metric>=0.9'"),
        ([], USER, "expected a condition for it"),
        (["none"], USER, "expected a condition for it"),
        (["none,metric>=0.9"], USER, "nothing is judged then"),
        (["y:metric>=0.9"], USER, "sees all outputs at once, expected no name: metric>=0.9"),
        (["metric>=0.9,metric<=1"], USER, "metric is given twice"),
        (["metric.max>=0.9"], USER, ".max is the best sample of metric"),
    ],
)
def test_refuses_what_does_not_go_with_the_users_metric(texts, user, says):
    with pytest.raises(UsageError) as caught:
        parse_budgets(texts, user)
    assert says in str(caught.value)


def test_margins_of_the_users_metric_are_told_from_what_fp32_itself_gets():
    condition = Budget(metric="metric", statistic="mean", threshold=80.0, relation=">=", user=USER, best=100.0)
    assert condition.margin_of(98.0) == pytest.approx(20.0)
    assert condition.margin_of(0.0) == pytest.approx(-20 * math.log10(5))
    assert condition.margin_of(80.0) == 0.0
    error = Budget(metric="metric", statistic="mean", threshold=0.2, relation="<=", user=USER, best=0.0)
    assert error.margin_of(2.0) == pytest.approx(-20.0)
    assert error.margin_of(0.0) > 100


def test_nothing_asked_and_none_are_different():
    assert (parse_budgets([]).every, parse_budgets([]).is_none, parse_budgets([]).text) == (None, False, "")
    assert parse_budgets(["none"]).is_none


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (
            ["psnr>=40", "ssim>=0.9"],
            "a second condition for every output; name the output it is for, as NAME:ssim>=0.9",
        ),
        (["none,psnr>=40"], "a second condition for every output"),
        (["y:psnr>=40,y:ssim>=0.9"], "output 'y' is given twice"),
        (["none,y:ssim>=0.9"], "nothing is judged then"),
        (["y:psnr"], "expected METRIC>=NUMBER"),
        ([""], "expected METRIC>=NUMBER"),
        (["psnr>=40,x"], "expected METRIC>=NUMBER"),
    ],
)
def test_refuses_conditions_that_do_not_go_together(texts, says):
    with pytest.raises(UsageError) as caught:
        parse_budgets(texts)
    assert says in str(caught.value)


def test_default_budgets():
    assert str(default_budget("image")) == "psnr>=30"
    assert str(default_budget("tensor")) == "sqnr>=20"
    assert str(usual_budget("nme")) == "nme<=0.02"
    assert str(usual_budget("drop")) == "drop<=0.5%"


def test_plain_is_the_worst_below_20_samples_and_a_bound_from_20_on():
    values = [30.0 + i for i in range(19)]
    assert statistic_of(values, budget("psnr>=30")) == 30.0
    assert statistic_of(values, budget("age<=30")) == 48.0
    values.append(49.0)
    lower, upper = statistic_of(values, budget("psnr>=30")), statistic_of(values, budget("age<=30"))
    assert (lower, upper) == (bound_of_mean(values, is_upper=False), bound_of_mean(values, is_upper=True))
    assert 30.0 < lower < fmean(values) < upper < 49.0


def test_explicit_statistics_do_not_look_at_the_number_of_samples():
    for count in (1, 19, 20, 50):
        values = [float(i) for i in range(count)]
        assert statistic_of(values, budget("psnr.min>=3")) == 0.0
        assert statistic_of(values, budget("age.max<=3")) == count - 1
        assert statistic_of(values, budget("psnr.mean>=3")) == fmean(values)


@pytest.mark.parametrize("count", [4, 40])
def test_rates_are_means_whatever_the_number_of_samples(count):
    values = [1.0, 0.0] * (count // 2)
    assert statistic_of(values, budget("top1>=0.5")) == 0.5
    assert statistic_of(values, budget("drop<=0.5")) == 0.5
    assert statistic_of(values, budget("top1.min>=0.5")) == 0.0


def test_bound_by_hand():
    values = [40.0, 42.0] * 10  # mean 41, s = sqrt(20 / 19)
    assert stdev(values) == pytest.approx(math.sqrt(20 / 19))
    half = 1.7291 * math.sqrt(20 / 19) / math.sqrt(20)
    assert bound_of_mean(values, is_upper=False) == pytest.approx(41 - half, abs=1e-4)
    assert bound_of_mean(values, is_upper=True) == pytest.approx(41 + half, abs=1e-4)


# Quantiles as printed in tables of Student's t.
@pytest.mark.parametrize(
    ("probability", "degrees", "quantile"),
    [(0.95, 19, 1.7291), (0.95, 24, 1.7109), (0.95, 60, 1.6706), (0.95, 120, 1.6577),
     (0.975, 1, 12.7062), (0.975, 2, 4.3027), (0.975, 3, 3.1824), (0.975, 10, 2.2281), (0.975, 30, 2.0423)],
)  # fmt: skip
def test_student_t_equals_the_tables(probability, degrees, quantile):
    assert student_t(probability, degrees) == pytest.approx(quantile, abs=1e-4)  # four printed digits


def test_the_budget_holds_at_its_threshold():
    condition = budget("psnr.min>=30")
    assert Score(output="y", budget=condition, values=(30.0, 31.0)).margin == 0.0
    assert Score(output="y", budget=condition, values=(29.9, 31.0)).margin < 0


def test_the_worst_output_decides_and_the_first_of_equals():
    condition = budget("psnr.min>=30")
    a, b, c = (Score(output=n, budget=condition, values=(v,)) for n, v in (("a", 33.0), ("b", 31.0), ("c", 31.0)))
    assert worst((a, b, c)) is b


@pytest.mark.parametrize(
    ("text", "value", "margin_db"),
    [
        ("psnr>=30", 33.0, 3.0),
        ("sqnr>=30", 28.0, -2.0),
        ("nme<=0.02", 0.01, 20 * math.log10(2)),
        ("age<=0.5", 5.0, -20.0),
        ("cosine>=0.99", 0.999, 10.0),
        ("ssim>=0.9", 0.8, -10 * math.log10(2)),
        ("iou>=0.9", 0.99, 20.0),
        ("top1>=0.99", 0.9, -20.0),
        ("drop<=1%", 0.1, -20.0),
    ],
)
def test_margins_are_decibels_of_the_error(text, value, margin_db):
    # What stands for no error, 1e-9, is a ten-millionth of the least error here.
    assert budget(text).margin_of(value) == pytest.approx(margin_db, abs=1e-5)


@given(name=st.sampled_from(sorted(METRICS)), data=st.data())
def test_a_margin_says_whether_the_budget_holds_and_grows_with_quality(name, data):
    kind = METRICS[name]
    reach = (
        st.floats(-100, 100)
        if kind.growth == "decibels"
        else st.floats(0, min(kind.best + 5, 1) if not kind.is_less_better else 5)
    )
    condition = Budget(metric=name, statistic="mean", threshold=data.draw(reach))
    values = sorted((data.draw(reach), data.draw(reach)), reverse=kind.is_less_better)
    margins = [condition.margin_of(v) for v in values]
    assert margins[0] <= margins[1]
    assert [m >= 0 for m in margins] == [condition.holds(v) for v in values]
    assert all(math.isfinite(m) for m in margins)


def test_the_worst_is_found_among_other_units():
    years = Score(output="age", budget=budget("age.mean<=0.5"), values=(0.45,))  # 0.9 dB left
    picture = Score(output="y", budget=budget("psnr.mean>=30"), values=(33.0,))
    label = Score(output="c", budget=budget("top1>=0.9"), values=(1.0,) * 9 + (0.0,))  # just holds
    assert worst((picture, years)) is years
    assert worst((picture, years, label)) is label


def test_the_interval_of_a_mean_stays_inside_what_the_metric_can_be():
    assert Score(output="y", budget=budget("psnr>=30"), values=(30.0,)).interval is None
    low, high = Score(output="y", budget=budget("psnr>=30"), values=(30.0, 32.0)).interval
    assert (low, high) == (pytest.approx(31 - 12.7062, abs=1e-3), pytest.approx(31 + 12.7062, abs=1e-3))
    assert Score(output="y", budget=budget("iou>=0.5"), values=(1.0, 0.9)).interval[1] == 1.0
    assert Score(output="y", budget=budget("nme<=0.5"), values=(0.0, 0.1)).interval[0] == 0.0
    # Wilson, 9 of 10: (0.9 + 0.192 ± 1.96 sqrt(0.009 + 0.0096)) / 1.384
    rate = Score(output="y", budget=budget("top1>=0.5"), values=(1.0,) * 9 + (0.0,)).interval
    assert rate == (pytest.approx(0.5958, abs=1e-4), pytest.approx(0.9821, abs=1e-4))
    assert Score(output="y", budget=budget("top1>=0.5"), values=(1.0,)).interval[1] == 1.0

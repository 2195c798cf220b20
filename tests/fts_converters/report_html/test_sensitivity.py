"""Bars of the sensitivity against the budget."""

from __future__ import annotations

import pytest

from fts_converters.report_html.sensitivity import sensitivity_from_report

from . import samples


def unit(value, decision="int8", metric="psnr", **more):
    return {"unit": "u", "op_type": "Conv", "output": "y", "metric": metric, "value": value, "mac_share": 0.5,
            "decision": decision, **more}  # fmt: skip


def test_no_sensitivity_is_no_section():
    assert sensitivity_from_report(samples.report()) is None


def test_bars_and_the_budgets_line_share_one_axis():
    found = sensitivity_from_report(samples.report(sensitivity=[unit(15.0), unit(60.0)]))
    assert [row.length for row in found.rows] == [0.25, 1.0]
    assert found.threshold == 30
    assert [row.threshold_at for row in found.rows] == [0.5, 0.5]
    assert [row.is_missed for row in found.rows] == [True, False]


def test_a_budget_beyond_every_unit_still_lies_on_the_axis():
    metrics = [samples.metric(budget="psnr>=80", value=50.0)]
    found = sensitivity_from_report(samples.report(sensitivity=[unit(40.0)], metrics=metrics))
    assert (found.rows[0].length, found.rows[0].threshold_at) == (0.5, 1.0)


def test_a_budget_of_none_has_no_line():
    report = samples.report(sensitivity=[unit(40.0)], metrics=[], budget={"text": "none", "met": True, "items": []})
    found = sensitivity_from_report(report)
    assert found.threshold is None
    assert not found.has_thresholds
    assert found.rows[0].threshold_at is None
    assert not found.rows[0].is_missed


@pytest.mark.parametrize(
    ("text", "decision", "reason", "is_integer"),
    [("float", "float", "", False), ("int8", "int8", "", True), ("int8: less than 50% else", "int8", "less than 50% else", True)],
)  # fmt: skip
def test_the_decision_is_told_from_its_reason(text, decision, reason, is_integer):
    (row,) = sensitivity_from_report(samples.report(sensitivity=[unit(40.0, text)])).rows
    assert (row.decision, row.reason, row.is_integer) == (decision, reason, is_integer)


def test_an_infinite_value_has_a_full_bar():
    (row,) = sensitivity_from_report(samples.report(sensitivity=[unit(None)])).rows
    assert row.length == 1.0
    assert not row.is_missed


def test_a_negative_value_has_no_bar():
    assert sensitivity_from_report(samples.report(sensitivity=[unit(-3.0)])).rows[0].length == 0.0


@pytest.mark.parametrize(("method", "expected"), [("pilot", True), ("exhaustive", False), (None, False)])
def test_a_table_that_is_filled_in_says_so(method, expected):
    told = None if method is None else {"name": method, "samples": 5, "forward_passes": 9.5}
    found = sensitivity_from_report(samples.report(sensitivity=[unit(15.0)], sensitivity_method=told))
    assert found.is_partly_filled is expected


def test_an_error_misses_its_budget_above_it():
    rows = [unit(0.08, metric="nme", budget="nme.max<=0.02"), unit(0.01, metric="nme", budget="nme.max<=0.02")]
    found = sensitivity_from_report(samples.report(sensitivity=rows))
    assert [row.is_missed for row in found.rows] == [True, False]
    assert [row.length for row in found.rows] == [1.0, 0.125]
    assert [row.threshold_at for row in found.rows] == [0.25, 0.25]


def test_other_metrics_have_axes_and_budgets_of_their_own():
    rows = [
        unit(0.04, metric="nme", budget="nme<=0.02", output="points"),
        unit(40.0, budget="psnr>=20"),
        unit(80.0, budget="psnr>=20"),
    ]
    found = sensitivity_from_report(samples.report(sensitivity=rows))
    assert [(row.length, row.threshold_at) for row in found.rows] == [(1.0, 0.5), (0.5, 0.25), (1.0, 0.25)]
    assert (found.metric, found.threshold, found.has_thresholds, found.has_outputs) == ("", None, True, True)


def test_a_budget_in_percent_is_a_share():
    (row,) = sensitivity_from_report(samples.report(sensitivity=[unit(0.01, metric="drop", budget="drop<=0.5%")])).rows
    assert (row.threshold, row.is_missed) == (0.005, True)

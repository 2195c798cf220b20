"""Bars of the sensitivity against the budget."""

from __future__ import annotations

import pytest

from fts_converters.report_html.sensitivity import sensitivity_from_report

from . import samples


def unit(value, decision="int8", metric="psnr"):
    return {"unit": "u", "op_type": "Conv", "output": "y", "metric": metric, "value": value, "mac_share": 0.5,
            "decision": decision}  # fmt: skip


def test_no_sensitivity_is_no_section():
    assert sensitivity_from_report(samples.report()) is None


def test_bars_and_the_budgets_line_share_one_axis():
    found = sensitivity_from_report(samples.report(sensitivity=[unit(15.0), unit(60.0)]))
    assert [row.length for row in found.rows] == [0.25, 1.0]
    assert found.threshold == 30
    assert found.threshold_at == 0.5
    assert [row.is_below for row in found.rows] == [True, False]


def test_a_budget_beyond_every_unit_still_lies_on_the_axis():
    metrics = [samples.metric(budget="psnr>=80", value=50.0)]
    found = sensitivity_from_report(samples.report(sensitivity=[unit(40.0)], metrics=metrics))
    assert (found.rows[0].length, found.threshold_at) == (0.5, 1.0)


def test_a_budget_of_none_has_no_line():
    report = samples.report(sensitivity=[unit(40.0)], metrics=[], budget={"text": "none", "met": True, "items": []})
    found = sensitivity_from_report(report)
    assert found.threshold is None
    assert found.threshold_at is None
    assert not found.rows[0].is_below


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
    assert not row.is_below


def test_a_negative_value_has_no_bar():
    assert sensitivity_from_report(samples.report(sensitivity=[unit(-3.0)])).rows[0].length == 0.0


@pytest.mark.parametrize(("method", "expected"), [("pilot", True), ("exhaustive", False), (None, False)])
def test_a_table_that_is_filled_in_says_so(method, expected):
    told = None if method is None else {"name": method, "samples": 5, "forward_passes": 9.5}
    found = sensitivity_from_report(samples.report(sensitivity=[unit(15.0)], sensitivity_method=told))
    assert found.is_partly_filled is expected

"""Bars: what each unit alone in INT8 leaves of the metric, against the budget."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CONDITION = re.compile(r"(>=|<=)\s*(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(%?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityRow:
    """One unit.

    Attributes:
        unit: Name of its main node.
        op_type: Operator.
        output: Whose metric it is.
        metric: Name of the metric.
        value: Metric with this unit alone in INT8; None is infinite.
        length: Of the bar, 0..1.
        threshold: The budget's number, or None.
        threshold_at: Its place on the bar, 0..1, or None.
        share: Of the net's MACs, 0..1.
        decision: What became of it: "int8", "float".
        reason: Why, where the search says it.
        is_integer: Whether it stayed INT8.
        is_missed: Whether it misses the budget alone.
    """

    unit: str
    op_type: str
    output: str
    metric: str
    value: float | None
    length: float
    threshold: float | None
    threshold_at: float | None
    share: float
    decision: str
    reason: str
    is_integer: bool
    is_missed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """All units, worst first.

    Attributes:
        rows: Units.
        metric: The one that all rows have, "" where they differ.
        threshold: The budget's number where all rows have the same, else None.
        has_thresholds: Whether any row has one.
        has_outputs: Whether rows speak of different outputs.
        tag: Evidence.
        is_partly_filled: Whether some samples of most units were filled in, not measured.
    """

    rows: tuple[SensitivityRow, ...]
    metric: str
    threshold: float | None
    has_thresholds: bool
    has_outputs: bool
    tag: str
    is_partly_filled: bool = False


def sensitivity_from_report(report: Mapping[str, Any]) -> Sensitivity | None:
    """The section's content, or None where the report holds no sensitivity."""
    entries = report.get("sensitivity") or []
    if not entries:
        return None
    conditions = [_condition(report, e) for e in entries]
    tops: dict[str, float] = {}
    for entry, (_, threshold) in zip(entries, conditions, strict=True):
        metric = entry["metric"]
        tops[metric] = max(tops.get(metric, 1e-9), entry["value"] or 0.0, threshold or 0.0)
    rows = tuple(_row(e, *c, tops[e["metric"]]) for e, c in zip(entries, conditions, strict=True))
    tags = [m["tag"] for m in report["metrics"] if m["split"] == "select"] or [m["tag"] for m in report["metrics"]]
    metrics, thresholds = {r.metric for r in rows}, {r.threshold for r in rows}
    return Sensitivity(
        rows=rows,
        metric=rows[0].metric if len(metrics) == 1 else "",
        threshold=rows[0].threshold if len(thresholds) == len(metrics) == 1 else None,
        has_thresholds=thresholds != {None},
        has_outputs=len({r.output for r in rows}) > 1,
        tag=tags[0] if tags else "measured",
        is_partly_filled=(report.get("sensitivity_method") or {}).get("name") == "pilot",
    )


def _row(entry: Mapping[str, Any], relation: str, threshold: float | None, top: float) -> SensitivityRow:
    value = entry["value"]
    is_missed = False
    if threshold is not None and value is not None:
        is_missed = value > threshold if relation == "<=" else value < threshold
    return SensitivityRow(
        unit=entry["unit"],
        op_type=entry["op_type"],
        output=entry["output"],
        metric=entry["metric"],
        value=value,
        length=1.0 if value is None else max(value, 0.0) / top,
        threshold=threshold,
        threshold_at=None if threshold is None else max(threshold, 0.0) / top,
        share=entry["mac_share"],
        decision=entry["decision"].partition(":")[0],
        reason=entry["decision"].partition(":")[2].strip(),
        is_integer=entry["decision"].startswith("int"),
        is_missed=is_missed,
    )


def _condition(report: Mapping[str, Any], entry: Mapping[str, Any]) -> tuple[str, float | None]:
    """Relation and number of `psnr>=30`: the entry's own, or as an older fts wrote it beside; None where there is none."""
    metrics = [m for m in report["metrics"] if m["metric"] == entry["metric"] and "budget" in m]
    texts = [entry.get("budget", ""), *(m["budget"] for m in metrics), report["budget"]["text"]]
    for text in texts:
        if match := _CONDITION.search(text):
            return match[1], float(match[2]) / (100.0 if match[3] else 1.0)
    return ">=", None

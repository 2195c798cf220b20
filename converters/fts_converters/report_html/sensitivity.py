"""Bars: what each unit alone in INT8 leaves of the metric, against the budget."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_AT_LEAST = re.compile(r">=\s*(\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityRow:
    """One unit.

    Attributes:
        unit: Name of its main node.
        op_type: Operator.
        metric: Name of the metric.
        value: Metric with this unit alone in INT8; None is infinite.
        length: Of the bar, 0..1.
        share: Of the net's MACs, 0..1.
        decision: What became of it: "int8", "float".
        reason: Why, where the search says it.
        is_integer: Whether it stayed INT8.
        is_below: Whether it misses the budget alone.
    """

    unit: str
    op_type: str
    metric: str
    value: float | None
    length: float
    share: float
    decision: str
    reason: str
    is_integer: bool
    is_below: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """All units, worst first.

    Attributes:
        rows: Units.
        metric: Of the first row.
        threshold: The budget's number, or None.
        threshold_at: Its place on the bars, 0..1, or None.
        tag: Evidence.
        is_partly_filled: Whether some samples of most units were filled in, not measured.
    """

    rows: tuple[SensitivityRow, ...]
    metric: str
    threshold: float | None
    threshold_at: float | None
    tag: str
    is_partly_filled: bool = False


def sensitivity_from_report(report: Mapping[str, Any]) -> Sensitivity | None:
    """The section's content, or None where the report holds no sensitivity."""
    entries = report.get("sensitivity") or []
    if not entries:
        return None
    threshold = _threshold(report, entries[0]["metric"])
    finite = [e["value"] for e in entries if e["value"] is not None]
    top = max([*finite, threshold or 0.0, 1e-9])
    rows = tuple(
        SensitivityRow(
            unit=e["unit"],
            op_type=e["op_type"],
            metric=e["metric"],
            value=e["value"],
            length=1.0 if e["value"] is None else max(e["value"], 0.0) / top,
            share=e["mac_share"],
            decision=e["decision"].partition(":")[0],
            reason=e["decision"].partition(":")[2].strip(),
            is_integer=e["decision"].startswith("int"),
            is_below=threshold is not None and e["value"] is not None and e["value"] < threshold,
        )
        for e in entries
    )
    tags = [m["tag"] for m in report["metrics"] if m["split"] == "select"] or [m["tag"] for m in report["metrics"]]
    return Sensitivity(
        rows=rows,
        metric=entries[0]["metric"],
        threshold=threshold,
        threshold_at=None if threshold is None else threshold / top,
        tag=tags[0] if tags else "measured",
        is_partly_filled=(report.get("sensitivity_method") or {}).get("name") == "pilot",
    )


def _threshold(report: Mapping[str, Any], metric: str) -> float | None:
    """The number in `psnr>=30`; None for a budget of another kind."""
    texts = [m["budget"] for m in report["metrics"] if m["metric"] == metric and "budget" in m]
    for text in [*texts, report["budget"]["text"]]:
        if match := _AT_LEAST.search(text):
            return float(match[1])
    return None

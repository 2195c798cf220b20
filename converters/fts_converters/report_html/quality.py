"""Quality: each output's metric on each split, its worst sample, its mean with interval, and the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fts_converters.report_html.number_text import UNKNOWN, metric_text


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityRow:
    """One output on one split, as text.

    Attributes:
        output: Its name.
        split: Of the data.
        metric: Name of the metric.
        worst: Of the samples.
        mean: Of the samples.
        interval: 95 % of the mean, "–" where it cannot be told.
        samples: How many.
        budget: As written, "" when there is none.
        is_met: Whether it holds.
        tag: Evidence.
    """

    output: str
    split: str
    metric: str
    worst: str
    mean: str
    interval: str
    samples: int
    budget: str
    is_met: bool
    tag: str


def is_less_better(entry: Mapping[str, Any]) -> bool:
    """Whether a report's entry holds an error: its budget says so."""
    return "<=" in entry.get("budget", "")


def worst_value(entry: Mapping[str, Any]) -> float | None:
    """Of the samples; None is infinite. Reports of an older fts hold no errors and no `max`."""
    value: float | None = entry["max"] if is_less_better(entry) and "max" in entry else entry["min"]
    return value


def interval_text(entry: Mapping[str, Any]) -> str:
    """ "40.10 dB to 43.20 dB", or "–"."""
    interval = entry.get("interval")
    if interval is None:
        return UNKNOWN
    return " to ".join(metric_text(entry["metric"], bound) for bound in interval)


def quality_from_report(report: Mapping[str, Any]) -> tuple[QualityRow, ...]:
    """The section's rows, in the order of the report."""
    return tuple(
        QualityRow(
            output=m["output"],
            split=m["split"],
            metric=m["metric"],
            worst=metric_text(m["metric"], worst_value(m)),
            mean=metric_text(m["metric"], m["mean"]),
            interval=interval_text(m),
            samples=m["n"],
            budget=m.get("budget", ""),
            is_met=m.get("met", True),
            tag=m["tag"],
        )
        for m in report["metrics"]
    )

"""Calibration: which files were used for what, which were not and why, what the audit found, the range of every tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SPLITS = ("calibrate", "select", "verify")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationFile:
    """One file; `color` is its mean as a CSS colour, "" when not known."""

    path: str
    split: str
    is_used: bool
    reason: str
    color: str
    mean_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRow:
    """Bounds of one tensor, and where they lie on a symmetric logarithmic axis, 0..1."""

    tensor: str
    low: float
    high: float
    low_at: float
    high_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """One finding of the audit."""

    id: str
    severity: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The section's content; `counts` are (split, number of files), skipped last."""

    files: tuple[CalibrationFile, ...]
    findings: tuple[FindingRow, ...]
    counts: tuple[tuple[str, int], ...]
    ranges: tuple[RangeRow, ...]


def calibration_from_report(report: Mapping[str, Any]) -> Calibration:
    """Read files and ranges."""
    files = tuple(_file(f) for f in report["calibration"]["files"])
    counts = [(s, sum(f.split == s for f in files)) for s in SPLITS]
    counts.append(("skipped", sum(not f.is_used for f in files)))
    return Calibration(
        files=files,
        findings=tuple(FindingRow(**f) for f in report["calibration"].get("findings", ())),
        counts=tuple((name, n) for name, n in counts if n),
        ranges=_ranges(report["calibration"].get("ranges", ())),
    )


def _file(entry: Mapping[str, Any]) -> CalibrationFile:
    mean = entry["mean_rgb"]
    return CalibrationFile(
        path=entry["path"],
        split=entry["split"] or "",
        is_used=entry["status"] == "used",
        reason=entry["reason"],
        color="" if mean is None else "#" + "".join(f"{min(max(round(v), 0), 255):02x}" for v in mean),
        mean_text="" if mean is None else ", ".join(f"{v:.0f}" for v in mean),
    )


def _ranges(entries: Any) -> tuple[RangeRow, ...]:
    """x is drawn at (1 + sign(x) log(1 + |x|) / log(1 + largest)) / 2, so that ranges of 0.1 and of 100 both show."""
    top = max((max(abs(e["low"]), abs(e["high"])) for e in entries), default=0.0) or 1.0

    def place(x: float) -> float:
        return (1 + math.copysign(math.log1p(abs(x)) / math.log1p(top), x)) / 2

    return tuple(
        RangeRow(tensor=e["tensor"], low=e["low"], high=e["high"], low_at=place(e["low"]), high_at=place(e["high"]))
        for e in entries
    )

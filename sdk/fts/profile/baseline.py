"""`--fail-if`: a condition on a percentile, alone or against an earlier profile."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fts.errors import UsageError

_CONDITION = re.compile(r"\s*p(50|90|99)\s*>\s*(\d+(?:\.\d+)?)\s*(x|ms)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """`p90>1.05x` or `p90>12ms`."""

    percent: int
    limit: float
    unit: Literal["x", "ms"]

    def __str__(self) -> str:
        return f"p{self.percent}>{self.limit:g}{self.unit}"


def conditions_from_text(text: str) -> tuple[Condition, ...]:
    """Read conditions joined by commas.

    Raises:
        UsageError: One of them is not a condition.
    """
    conditions = []
    for part in text.split(","):
        match = _CONDITION.fullmatch(part)
        if match is None:
            raise UsageError(
                f"--fail-if {text!r}: found {part!r}, expected p50, p90 or p99, then > and a factor of the baseline or "
                "milliseconds: 'p90>1.05x', 'p90>12ms'."
            )
        conditions.append(
            Condition(percent=int(match[1]), limit=float(match[2]), unit="x" if match[3] == "x" else "ms")
        )
    return tuple(conditions)


def read_baseline(path: str) -> Mapping[str, Any]:
    """An earlier `--json` of fts-profile.

    Raises:
        UsageError: It cannot be read, or is something else.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        _percentiles(document)
        str(document["scenario"]["name"])
    except OSError as cause:
        raise UsageError(f"--baseline {path}: cannot be read: {cause.strerror or cause}") from cause
    except (ValueError, KeyError, TypeError) as cause:
        raise UsageError(f"--baseline {path}: is not what fts-profile --json writes.") from cause
    return dict(document)


def check_comparable(old: Mapping[str, Any], scenario: str, path: str) -> None:
    """Refuse to compare two kinds of load.

    Raises:
        UsageError: The baseline was measured under another scenario.
    """
    if old["scenario"]["name"] != scenario:
        raise UsageError(
            f"--baseline {path}: was measured with --scenario {old['scenario']['name']}, this is {scenario}. "
            "Measure both alike."
        )


def differences(new: Mapping[str, Any], old: Mapping[str, Any]) -> tuple[str, ...]:
    """What besides the bundle differs between two profiles, for a warning."""
    pairs = [
        ("cpu", new["machine"]["cpu_model"], old.get("machine", {}).get("cpu_model")),
        ("onnxruntime", new["machine"]["onnxruntime"], old.get("machine", {}).get("onnxruntime")),
        ("threads", new["scenario"]["threads"], old.get("scenario", {}).get("threads")),
    ]
    return tuple(f"{name} {before} became {now}" for name, now, before in pairs if now != before)


def violations(
    conditions: tuple[Condition, ...], new: Mapping[str, Any], old: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Sentences about the conditions that hold, or that cannot be decided; both fail.

    Args:
        conditions: What must not be.
        new: The profile, as a document.
        old: The baseline, for conditions in "x".
    """
    sentences = (_sentence(c, new, old) for c in conditions)
    return tuple(s for s in sentences if s)


def _sentence(condition: Condition, new: Mapping[str, Any], old: Mapping[str, Any] | None) -> str:
    entry = _percentiles(new)[condition.percent]
    if entry["state"] == "n too small":
        return (
            f"--fail-if {condition}: cannot be decided, {entry['n']} frames are too few for p{condition.percent}. "
            "Measure longer (--seconds)."
        )
    now = float("inf") if entry["state"] == "lost" else float(entry["value_ms"])
    if condition.unit == "ms":
        if now <= condition.limit:
            return ""
        return f"--fail-if {condition}: p{condition.percent} is {_ms(now)}."
    if old is None:
        raise ValueError("a condition in x needs a baseline")
    before_entry = _percentiles(old)[condition.percent]
    if before_entry["state"] != "ok":
        return f"--fail-if {condition}: cannot be decided, the baseline has no p{condition.percent}."
    before = float(before_entry["value_ms"])
    if now <= condition.limit * before:
        return ""
    return f"--fail-if {condition}: p{condition.percent} went from {before:.3f} ms to {_ms(now)}, {now / before:.3f}x."


def _ms(value: float) -> str:
    return "beyond measure: frames were lost" if value == float("inf") else f"{value:.3f} ms"


def _percentiles(document: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    return {int(e["percent"]): e for e in document["latency"]["percentiles"]}

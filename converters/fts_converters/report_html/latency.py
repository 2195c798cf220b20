"""The latency section, from what `fts-profile --json` wrote (schema: fts/schema/profile.schema.json).

Percentiles, intervals and claims are taken as they stand there; nothing is estimated anew. Raw samples, where they are
kept, only become the histogram.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fts_converters.report_html.number_text import milliseconds_text

STAGES = ("wait", "pre", "engine", "post")
STAGE_WORDS = {"wait": "waiting", "pre": "preprocessing", "engine": "engine", "post": "postprocessing"}

Samples = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentileRow:
    """One percentile; None where n is too small or the frames were lost."""

    name: str
    value_ms: float | None
    low_ms: float | None
    high_ms: float | None
    state: str

    @property
    def value_text(self) -> str:
        """The value, or why there is none."""
        return milliseconds_text(self.value_ms) if self.state == "ok" else self.state

    @property
    def interval_text(self) -> str:
        """The 95 % interval; an end that the samples do not reach is open."""
        low = milliseconds_text(self.low_ms) if self.low_ms is not None else "…"
        high = milliseconds_text(self.high_ms) if self.high_ms is not None else "…"
        return f"{low} to {high}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Latency:
    """The section's content.

    Attributes:
        tag: Evidence of every time in it.
        engine: Engine that ran.
        scenario: In one line.
        machine: In one line.
        unstable: Why there is no headline; empty when the run was stable.
        percentiles: p50, p90, p99.
        ages_ms: Ages of the finished frames, float64 (n,); empty without raw samples.
        frames: Frames captured.
        dropped: Of these, never run.
        stages: (words, median in ms, share of their sum 0..1).
        cold: (words, ms or None).
        ratio: The comparison with FP32 in one sentence, "" where there is none.
        layers: Rows of the layer table as they stand, largest first.
        layers_note: Inflation and share told, in one sentence.
        warnings: Notes of the profile.
    """

    tag: str
    engine: str
    scenario: str
    machine: str
    unstable: tuple[str, ...]
    percentiles: tuple[PercentileRow, ...]
    ages_ms: Samples
    frames: int
    dropped: int
    stages: tuple[tuple[str, float, float], ...]
    cold: tuple[tuple[str, float | None], ...]
    ratio: str
    layers: tuple[Mapping[str, Any], ...]
    layers_note: str
    warnings: tuple[str, ...]


def latency_from_profile(profile: Mapping[str, Any]) -> Latency:
    """Read a profile.

    Raises:
        KeyError: It lacks what every profile has.
    """
    latency, bundle, scenario = profile["latency"], profile["bundle"], profile["scenario"]
    stability, table = profile["stability"], profile.get("layers")
    return Latency(
        tag=str(bundle["evidence"]["tag"]),
        engine=str(bundle["engine"]),
        scenario=_scenario_text(scenario),
        machine=_machine_text(profile["machine"]),
        unstable=() if stability["stable"] else tuple(str(r) for r in stability["reasons"]),
        percentiles=tuple(_percentile(p) for p in latency["percentiles"]),
        ages_ms=_ages_ms(profile.get("samples")),
        frames=latency["frames"],
        dropped=latency["dropped"],
        stages=_stages(profile["stages"]),
        cold=_cold(profile["load"], profile["cold"]),
        ratio=_ratio_text(profile.get("ratio")),
        layers=tuple(table["rows"]) if table else (),
        layers_note=_layers_note(table) if table else "",
        warnings=tuple(str(w) for w in profile["warnings"]),
    )


def _percentile(entry: Mapping[str, Any]) -> PercentileRow:
    return PercentileRow(
        name=f"p{entry['percent']:g}",
        value_ms=entry["value_ms"],
        low_ms=entry["low_ms"],
        high_ms=entry["high_ms"],
        state=entry["state"],
    )


def _ages_ms(samples: Any) -> Samples:
    """Capture to result of every finished frame: the sum of its stages."""
    if not samples:
        return np.empty(0)
    runs = [np.sum([np.asarray(run[f"{s}_ms"], np.float64) for s in STAGES], axis=0) for run in samples]
    return np.asarray(np.concatenate(runs), np.float64)


def _stages(entries: Any) -> tuple[tuple[str, float, float], ...]:
    total = sum(e["p50_ms"] for e in entries) or 1.0
    return tuple((STAGE_WORDS.get(e["name"], e["name"]), e["p50_ms"], e["p50_ms"] / total) for e in entries)


def _cold(load: Mapping[str, Any], cold: Mapping[str, Any]) -> tuple[tuple[str, float | None], ...]:
    steps = (("first frame", "first_ms"), ("second", "second_ms"), ("tenth", "tenth_ms"))
    return (("open bundle", load["open_ms"]), ("make engine", load["engine_ms"]), *((w, cold[k]) for w, k in steps))


def _scenario_text(scenario: Mapping[str, Any]) -> str:
    text = f"{scenario['name']}, {scenario['runs']} fresh processes, {scenario['seconds']:g} s"
    return f"{text}, {scenario['threads']} threads" if "threads" in scenario else text


def _machine_text(machine: Mapping[str, Any]) -> str:
    words = [machine.get("cpu_model"), machine.get("device_model"), machine.get("system")]
    if "usable_cpus" in machine and "cpus" in machine:
        words.insert(1, f"{machine['usable_cpus']} of {machine['cpus']} CPUs")
    if machine.get("onnxruntime"):
        words.append(f"onnxruntime {machine['onnxruntime']}")
    return ", ".join(str(w) for w in words if w)


def _ratio_text(ratio: Mapping[str, Any] | None) -> str:
    if ratio is None:
        return ""
    if ratio.get("against") is None:
        return f"Not compared with FP32: {ratio['reason']}"
    measure = ratio.get("measure", "wall time")
    busy = "" if measure == "wall time" else " The machine was too busy to compare wall time."
    interval = f"{measure}, ratio {ratio['ratio']:.3f}, 95 % interval {ratio['low']:.3f} to {ratio['high']:.3f}"
    if not ratio["differs"]:
        return f"Against the portable FP32 net: no difference detected ({interval}).{busy}"
    factor = ratio["ratio"] if ratio["ratio"] > 1 else 1 / ratio["ratio"]
    if busy:
        side = "more CPU time" if ratio["ratio"] > 1 else "less CPU time"
    else:
        side = "slower" if ratio["ratio"] > 1 else "faster"
    return f"{factor:.2f}× {side} than the portable FP32 net ({interval}).{busy}"


def _layers_note(table: Mapping[str, Any]) -> str:
    return (
        f"Measured in a run of its own and scaled to the unprofiled time; profiling made it {table['inflation']:.2f}× as "
        f"long. Kernels account for {table['attributed_share']:.0%} of that run."
    )

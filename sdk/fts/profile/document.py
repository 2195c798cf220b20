"""The profile as a JSON document, under `fts/schema/profile.schema.json`; times in milliseconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fts.model import Model
from fts.profile.layers import LayerTable
from fts.profile.measure import Measurement, Run
from fts.profile.order_statistics import Percentile, Samples, autocorrelation, percentile
from fts.profile.stability import unstable_reasons, variation

SCHEMA_VERSION = 1
PERCENTS = (50, 90, 99)
STAGES = {
    "wait": ("due_ns", "begin_ns"),
    "pre": ("begin_ns", "engine_begin_ns"),
    "engine": ("engine_begin_ns", "engine_end_ns"),
    "post": ("engine_end_ns", "end_ns"),
}


def document_from_measurement(
    measurement: Measurement, model: Model, scenario: Mapping[str, Any], warnings: Sequence[str]
) -> dict[str, Any]:
    """Everything that was found, without the raw samples.

    Args:
        measurement: What was measured.
        model: The bundle, loaded as it was measured.
        scenario: name, seconds, runs, threads, frames, inputs.
        warnings: What a reader has to know, besides what is in the figures.
    """
    runs = measurement.runs
    reasons = unstable_reasons(
        measurement.run_medians_ms,
        converged=runs[0].warm_up.converged,
        machine=measurement.machine,
        seen=measurement.seen,
    )
    return {
        "schema_version": SCHEMA_VERSION,
        "bundle": {
            "name": model.path.name,
            "target": model.target,
            "engine": model.engine,
            "evidence": asdict(model.evidence),
            "members": {m.path: m.sha256 for m in model.manifest.members},
        },
        "scenario": dict(scenario),
        "machine": _lists(asdict(measurement.machine)),
        "surroundings": asdict(measurement.seen),
        "stability": {"stable": not reasons, "reasons": list(reasons)},
        "load": {
            "open_ms": statistics.median(r.open_ms for r in runs),
            "engine_ms": statistics.median(r.engine_ms for r in runs),
        },
        "cold": _cold(runs),
        "latency": _latency(measurement),
        "stages": [_stage(name, measurement.stage_ms(*moments)) for name, moments in STAGES.items()],
        "memory": {
            "rss_bytes": _most([r.memory.rss_bytes for r in runs]),
            "peak_rss_bytes": _most([r.memory.peak_rss_bytes for r in runs]),
        },
        "gc": {
            "total_ms": sum(r.gc_total_ms for r in runs),
            "longest_ms": max(r.gc_longest_ms for r in runs),
        },
        "ratio": _ratio(measurement),
        "layers": _layers(measurement.layers) if measurement.layers else None,
        "warnings": list(warnings),
        "samples": None,
    }


def samples_from_measurement(measurement: Measurement) -> list[dict[str, Any]]:
    """Raw samples, a run each: milliseconds of every finished frame, in order."""
    return [
        {
            **{
                f"{name}_ms": [round(v, 6) for v in _span_ms(run, *moments).tolist()]
                for name, moments in STAGES.items()
            },
            "due_ms": [round(v, 6) for v in ((run.timeline.due_ns - run.timeline.due_ns[0]) / 1e6).tolist()],
            "dropped": run.timeline.dropped,
        }
        for run in measurement.runs
    ]


def arrays_from_samples(samples: Sequence[Mapping[str, Any]]) -> dict[str, Samples]:
    """The same as arrays "run/0/engine_ms", ..., for an npz file."""
    return {f"run/{i}/{key}": np.asarray(value) for i, run in enumerate(samples) for key, value in run.items()}


def _latency(measurement: Measurement) -> dict[str, Any]:
    ages = measurement.ages_ms
    finite = ages[np.isfinite(ages)]
    return {
        "frames": int(ages.size),
        "dropped": int(ages.size - finite.size),
        "percentiles": [_percentile(percentile(ages, p)) for p in PERCENTS],
        "mean_ms": float(finite.mean()),
        "min_ms": float(finite.min()),
        "max_ms": float(finite.max()),
        "run_medians_ms": list(measurement.run_medians_ms),
        "run_variation": variation(measurement.run_medians_ms),
        "autocorrelation": statistics.fmean(autocorrelation(r.timeline.ages_ms) for r in measurement.runs),
    }


def _percentile(found: Percentile) -> dict[str, Any]:
    state = "n too small" if found.value is None else "ok" if math.isfinite(found.value) else "lost"
    return {
        "percent": found.percent,
        "n": found.n,
        "state": state,
        "value_ms": _finite(found.value),
        "low_ms": _finite(found.low),
        "high_ms": _finite(found.high),
    }


def _stage(name: str, spans_ms: Samples) -> dict[str, Any]:
    return {"name": name, "p50_ms": float(np.median(spans_ms)), "p90_ms": _finite(percentile(spans_ms, 90).value)}


def _cold(runs: Sequence[Run]) -> dict[str, Any]:
    def median_of(values: Sequence[float | None]) -> float | None:
        known = [v for v in values if v is not None]
        return statistics.median(known) if known else None

    first = runs[0].warm_up
    return {
        "first_ms": median_of([r.warm_up.first_ms for r in runs]),
        "second_ms": median_of([r.warm_up.second_ms for r in runs]),
        "tenth_ms": median_of([r.warm_up.tenth_ms for r in runs]),
        "steady_after_frames": first.frames,
        "steady_after_s": first.seconds,
        "window_frames": first.window_frames,
        "converged": first.converged,
        "converged_runs": sum(r.warm_up.converged for r in runs),
    }


def _ratio(measurement: Measurement) -> dict[str, Any]:
    ratio = measurement.ratio
    if ratio is None:
        return {"against": None, "reason": measurement.no_ratio_reason}
    return {
        "against": "portable FP32 net of the same bundle",
        "measure": ratio.measure,
        "ratio": ratio.ratio,
        "low": ratio.low,
        "high": ratio.high,
        "run_spread": ratio.spread,
        "pair_ratios": list(ratio.pair_ratios),
        "differs": ratio.differs,
        "reason": ratio.reason,
    }


def _layers(table: LayerTable) -> dict[str, Any]:
    return {
        "profiled_ms": table.profiled_ms,
        "unprofiled_ms": table.unprofiled_ms,
        "inflation": table.inflation,
        "attributed_share": table.attributed_share,
        "rows": [_lists(asdict(row)) for row in table.rows],
    }


def _span_ms(run: Run, begin: str, end: str) -> Samples:
    return np.asarray((getattr(run.timeline, end) - getattr(run.timeline, begin)) / 1e6, np.float64)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _most(values: Sequence[int | None]) -> int | None:
    return max((v for v in values if v is not None), default=None)


def _lists(fields: dict[str, Any]) -> dict[str, Any]:
    """Tuples as JSON will read them back."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}

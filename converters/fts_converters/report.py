"""report.json: what was done, what was not and why. Schema: `fts/schema/report.schema.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from fts.vocabulary.plan import Plan
from fts_calibration.audit.finding import Finding
from fts_calibration.dataset.calibration_set import FileRecord
from fts_calibration.metrics.budget import Score
from fts_calibration.sensitivity.table import SensitivityTable
from fts_calibration.statistics.statistics import TensorRange
from fts_converters.quantize.search_budget import TriedPlan, UnitLoss
from fts_converters.recover.ladder import Rung


def metrics_json(scores: Sequence[Score], split: str, tag: str) -> list[dict[str, Any]]:
    """One entry an output and split; `value` is the number that the budget speaks of, `interval` that of the mean."""
    return [
        {
            "output": s.output,
            "metric": s.budget.metric,
            "budget": str(s.budget),
            "min": _metric_value(min(s.values)),
            "mean": _metric_value(fmean(s.values)),
            "max": _metric_value(max(s.values)),
            "value": _metric_value(s.value),
            "interval": None if s.interval is None else [_metric_value(bound) for bound in s.interval],
            "margin_db": round(s.margin, 4),
            "n": len(s.values),
            "met": s.margin >= 0,
            "split": split,
            "tag": tag,
        }
        for s in scores
        if s.values
    ]


def report_json(
    *,
    target: str,
    dialect: str,
    files: Sequence[FileRecord],
    ranges: Mapping[str, TensorRange],
    plan: Plan,
    metrics: Sequence[dict[str, Any]],
    budget: dict[str, Any],
    integer_mac_share: float,
    kernels: dict[str, int],
    losses: Sequence[UnitLoss],
    warnings: Sequence[tuple[str, str]],
    rungs: Sequence[Rung] = (),
    histograms: Sequence[Mapping[str, Any]] = (),
    given_scales: Mapping[str, int] | None = None,
    findings: Sequence[Finding] = (),
    front: Sequence[TriedPlan] = (),
    sensitivity: SensitivityTable | None = None,
) -> str:
    """The report as text, keys sorted, the same for the same conversion; `given_scales` is None for a net that came without.

    `sensitivity` says how `losses` were found; None where there are none.
    """
    report = {
        "target": target,
        "dialect": dialect,
        "calibration": {
            "files": [_file_json(f) for f in files],
            "findings": [f.to_json() for f in findings],
            "ranges": [{"tensor": n, "low": _rounded(r.low), "high": _rounded(r.high)} for n, r in ranges.items()],
        },
        "nodes": [
            {
                "name": n.name,
                "op_type": n.op_type,
                "precision": n.precision,
                "engine": n.engine,
                "reason": n.reason,
                "macs": n.macs,
            }
            for n in plan.nodes
        ],
        "metrics": list(metrics),
        "budget": budget,
        "integer_mac_share": round(integer_mac_share, 6),
        "kernels": kernels,
        "sensitivity": [
            {
                "unit": s.unit,
                "op_type": s.op_type,
                "output": s.score.output,
                "metric": s.score.budget.metric,
                "budget": str(s.score.budget),
                "value": _metric_value(s.score.value),
                "mac_share": round(s.mac_share, 6),
                "decision": s.decision,
            }
            for s in losses
        ],
        "pareto": [
            {
                "integer_share": round(t.integer_share, 6),
                "fine_share": round(t.fine_share, 6),
                "cost": round(t.cost, 6),
                "output": t.score.output,
                "metric": t.score.budget.metric,
                "value": _metric_value(t.score.value),
                "met": t.score.margin >= 0,
            }
            for t in front
        ],
        "recovery": [
            {
                "rung": r.name,
                "output": r.after.output,
                "metric": r.after.budget.metric,
                "before": round(r.before.value, 4),
                "after": round(r.after.value, 4),
                "kept": r.is_kept,
                "skipped": [{"unit": unit, "reason": reason} for unit, reason in r.skipped],
            }
            for r in rungs
        ],
        "sensitivity_method": None
        if sensitivity is None
        else {
            "name": sensitivity.method,
            "samples": sensitivity.samples,
            "forward_passes": round(sensitivity.forward_passes, 1),
        },
        "histograms": list(histograms),
        "given_scales": dict(given_scales or {"activations": 0, "constants": 0}),
        "warnings": [{"id": i, "text": t} for i, t in warnings],
    }
    return json.dumps(report, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _metric_value(value: float) -> float:
    """Four decimals, or four significant digits of what is smaller: an error of 0.00003 is not 0."""
    return round(value, 4) if abs(value) >= 0.1 else float(f"{value:.4g}")


def _rounded(value: float) -> float:
    """Seven significant digits: all that float32 has."""
    return float(f"{value:.7g}")


def _file_json(record: FileRecord) -> dict[str, Any]:
    mean = None if record.mean_rgb is None else [round(v, 2) for v in record.mean_rgb]
    return {
        "path": record.path,
        "split": record.split or None,
        # A duplicate was read and counts once, under the name that its reason says.
        "status": "skipped" if record.status == "skipped" else "used",
        "reason": record.reason,
        "mean_rgb": mean,
    }

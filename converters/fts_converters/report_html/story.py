"""The page's first screen in words and figures: the verdict, what stands in the way, what to try."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fts_calibration.metrics.known_metrics import USER
from fts_converters.report_html.content import Content
from fts_converters.report_html.layers import Layer
from fts_converters.report_html.number_text import budget_text, bytes_text, metric_name, metric_text, share_text
from fts_converters.report_html.quality import interval_text, is_less_better
from fts_converters.report_html.sensitivity import Sensitivity

State = Literal["met", "missed", "none"]
OBSTACLES_TOLD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A headline number.

    Attributes:
        label: What it is.
        value: The number with its unit.
        detail: One short line below.
        tag: Evidence.
        is_bad: Whether it is what misses the budget.
    """

    label: str
    value: str
    detail: str
    tag: str
    is_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Something to try; `tag` is the evidence of the numbers in it, "" when it holds none."""

    text: str
    command: str = ""
    tag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The first screen."""

    state: State
    verdict: str
    lead: str
    failures: tuple[str, ...]
    figures: tuple[Figure, ...]
    obstacles: tuple[str, ...]
    advice: tuple[Advice, ...]


def tell(content: Content, layers: Sequence[Layer], sensitivity: Sensitivity | None) -> Story:
    """Compose the first screen."""
    budget = content.report["budget"]
    is_none = budget["text"].strip() == "none"
    state: State = "missed" if not budget["met"] else "none" if is_none else "met"
    verdict = {"met": "Budget met", "missed": "Budget missed", "none": "No budget was set"}[state]
    return Story(
        state=state,
        verdict=verdict,
        lead=_lead(content, state),
        failures=tuple(str(item.get("failure", item)) for item in budget["items"]),
        figures=_figures(content, layers),
        obstacles=_obstacles(sensitivity) if state == "missed" else (),
        advice=_advice(content.report, sensitivity) if state == "missed" else (),
    )


def evidence_tag(report: Mapping[str, Any]) -> str:
    """How the engine was executed when it was judged."""
    return str(_judged(report)[0]["tag"]) if report["metrics"] else "measured"


def _judged(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Metrics on the data kept for proof, else all."""
    return [m for m in report["metrics"] if m["split"] == "verify"] or list(report["metrics"])


def _lead(content: Content, state: State) -> str:
    share = share_text(content.report["integer_mac_share"])
    work = f"{share} of the multiply-accumulates run in integers"
    text = content.report["budget"]["text"].removesuffix(" (default)")
    if state == "missed":
        return (
            f"The best attempt, not a release: {work}. fts.load refuses this bundle unless it is told "
            "allow_below_budget=True."
        )
    if state == "none":
        return f"{work}; nothing was judged, because --budget none asked for that."
    samples = max((m["n"] for m in content.report["metrics"] if m["split"] == "verify"), default=0)
    proof = f"{samples} samples that neither calibration nor search saw" if samples else "the calibration data"
    return f"{work}, and {budget_text(text)} holds on {proof}."


def _figures(content: Content, layers: Sequence[Layer]) -> tuple[Figure, ...]:
    report, tag = content.report, evidence_tag(content.report)
    found = []
    if judged := [m for m in report["metrics"] if m.get("met") is False] or _judged(report):
        worst = min(judged, key=_distance)
        value = worst.get("value", worst["min"])
        budget = budget_text(worst.get("budget", report["budget"]["text"]))
        detail = f"output {worst['output']}, {worst['split']} split, n = {worst['n']}; wanted {budget}"
        if worst.get("interval") is not None:
            detail += f"; mean {metric_text(worst['metric'], worst['mean'])}, 95 % {interval_text(worst)}"
        found.append(
            Figure(
                label=f"{metric_name(worst['metric'])} against FP32",
                value=metric_text(worst["metric"], value),
                detail=detail,
                tag=str(worst["tag"]),
                is_bad=worst.get("met") is False and not report["budget"]["met"],
            )
        )
    integer = sum(layer.is_integer for layer in layers)
    found.append(
        Figure(
            label="Work in integers",
            value=share_text(report["integer_mac_share"]),
            detail=f"of the multiply-accumulates; {integer} of {len(layers)} layers",
            tag=tag,
        )
    )
    if content.speed is not None:
        speed = content.speed
        detail = f"95 % {speed['low']:.2f} to {speed['high']:.2f}, in turns on the converting machine"
        found.append(
            Figure(
                label="Speed against FP32",
                value=f"{speed['ratio']:.2f}×",
                detail=". ".join(filter(None, (detail, str(speed.get("why", ""))))),
                tag="measured",
                is_bad=speed["low"] <= 1.0,
            )
        )
    sizes = content.sizes
    if sizes.engine is not None and sizes.portable:
        ratio = sizes.portable / sizes.engine
        detail = f"FP32 has {bytes_text(sizes.portable)}: {ratio:.1f}× as much"
        if sizes.bundle is not None:
            detail += f"; whole bundle {bytes_text(sizes.bundle)}"
        found.append(Figure(label="Size of the engine", value=bytes_text(sizes.engine), detail=detail, tag="measured"))
    return tuple(found)


def _distance(metric: Mapping[str, Any]) -> float:
    """From the budget, in the one unit that all metrics have; an older report has its values alone."""
    if metric["min"] is None:
        return math.inf
    return float(metric.get("margin_db", metric.get("value", metric["min"])))


def _obstacles(sensitivity: Sensitivity | None) -> tuple[str, ...]:
    if sensitivity is None:
        return ()
    stuck = [row for row in sensitivity.rows if row.is_missed and row.is_integer]
    told = [
        f"{row.unit} ({row.op_type}, {share_text(row.share)} of the MACs) alone in INT8 leaves "
        f"{metric_text(row.metric, row.value)} of the {metric_text(row.metric, row.threshold)} wanted, and stays "
        f"{row.decision}: {row.reason}"
        for row in stuck[:OBSTACLES_TOLD]
    ]
    if len(stuck) > OBSTACLES_TOLD:
        told.append(f"So do {len(stuck) - OBSTACLES_TOLD} more units; the sensitivity below shows all")
    return tuple(told)


def _advice(report: Mapping[str, Any], sensitivity: Sensitivity | None) -> tuple[Advice, ...]:
    found = []
    stuck = [r for r in sensitivity.rows if r.is_missed and r.is_integer] if sensitivity is not None else []
    if stuck:
        left = max(report["integer_mac_share"] - sum(r.share for r in stuck), 0.0)
        found.append(
            Advice(
                text=f"Let {'it' if len(stuck) == 1 else 'them'} run in float: {share_text(left)} of the work would stay INT8.",
                command=f"--min-int8 {math.floor(left * 100) / 100:g}",
                tag="predicted",
            )
        )
    low = [m for m in report["metrics"] if m.get("met") is False and m.get("value") is not None]
    if low:
        worst = min(low, key=_distance)
        relation = "<=" if is_less_better(worst) else ">="
        is_one_of_many = worst["metric"] != USER and len({m["output"] for m in report["metrics"]}) > 1
        named = f"{worst['output']}:" if is_one_of_many else ""
        found.append(
            Advice(
                text="Or accept what the best attempt reaches, if the pictures below look right to you.",
                command=f"--budget '{named}{worst['metric']}{relation}{_rounded_towards_worse(worst)}'",
                tag=str(worst["tag"]),
            )
        )
    return tuple(found)


def _rounded_towards_worse(metric: Mapping[str, Any]) -> str:
    """The value as a budget that it holds: tenths of a decibel or of a percent, three digits of other units."""
    value = float(metric["value"])
    if metric["metric"] == "drop":
        return f"{math.ceil(value * 1000) / 10:g}%"
    if metric["metric"] in ("psnr", "sqnr"):
        return f"{math.floor(value * 10) / 10:g}"
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 2) if value else 1.0
    steps = math.ceil(value / step) if is_less_better(metric) else math.floor(value / step)
    return f"{steps * step:.6g}"

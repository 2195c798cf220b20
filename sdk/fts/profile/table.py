"""The profile as text for a terminal. Where the figures are unstable, the reasons stand in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MOST_LAYERS = 20
_NAME_WIDTH = 44
_CORRELATED = 0.3


def table_from_document(document: Mapping[str, Any]) -> str:
    """Lines for people, from the JSON document."""
    return "\n".join(_lines(document))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    bundle, scenario = document["bundle"], document["scenario"]
    yield f"{bundle['name']}: {bundle['engine']} ({bundle['evidence']['tag']})"
    yield from _machine(document["machine"])
    yield (
        f"scenario  {scenario['name']}, {scenario['runs']} fresh processes, {scenario['seconds']:g} s together, "
        f"{scenario['threads']} threads; {scenario['frames']}"
    )
    yield ""
    yield from _headline(document)
    yield ""
    yield from _cold(document)
    memory = document["memory"]
    if memory["rss_bytes"] is not None:
        yield f"memory    resident {memory['rss_bytes'] / 2**20:.0f} MiB, peak {memory['peak_rss_bytes'] / 2**20:.0f} MiB"
    yield _ratio(document["ratio"])
    if document["layers"] is not None:
        yield ""
        yield from _layers(document["layers"], stable=document["stability"]["stable"])
    for warning in document["warnings"]:
        yield f"note      {warning}"


def _machine(machine: Mapping[str, Any]) -> Iterator[str]:
    governor = ", ".join(machine["governors"]) or "unknown"
    yield (
        f"machine   {machine['cpu_model']}, {machine['usable_cpus']} of {machine['cpus']} CPUs usable, governor "
        f"{governor}, {' '.join(machine['cpu_flags'])}"
    )
    yield f"software  {machine['system']}, Python {machine['python']}, onnxruntime {machine['onnxruntime']}"
    if machine["device_model"] or machine["nvpmodel"]:
        yield f"device    {machine['device_model']} {machine['nvpmodel']}"


def _headline(document: Mapping[str, Any]) -> Iterator[str]:
    latency, stability = document["latency"], document["stability"]
    if not stability["stable"]:
        yield f"UNSTABLE  {stability['reasons'][0]}"
        yield from (f"          {reason}" for reason in stability["reasons"][1:])
        yield "          No figure is given for the latency; what was measured stands in --json FILE."
    else:
        yield f"latency   capture to result, {latency['frames']} frames"
        for entry in latency["percentiles"]:
            yield f"  p{entry['percent']:<4} {_percentile(entry)}"
        stages = ", ".join(f"{s['name']} {s['p50_ms']:.3f}" for s in document["stages"])
        yield f"stages    medians in ms: {stages}"
    if document["scenario"]["name"].startswith("open"):
        lost = latency["dropped"]
        yield f"dropped   {lost} of {latency['frames']} frames ({lost / latency['frames']:.1%}); each is a violation"
    if latency["autocorrelation"] > _CORRELATED:
        yield (
            f"note      neighbouring frames are alike (correlation {latency['autocorrelation']:.2f}): the intervals are "
            "too narrow, the spread of the runs tells more"
        )


def _percentile(entry: Mapping[str, Any]) -> str:
    if entry["state"] == "n too small":
        return f"n too small ({entry['n']} frames)"
    if entry["state"] == "lost":
        return "beyond measure: frames were lost"
    high = f"{entry['high_ms']:.3f}" if entry["high_ms"] is not None else "lost"
    low = f"{entry['low_ms']:.3f}" if entry["low_ms"] is not None else "?"
    return f"{entry['value_ms']:9.3f} ms   95 % interval {low} to {high}"


def _cold(document: Mapping[str, Any]) -> Iterator[str]:
    load, cold = document["load"], document["cold"]
    yield f"load      bundle {load['open_ms']:.1f} ms, engine {load['engine_ms']:.1f} ms"
    runs = ", ".join(f"{name} {_ms(cold[f'{name}_ms'])}" for name in ("first", "second", "tenth"))
    settled = "steady" if cold["converged"] else "not steady"
    yield f"cold      {runs}; {settled} after {cold['steady_after_frames']} frames, {cold['steady_after_s']:.2f} s"


def _ms(value: float | None) -> str:
    return "not run" if value is None else f"{value:.2f} ms"


def _ratio(ratio: Mapping[str, Any]) -> str:
    if ratio["against"] is None:
        return f"ratio     none: {ratio['reason']}"
    busy = "" if ratio["measure"] == "wall time" else "; the machine was too busy to compare wall time"
    if not ratio["differs"]:
        return (
            f"ratio     to the {ratio['against']}: no difference detected ({ratio['reason']}, {ratio['measure']}{busy})"
        )
    return (
        f"ratio     {ratio['ratio']:.3f}x the {ratio['measure']} of the {ratio['against']} "
        f"(95 % interval {ratio['low']:.3f} to {ratio['high']:.3f}{busy})"
    )


def _layers(layers: Mapping[str, Any], *, stable: bool) -> Iterator[str]:
    yield (
        f"layers    profiled separately, at {layers['inflation']:.2f}x the unprofiled time, "
        f"{layers['attributed_share']:.0%} of it attributed; scaled to the unprofiled run"
    )
    head = f"  {'node':<{_NAME_WIDTH}} {'op':<18} {'planned':<8} {'ran':<10} {'share':>6} {'convert':>8}"
    yield head + (f" {'ms':>9}" if stable else "")
    *rows, rest = layers["rows"]
    for row in (*rows[:MOST_LAYERS], rest):
        yield _layer(row, stable=stable)
    if len(rows) > MOST_LAYERS:
        others = rows[MOST_LAYERS:]
        yield f"  and {len(others)} smaller ones, {sum(r['share'] for r in others):.1%} together"
    yield "  convert: what of the share quantizes and dequantizes"
    if any(r["unsteady"] for r in layers["rows"]):
        yield "  ~ the share changed by more than 20 % between two profiled runs"


def _layer(row: Mapping[str, Any], *, stable: bool) -> str:
    name = row["name"] if len(row["name"]) <= _NAME_WIDTH else "…" + row["name"][-_NAME_WIDTH + 1 :]
    op_type = row["op_type"] or "+".join(row["kernels"])[:18]
    mark = "~" if row["unsteady"] else " "
    converting = row["share"] * row["conversion_ms"] / row["ms"] if row["ms"] > 0 else 0.0
    line = (
        f"{mark} {name:<{_NAME_WIDTH}} {op_type:<18} {row['planned']:<8} {row['ran']:<10} {row['share']:>6.1%} "
        f"{converting:>8.1%}"
    )
    return line + (f" {row['ms']:>9.3f}" if stable else "")

"""Hand-made reports and profiles: what the page has to show, without converting anything."""

from __future__ import annotations

import random
from typing import Any

import cv2
import numpy as np

OPS = ("Conv", "Relu", "Add", "Conv", "Resize", "MatMul")
REASONS = {
    "Conv": "integer kernel",
    "MatMul": "integer kernel",
    "Relu": "computed by the integer kernel before it",
    "Add": "between float neighbours: converting to integers and back would cost more than it saves",
    "Resize": "onnxruntime-cpu has no integer kernel for Resize in this place",
}


def node(
    name: str, op_type: str = "Conv", precision: str = "int8", macs: int = 1_000_000, **more: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "op_type": op_type,
        "precision": precision,
        "engine": "onnxruntime-cpu",
        "reason": "integer kernel",
        "macs": macs,
        **more,
    }


def metric(split: str = "verify", value: float | None = 41.25, budget: str = "psnr>=30", **more: Any) -> dict[str, Any]:
    return {
        "output": "y",
        "metric": "psnr",
        "budget": budget,
        "min": value,
        "mean": None if value is None else value + 2,
        "max": None if value is None else value + 4,
        "value": value,
        "interval": None if value is None else [value + 1, value + 3],
        "margin_db": 90.0 if value is None else value - float(budget.partition(">=")[2] or 0),
        "n": 5,
        "met": value is None or value >= float(budget.partition(">=")[2] or 0),
        "split": split,
        "tag": "measured",
        **more,
    }


def report(**more: Any) -> dict[str, Any]:
    """A small net that met its budget."""
    return {
        "target": "cpu-int8",
        "dialect": "onnxruntime-x86-vnni",
        "calibration": {
            "files": [
                {"path": "a.png", "split": "calibrate", "status": "used", "reason": "", "mean_rgb": [200.0, 10.0, 0.4]},
                {"path": "b.png", "split": "verify", "status": "used", "reason": "", "mean_rgb": [1.0, 2.0, 3.0]},
                {"path": "c.txt", "split": None, "status": "skipped", "reason": "not a picture", "mean_rgb": None},
            ],
            "ranges": [{"tensor": "x", "low": 0.0, "high": 1.0}, {"tensor": "h", "low": -7.5, "high": 100.0}],
        },
        "nodes": [node("first"), node("second", "Relu", "fp32", 0, reason="no integer kernel")],
        "metrics": [metric("select", 40.0), metric()],
        "budget": {"text": "psnr>=30", "met": True, "items": []},
        "integer_mac_share": 0.875,
        "kernels": {"QLinearConv": 1},
        "sensitivity": [],
        "sensitivity_method": None,
        "histograms": [],
        "pareto": [],
        "recovery": [],
        "given_scales": {"activations": 0, "constants": 0},
        "warnings": [{"id": "default-color", "text": "color was not given: rgb assumed"}],
        **more,
    }


def large_report(layers: int = 300, *, histograms_of: int | None = None) -> dict[str, Any]:
    """A deep net that missed its budget, with sensitivity, ranges and histograms for every layer, or for the first."""
    dice = random.Random(7)
    nodes, sensitivity, ranges, histograms = [], [], [], []
    for i in range(layers):
        op = OPS[i % len(OPS)]
        name = f"/backbone/stage_{i // 40}/block_{i // 8}/branch/{op.lower()}_{i}/{op}"
        macs = dice.randrange(10**6, 10**9) if op in ("Conv", "MatMul") else 0
        unit = f"/backbone/{i}"
        kept = op == "Conv" and i % 9 == 0
        precision = "fp32" if kept or op in ("Add", "Resize") else "int8"
        value = round(24 + 40 * (i / layers) ** 0.5, 4)
        reason = f"in float for the budget: alone in INT8 it leaves psnr {value}" if kept else REASONS[op]
        nodes.append(node(name, op, precision, macs, reason=reason))
        bins = np.random.default_rng(i).normal(0, 12, 4000)
        counts, _ = np.histogram(bins, bins=64, range=(-50, 50))
        ranges.append({"tensor": f"{name}_output_0", "low": -float(i % 11), "high": float(3 ** (i % 7))})
        histograms.append(
            {"tensor": f"{name}_output_0", "unit": unit, "low": -50.0, "high": 50.0, "counts": counts.tolist(),
             "clip": [-40.0, 41.5], "clipped": 0.0012, "grid": "tensor", "tag": "measured"}
        )  # fmt: skip
        decision = "float" if kept else "int8: in float, less than 50% of the MACs would be INT8"
        sensitivity.append(
            {"unit": unit, "op_type": op, "output": "y", "metric": "psnr", "value": value,
             "budget": "psnr>=30", "mac_share": round(1 / layers, 6), "decision": decision}
        )  # fmt: skip
    files = [
        {"path": f"faces/{i:03d}.jpg", "split": ("calibrate", "calibrate", "select", "verify")[i % 4], "status": "used",
         "reason": "", "mean_rgb": [dice.uniform(0, 255) for _ in range(3)]}
        for i in range(64)
    ]  # fmt: skip
    failure = "output 'y': psnr>=30 missed on the verify split: 28.20 (n = 16)"
    return report(
        nodes=nodes,
        sensitivity=sensitivity,
        histograms=histograms[: layers if histograms_of is None else histograms_of],
        calibration={"files": files, "ranges": ranges},
        metrics=[metric("select", 30.4), metric("verify", 28.2)],
        budget={"text": "psnr>=30", "met": False, "items": [{"failure": failure}]},
        integer_mac_share=0.731,
    )


def profile(frames: int = 600, *, stable: bool = True, samples: bool = True) -> dict[str, Any]:
    """A document as `fts-profile --json` writes it."""
    draw = np.random.default_rng(3)
    runs = []
    for _ in range(5):
        n = frames // 5
        engine = draw.gamma(9, 0.35, n) + 8 + (draw.random(n) < 0.03) * 14
        runs.append(
            {
                "wait_ms": [0.0] * n,
                "pre_ms": draw.normal(0.9, 0.05, n).tolist(),
                "engine_ms": engine.tolist(),
                "post_ms": draw.normal(0.4, 0.03, n).tolist(),
                "due_ms": [float(i * 12) for i in range(n)],
                "dropped": 0,
            }
        )
    return {
        "schema_version": 1,
        "bundle": {"name": "net.cpu-int8.fts", "target": "cpu-int8", "engine": "onnxruntime-cpu",
                   "evidence": {"tag": "measured", "by": "onnxruntime", "detail": "the engine itself"}, "members": {}},
        "scenario": {"name": "closed", "seconds": 20.0, "runs": 5, "threads": 2, "frames": "4 frames, synthetic", "inputs": []},
        "machine": {"cpu_model": "A CPU", "cpus": 4, "usable_cpus": 2, "system": "Linux", "onnxruntime": "1.32.0",
                    "affinity": [0, 1], "architecture": "x86_64", "cpu_flags": [], "device_model": "", "governors": [],
                    "frequency_locked": None, "nvpmodel": "", "python": "3.12.3", "tegrastats": ""},
        "surroundings": {"frequency_max_mhz": 2400.0, "frequency_min_mhz": 2400.0, "others_share": 0.01,
                         "steal_share": 0.0, "throttled_periods": 0, "wall_s": 30.0},
        "stability": {"stable": stable, "reasons": [] if stable else ["other processes took 31 % of the CPUs"]},
        "load": {"open_ms": 12.4, "engine_ms": 81.0},
        "cold": {"first_ms": 40.2, "second_ms": 15.0, "tenth_ms": 12.9, "steady_after_frames": 60,
                 "steady_after_s": 0.8, "window_frames": 50, "converged": True, "converged_runs": 5},
        "latency": {
            "frames": frames, "dropped": 0, "mean_ms": 12.8, "min_ms": 9.7, "max_ms": 29.0,
            "percentiles": [
                {"percent": 50, "n": frames, "state": "ok", "value_ms": 12.31, "low_ms": 12.2, "high_ms": 12.45},
                {"percent": 90, "n": frames, "state": "ok", "value_ms": 14.1, "low_ms": 13.9, "high_ms": 14.5},
                {"percent": 99, "n": frames, "state": "n too small", "value_ms": None, "low_ms": 26.0, "high_ms": None},
            ],
            "run_medians_ms": [12.2, 12.3, 12.3, 12.4, 12.4], "run_variation": 0.01, "autocorrelation": 0.05,
        },
        "stages": [{"name": n, "p50_ms": v, "p90_ms": v}
                   for n, v in (("wait", 0.0), ("pre", 0.9), ("engine", 11.0), ("post", 0.4))],
        "memory": {"rss_bytes": 10**8, "peak_rss_bytes": 2 * 10**8},
        "gc": {"total_ms": 0.0, "longest_ms": 0.0},
        "ratio": {"against": "portable FP32 net of the same bundle", "measure": "wall time",
                  "ratio": 0.62, "low": 0.6, "high": 0.64,
                  "run_spread": 0.01, "pair_ratios": [0.62], "differs": True, "reason": "the interval excludes 1"},
        "layers": {
            "profiled_ms": 12.1, "unprofiled_ms": 11.0, "inflation": 1.1, "attributed_share": 0.94,
            "rows": [
                {"name": "first", "op_type": "Conv", "planned": "int8", "ran": "int8", "kernels": ["QLinearConv"],
                 "share": 0.9, "ms": 9.9, "conversion_ms": 0.0, "unsteady": False},
                {"name": "unattributed", "op_type": "", "planned": "", "ran": "", "kernels": [],
                 "share": 0.06, "ms": 0.66, "conversion_ms": 0.0, "unsteady": True},
            ],
        },
        "warnings": ["the CPU governor could not be read"],
        "samples": runs if samples else None,
    }  # fmt: skip


def png(side_px: int, seed: int) -> bytes:
    """A picture that compresses badly, as photos do."""
    draw = np.random.default_rng(seed)
    small = draw.integers(0, 256, (max(side_px // 4, 1), max(side_px // 4, 1), 3), np.uint8)
    picture = cv2.resize(small, (side_px, side_px), interpolation=cv2.INTER_CUBIC)
    noisy = np.clip(picture.astype(np.int16) + draw.integers(-6, 7, picture.shape), 0, 255).astype(np.uint8)
    return bytes(cv2.imencode(".png", noisy)[1].tobytes())

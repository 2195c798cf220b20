"""What the profiler adds to a frame: `python benchmarks/profiler_overhead.py`.

The same model runs the same frame as the profiler runs it (an engine that notes its moments, a record of every frame) and
bare, in turn, in one process. Each turn is timed from outside, as a whole: time of a turn over its frames. Aim: the
median of the turns' ratios exceeds 1 by 1 % at most, from 1 ms a frame on. Needs onnx (extra `convert`). Run it on an idle
machine.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from runtime_overhead import NETS, Net, bundle_of

import fts
from fts.engines.threads import available_cpus
from fts.profile.clock import SystemClock
from fts.profile.measured_net import INPUT_KEY, MeasuredNet, NetSpec
from fts.profile.scenarios import run_closed

TURN_MS = 10.0


def turns_of(net: Net, threads: int, folder: Path) -> dict[str, Callable[[int], object]]:
    """Two ways to run a number of frames: as the profiler does, and bare."""
    feeds = {"x": np.random.default_rng(1).random(net.spec.static_shape, dtype=np.float32)}
    bundle, file, clock = bundle_of(net, net.model(), folder), folder / "feeds.npz", SystemClock()
    np.savez(file, **{f"{INPUT_KEY}{k}": v for k, v in feeds.items()})
    spec = NetSpec(bundle=str(bundle), which="target", strict=True, simulate=False, threads=threads, feeds=str(file))
    profiled = MeasuredNet(spec, clock)
    model = fts.load(bundle, strict=True, threads=threads)

    def bare(frames: int) -> None:
        for _ in range(frames):
            model.infer(feeds)

    def measured(frames: int) -> None:
        run_closed(profiled.run_frame, clock, seconds=0, least_frames=frames)

    return {"bare": bare, "measured": measured}


def milliseconds(turn: Callable[[int], object], frames: int) -> tuple[float, float]:
    """Wall time and CPU time of one frame, seen from outside."""
    begin, begin_cpu = time.perf_counter(), time.process_time()
    turn(frames)
    cpu = time.process_time() - begin_cpu
    return (time.perf_counter() - begin) * 1e3 / frames, cpu * 1e3 / frames


def overhead(measured: list[float], bare: list[float]) -> tuple[float, float]:
    """Median of the log ratios of turns, and its 95 % error, in percent."""
    logs = [math.log(m / b) for m, b in zip(measured, bare, strict=True)]
    middle = statistics.median(logs)
    deviation = 1.4826 * statistics.median(abs(v - middle) for v in logs)
    return 100 * middle, 100 * 2.5 * deviation / len(logs) ** 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0, help="time spent on each net")
    parser.add_argument("--threads", type=int, default=available_cpus(), help="intra-op threads of both")
    args = parser.parse_args()
    print(f"onnxruntime {onnxruntime.__version__}, {args.threads} threads")
    print(f"{'net':<26}{'bare p50 ms':>13}{'wall %':>9}{'+-':>7}{'CPU %':>9}{'+-':>7}{'CPU us':>9}{'turns':>7}")
    for net in NETS:
        with tempfile.TemporaryDirectory() as name:
            turns = turns_of(net, args.threads, Path(name))
        for turn in turns.values():
            turn(20)
        frames = max(1, round(TURN_MS / milliseconds(turns["bare"], 5)[1]))
        times: dict[str, list[tuple[float, float]]] = {"bare": [], "measured": []}
        stop = time.perf_counter() + args.seconds
        while time.perf_counter() < stop or len(times["bare"]) < 10:
            names = ["bare", "measured"] if len(times["bare"]) % 2 else ["measured", "bare"]
            for what in names:
                times[what].append(milliseconds(turns[what], frames))
        wall, cpu = (overhead([t[i] for t in times["measured"]], [t[i] for t in times["bare"]]) for i in (0, 1))
        bare_ms, bare_cpu_ms = (statistics.median(t[i] for t in times["bare"]) for i in (0, 1))
        print(
            f"{net.name:<26}{bare_ms:>13.3f}{wall[0]:>9.2f}{wall[1]:>7.2f}{cpu[0]:>9.2f}{cpu[1]:>7.2f}"
            f"{10 * cpu[0] * bare_cpu_ms:>9.1f}{len(times['bare']):>7}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

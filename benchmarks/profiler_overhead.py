"""What the profiler adds to a frame: `python benchmarks/profiler_overhead.py`.

The same model runs the same frame as the profiler runs it (an engine that notes its moments, a record of every frame) and
bare, in turn, in one process. Each turn is timed from outside, as a whole: time of a turn over its frames. Aim: the
medians of the turns differ by 1 % at most. Needs onnx (extra `convert`). Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
from runtime_overhead import NETS, bundle_of

import fts
from fts.engines.threads import available_cpus
from fts.profile.clock import SystemClock
from fts.profile.measured_net import INPUT_KEY, MeasuredNet, NetSpec
from fts.profile.scenarios import run_closed

FRAMES_OF_TURN = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0, help="time spent on each net")
    parser.add_argument("--threads", type=int, default=available_cpus(), help="intra-op threads of both")
    args = parser.parse_args()
    print(f"onnxruntime {onnxruntime.__version__}, {args.threads} threads, turns of {FRAMES_OF_TURN} frames")
    print(f"{'net':<26}{'profiled ms':>13}{'bare ms':>10}{'overhead %':>12}{'+- %':>8}{'turns':>7}")
    clock = SystemClock()
    for net in NETS[1:]:
        feeds = {"x": np.random.default_rng(1).random(net.spec.static_shape, dtype=np.float32)}
        with tempfile.TemporaryDirectory() as name:
            bundle, file = bundle_of(net, net.model(), Path(name)), Path(name) / "feeds.npz"
            np.savez(file, **{f"{INPUT_KEY}{k}": v for k, v in feeds.items()})
            spec = NetSpec(
                bundle=str(bundle), which="target", strict=True, simulate=False, threads=args.threads, feeds=str(file)
            )
            profiled = MeasuredNet(spec, clock)
            model = fts.load(bundle, strict=True, threads=args.threads)

        def bare() -> None:
            for _ in range(FRAMES_OF_TURN):
                model.infer(feeds)

        def measured() -> None:
            run_closed(profiled.run_frame, clock, seconds=0, least_frames=FRAMES_OF_TURN)

        times: dict[str, list[float]] = {"bare": [], "measured": []}
        stop = time.perf_counter() + args.seconds
        while time.perf_counter() < stop or len(times["bare"]) < 10:
            turns = (("bare", bare), ("measured", measured))
            for what, turn in turns if len(times["bare"]) % 2 else turns[::-1]:
                begin = time.perf_counter()
                turn()
                times[what].append((time.perf_counter() - begin) * 1e3 / FRAMES_OF_TURN)
        logs = [math.log(m / b) for m, b in zip(times["measured"], times["bare"], strict=True)][1:]
        deviation = 1.4826 * statistics.median(abs(v - statistics.median(logs)) for v in logs)
        print(
            f"{net.name:<26}{statistics.median(times['measured']):>13.3f}{statistics.median(times['bare']):>10.3f}"
            f"{100 * statistics.median(logs):>12.2f}{100 * 2.5 * deviation / len(logs) ** 0.5:>8.2f}{len(logs):>7}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

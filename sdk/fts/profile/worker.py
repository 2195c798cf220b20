"""The child process that measures one net: reads orders, one JSON object a line, and answers in kind.

A fresh process is the unit of measurement, because a process is a little faster or slower for all its life. Orders:
load (a NetSpec), warm, scenario, slice, layers, memory. Errors of fts come back as a message, and end the process.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TextIO

from fts.errors import FtsError
from fts.profile.arrivals import CameraThread, Schedule
from fts.profile.clock import SystemClock
from fts.profile.measured_net import MeasuredNet, NetSpec
from fts.profile.memory import resident_memory
from fts.profile.scenarios import Scenario, Timeline, run_closed, run_open
from fts.profile.warmup import warm_up

# A thread needs a moment to start before frame 0 is due.
_CAMERA_START_NS = 20_000_000
# The first frame of a turn finds the caches full of the other net's data.
_COLD_OF_SLICE = 1

_LAYER_SECONDS = 3.0
_LAYER_FRAMES = (9, 40)


class GcPauses:
    """Time that the collector of Python's cyclic garbage takes from the frames."""

    def __init__(self) -> None:
        self.total_ns = 0
        self.longest_ns = 0
        self._begin_ns = 0

    def __enter__(self) -> GcPauses:
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._note)
        return self

    def __exit__(self, *error: object) -> None:
        gc.callbacks.remove(self._note)
        gc.unfreeze()

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begin_ns = time.perf_counter_ns()
        else:
            pause_ns = time.perf_counter_ns() - self._begin_ns
            self.total_ns += pause_ns
            self.longest_ns = max(self.longest_ns, pause_ns)


class Worker:
    """Carries out orders on one net."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._net: MeasuredNet | None = None

    def carry_out(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do what an order says; returns the answer."""
        orders: dict[str, Callable[..., dict[str, Any]]] = {
            "load": self._load,
            "warm": self._warm,
            "scenario": self._scenario,
            "slice": self._slice,
            "layers": self._layers,
            "memory": self._memory,
        }
        arguments = dict(order)
        return orders[arguments.pop("do")](**arguments)

    @property
    def _loaded(self) -> MeasuredNet:
        if self._net is None:
            raise ValueError("worker: found an order before load")
        return self._net

    def _load(self, **spec: Any) -> dict[str, Any]:
        self._net = MeasuredNet(NetSpec(**spec), self._clock)
        return {"open_ms": self._net.open_ms, "engine_ms": self._net.engine_ms}

    def _warm(self, cap_s: float) -> dict[str, Any]:
        return asdict(warm_up(self._loaded.run_frame, self._clock, cap_s=cap_s))

    def _scenario(self, kind: str, fps: float, lossless: bool, seconds: float, least_frames: int) -> dict[str, Any]:
        run_frame = self._loaded.run_frame
        with GcPauses() as pauses:
            if kind == "closed":
                timeline = run_closed(run_frame, self._clock, seconds=seconds, least_frames=least_frames)
            else:
                timeline = self._open(Scenario(kind="open", fps=fps, lossless=lossless), seconds)
        return {
            **{
                key: getattr(timeline, key).tolist()
                for key in ("due_ns", "begin_ns", "engine_begin_ns", "engine_end_ns", "end_ns")
            },
            "dropped": timeline.dropped,
            "gc_total_ms": pauses.total_ns / 1e6,
            "gc_longest_ms": pauses.longest_ns / 1e6,
        }

    def _open(self, scenario: Scenario, seconds: float) -> Timeline:
        schedule = Schedule(
            begin_ns=self._clock.now_ns() + _CAMERA_START_NS,
            fps=scenario.fps,
            frames=max(1, round(seconds * scenario.fps)),
        )
        with CameraThread(schedule, self._clock, lossless=scenario.lossless) as camera:
            return run_open(self._loaded.run_frame, self._clock, camera)

    def _slice(self, frames: int) -> dict[str, Any]:
        wall_ns, cpu_ns = [], []
        for index in range(frames):
            begin_ns, begin_cpu_ns = self._clock.now_ns(), time.process_time_ns()
            self._loaded.run_frame(index)
            cpu_ns.append(time.process_time_ns() - begin_cpu_ns)
            wall_ns.append(self._clock.now_ns() - begin_ns)
        counted = slice(_COLD_OF_SLICE if frames > _COLD_OF_SLICE else 0, None)
        return {"wall_ms": min(wall_ns[counted]) / 1e6, "cpu_ms": min(cpu_ns[counted]) / 1e6}

    def _layers(self) -> dict[str, Any]:
        net = self._loaded
        begin_ns = self._clock.now_ns()
        net.run_frame(0)
        one_s = (self._clock.now_ns() - begin_ns) / 1e9
        least, most = _LAYER_FRAMES
        return asdict(net.kernel_times(max(least, min(most, round(_LAYER_SECONDS / one_s)))))

    def _memory(self) -> dict[str, Any]:
        return asdict(resident_memory())


def serve(orders: TextIO, answers: TextIO, carry_out: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> int:
    """Answer orders until there are no more, a `Worker`'s unless others are given; returns the exit code."""
    carry_out = carry_out or Worker().carry_out
    for line in orders:
        try:
            answer: dict[str, Any] = {"ok": carry_out(json.loads(line))}
        except FtsError as error:
            answer = {"error": str(error), "exit_code": error.exit_code}
        except Exception as error:  # noqa: BLE001 - the process's outermost line: the parent re-raises it
            traceback.print_exc()
            answer = {"defect": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if "ok" not in answer:
            return 1
    return 0


def serve_process(carry_out: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Serve on stdin and stdout; whatever else writes to stdout is sent to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.exit(serve(sys.stdin, answers, carry_out))


def main() -> None:
    """Measure as told on stdin."""
    serve_process(Worker().carry_out)


if __name__ == "__main__":
    main()

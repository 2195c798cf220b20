"""The whole measurement: fresh processes for latency, pairs of them for the ratio, others for the layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fts.profile.ab_ratio import USUAL_PAIRS, AbRatio
from fts.profile.clock import Clock
from fts.profile.compare_nets import compare_nets
from fts.profile.layers import Kernel, KernelTimes, LayerTable, layer_table
from fts.profile.machine import Machine, this_machine
from fts.profile.measured_net import NetSpec
from fts.profile.memory import Memory
from fts.profile.order_statistics import Samples
from fts.profile.scenarios import Scenario, Timeline
from fts.profile.surroundings import Surroundings, Watch
from fts.profile.warmup import CAP_S, WarmUp
from fts.profile.worker_process import Asks, loaded_worker
from fts.vocabulary.plan import NodePlan

Load = Callable[[NetSpec], AbstractContextManager[tuple[Asks, dict[str, Any]]]]
Say = Callable[[int, int], None]

_PROFILED_RUNS = 2
# Later processes need the same warm-up as the first, which showed whether it settles; they get less time to insist.
_LEAST_LATER_CAP_S = 1.0
# Nets that take turns are compared round by round, so that what is left of the warm-up meets both.
_RATIO_CAP_S = 0.5
_LEAST_FRAMES_A_RUN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to measure.

    Attributes:
        scenario: The load.
        seconds: Measuring time of all runs together.
        runs: Fresh processes.
        ratio_against: The portable FP32 net, or None for no ratio.
        no_ratio_reason: Why not.
        layers: Whether to tell the time by layer.
        nodes: The plan's nodes, for the layers.
    """

    scenario: Scenario
    seconds: float
    runs: int
    ratio_against: NetSpec | None
    no_ratio_reason: str
    layers: bool
    nodes: tuple[NodePlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One fresh process.

    Attributes:
        open_ms: Checking the bundle and choosing the engine.
        engine_ms: Making the engine's session.
        warm_up: Cold runs and the way to the steady state.
        timeline: Every frame.
        gc_total_ms: Time that Python's garbage collector took.
        gc_longest_ms: Longest pause of it.
        memory: Resident memory after the last frame.
    """

    open_ms: float
    engine_ms: float
    warm_up: WarmUp
    timeline: Timeline
    gc_total_ms: float
    gc_longest_ms: float
    memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurement:
    """Everything that was measured; judged and shown elsewhere."""

    machine: Machine
    seen: Surroundings
    runs: tuple[Run, ...]
    layers: LayerTable | None
    ratio: AbRatio | None
    no_ratio_reason: str

    @property
    def ages_ms(self) -> Samples:
        """Of every frame of every run; infinite for dropped ones."""
        return np.concatenate([r.timeline.ages_ms for r in self.runs])

    @property
    def run_medians_ms(self) -> tuple[float, ...]:
        """Median age of each run's finished frames."""
        return tuple(float(np.median(r.timeline.end_ns - r.timeline.due_ns)) / 1e6 for r in self.runs)

    def stage_ms(self, begin: str, end: str) -> Samples:
        """Time between two moments of `Timeline`, of every finished frame."""
        spans = [getattr(r.timeline, end) - getattr(r.timeline, begin) for r in self.runs]
        return np.asarray(np.concatenate(spans) / 1e6, np.float64)


def measure(net: NetSpec, request: Request, clock: Clock, say: Say, load: Load = loaded_worker) -> Measurement:
    """Carry out a request.

    Args:
        net: The net.
        request: What to measure.
        clock: Time.
        say: Told how many steps of how many are done.
        load: How to start a process.
    """
    steps = request.runs + (_PROFILED_RUNS if request.layers else 0) + (request.ratio_against is not None)
    later_cap_s = min(CAP_S, max(_LEAST_LATER_CAP_S, request.seconds / request.runs))
    layers = ratio = None
    with Watch() as watch:
        runs = []
        for number in range(request.runs):
            runs.append(_run(net, request, CAP_S if number == 0 else later_cap_s, load))
            say(len(runs), steps)
        if request.ratio_against is not None:
            ratio = compare_nets(
                net,
                request.ratio_against,
                clock,
                pairs=max(USUAL_PAIRS, request.runs),
                seconds=request.seconds,
                warm_cap_s=_RATIO_CAP_S,
                load=load,
            )
            say(len(runs) + 1, steps)
        profiled = [_profiled(net, later_cap_s, load) for _ in range(_PROFILED_RUNS if request.layers else 0)]
    if watch.seen is None:
        raise ValueError("the watch has not looked")
    measurement = Measurement(
        machine=this_machine(),
        seen=watch.seen,
        runs=tuple(runs),
        layers=None,
        ratio=ratio,
        no_ratio_reason=request.no_ratio_reason,
    )
    if profiled:
        engine_ms = float(np.median(measurement.stage_ms("engine_begin_ns", "engine_end_ns")))
        layers = layer_table(profiled, request.nodes, engine_ms)
    say(steps, steps)
    return replace(measurement, layers=layers)


def _run(net: NetSpec, request: Request, cap_s: float, load: Load) -> Run:
    scenario = request.scenario
    with load(net) as (worker, loading):
        warm_up = WarmUp(**worker.ask("warm", cap_s=cap_s))
        answer = worker.ask(
            "scenario",
            kind=scenario.kind,
            fps=scenario.fps,
            lossless=scenario.lossless,
            seconds=request.seconds / request.runs,
            least_frames=_LEAST_FRAMES_A_RUN,
        )
        memory = Memory(**worker.ask("memory"))
    moments = ("due_ns", "begin_ns", "engine_begin_ns", "engine_end_ns", "end_ns")
    return Run(
        open_ms=loading["open_ms"],
        engine_ms=loading["engine_ms"],
        warm_up=warm_up,
        timeline=Timeline(
            **{key: np.array(answer[key], np.int64) for key in moments},
            dropped=answer["dropped"],
        ),
        gc_total_ms=answer["gc_total_ms"],
        gc_longest_ms=answer["gc_longest_ms"],
        memory=memory,
    )


def _profiled(net: NetSpec, cap_s: float, load: Load) -> KernelTimes:
    with load(net) as (worker, _):
        worker.ask("warm", cap_s=cap_s)
        answer = worker.ask("layers")
    return KernelTimes(total_ms=answer["total_ms"], frames=answer["frames"], kernels=_kernels(answer["kernels"]))


def _kernels(answers: Sequence[dict[str, Any]]) -> tuple[Kernel, ...]:
    return tuple(Kernel(**a) for a in answers)

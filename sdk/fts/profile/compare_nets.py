"""Two nets measured against each other: pairs of fresh processes that take turns in short slices."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from fts.profile.ab_ratio import AbRatio, PairTimes, ab_ratio
from fts.profile.clock import Clock
from fts.profile.measured_net import NetSpec
from fts.profile.worker_process import Asks, loaded_worker

Load = Callable[[NetSpec], AbstractContextManager[tuple[Asks, dict[str, Any]]]]

# Long enough for a median of short frames, short enough for the machine's speed to stay.
_SLICE_S = 0.05
_MOST_FRAMES_OF_SLICE = 200
_LEAST_ROUNDS = 5


def compare_nets(
    a: NetSpec,
    b: NetSpec,
    clock: Clock,
    *,
    pairs: int,
    seconds: float,
    warm_cap_s: float,
    seed: int = 0,
    load: Load = loaded_worker,
) -> AbRatio:
    """A's time over B's.

    Args:
        a: One net.
        b: The other.
        clock: Time.
        pairs: Pairs of fresh processes, at least 5.
        seconds: Measuring time of all pairs together, without loading and warming up.
        warm_cap_s: Most time for each process to warm up.
        seed: Of the random order.
        load: How to start a process.
    """
    order = random.Random(seed)
    measured = []
    for _ in range(pairs):
        measured.append(_measure_pair(a, b, clock, seconds / pairs, warm_cap_s, order, load))
    return ab_ratio(measured, seed=seed)


def _measure_pair(
    a: NetSpec, b: NetSpec, clock: Clock, seconds: float, warm_cap_s: float, order: random.Random, load: Load
) -> PairTimes:
    specs = {"a": a, "b": b}
    names = _shuffled(order)
    with contextlib.ExitStack() as stack:
        workers: dict[str, Asks] = {}
        for name in names:
            workers[name], _ = stack.enter_context(load(specs[name]))
        frames = {}
        for name in names:
            workers[name].ask("warm", cap_s=warm_cap_s)
            frames[name] = _frames_of_slice(workers[name].ask("slice", frames=3)["median_ms"])
        medians: dict[str, list[float]] = {"a": [], "b": []}
        stop_ns = clock.now_ns() + round(seconds * 1e9)
        while len(medians["a"]) < _LEAST_ROUNDS or clock.now_ns() < stop_ns:
            for name in _shuffled(order):
                medians[name].append(workers[name].ask("slice", frames=frames[name])["median_ms"])
    return PairTimes(a=np.array(medians["a"]), b=np.array(medians["b"]))


def _shuffled(order: random.Random) -> list[str]:
    return order.sample(["a", "b"], 2)


def _frames_of_slice(frame_ms: float) -> int:
    """Of a frame that fills a slice alone, one: cold caches are little of it. Of others the first is not counted."""
    return max(1, min(_MOST_FRAMES_OF_SLICE, round(_SLICE_S * 1e3 / max(frame_ms, 1e-6))))

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

# A slice is 5 frames, the first of which is not counted: short enough for the machine's speed to stay, and of 4 frames
# one is as good as undisturbed. Frames that fill a slice's time alone are slices of one.
_SLICE_FRAMES = 5
_LONG_FRAME_MS = 50.0
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
        frames = {}
        for name in names:
            workers[name].ask("warm", cap_s=warm_cap_s)
            slow = workers[name].ask("slice", frames=2)["least_ms"] > _LONG_FRAME_MS
            frames[name] = 1 if slow else _SLICE_FRAMES
        times: dict[str, list[float]] = {"a": [], "b": []}
        stop_ns = clock.now_ns() + round(seconds * 1e9)
        while len(times["a"]) < _LEAST_ROUNDS or clock.now_ns() < stop_ns:
            for name in _shuffled(order):
                times[name].append(workers[name].ask("slice", frames=frames[name])["least_ms"])
    return PairTimes(a=np.array(times["a"]), b=np.array(times["b"]))


def _shuffled(order: random.Random) -> list[str]:
    return order.sample(["a", "b"], 2)

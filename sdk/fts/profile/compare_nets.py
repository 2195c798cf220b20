"""Two nets measured against each other: pairs of fresh processes that take turns in short slices."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from fts.profile.ab_ratio import AbRatio, PairTimes, ab_ratio, standard_error
from fts.profile.clock import Clock
from fts.profile.measured_net import NetSpec
from fts.profile.worker_process import Asks, loaded_worker

Load = Callable[[NetSpec], AbstractContextManager[tuple[Asks, dict[str, Any]]]]

# A slice is 3 frames, the first of which is not counted. On a busy machine one counted frame or three give a round's ratio
# the same spread, so short slices and many rounds tell most. Long frames are slices of one: cold caches are little of them.
_SLICE_FRAMES = 3
_LONG_FRAME_MS = 50.0
_LEAST_ROUNDS = 5
_PRECISION = 0.01
_MOST_EXTENSION = 8.0


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
        seconds: Measuring time of all pairs together, without loading and warming up; up to 8 times that on a machine
            too busy for it.
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
        slice_frames: dict[str, int] = {}
        for name in names:
            workers[name].ask("warm", cap_s=warm_cap_s)
            slow = workers[name].ask("slice", frames=2)["least_ms"] > _LONG_FRAME_MS
            slice_frames[name] = 1 if slow else _SLICE_FRAMES
        times: dict[str, list[float]] = {"a": [], "b": []}
        begin_ns = clock.now_ns()
        while not _is_enough(times, (clock.now_ns() - begin_ns) / 1e9 / seconds):
            for name in _shuffled(order):
                times[name].append(workers[name].ask("slice", frames=slice_frames[name])["least_ms"])
    return _pair(times)


def _is_enough(times: dict[str, list[float]], used: float) -> bool:
    """Whether a pair has had its time (`used` >= 1), and more of it where the machine is so busy that it needs it.

    The precision of the ratio is asked for, never its value, so that going on does not favour any answer.
    """
    if len(times["a"]) < _LEAST_ROUNDS or used < 1:
        return False
    return used >= _MOST_EXTENSION or standard_error(_pair(times)) <= _PRECISION


def _pair(times: dict[str, list[float]]) -> PairTimes:
    return PairTimes(a=np.array(times["a"]), b=np.array(times["b"]))


def _shuffled(order: random.Random) -> list[str]:
    return order.sample(["a", "b"], 2)

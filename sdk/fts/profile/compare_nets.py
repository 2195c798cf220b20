"""Two nets measured against each other: pairs of fresh processes that take turns in short slices."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from fts.profile.ab_ratio import AbRatio, PairMeasured, PairTimes, ratio_of_pairs, standard_error
from fts.profile.clock import Clock
from fts.profile.measured_net import NetSpec
from fts.profile.worker_process import Asks, loaded_worker

Slices = dict[str, list[dict[str, Any]]]
Load = Callable[[NetSpec], AbstractContextManager[tuple[Asks, dict[str, Any]]]]

# A slice is 3 frames, the first of which is not counted. On a busy machine one counted frame or three give a round's ratio
# the same spread, so short slices and many rounds tell most. Long frames are slices of one: cold caches are little of them.
_SLICE_FRAMES = 3
_LONG_FRAME_MS = 50.0
_LEAST_ROUNDS = 5
_PRECISION = 0.01
_MOST_EXTENSION = 3.0


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
        seconds: Measuring time of all pairs together, without loading and warming up; up to 3 times that on a machine
            too busy for it.
        warm_cap_s: Most time for each process to warm up.
        seed: Of the random order.
        load: How to start a process.
    """
    order = random.Random(seed)
    measured = []
    for _ in range(pairs):
        measured.append(_measure_pair(a, b, clock, seconds / pairs, warm_cap_s, order, load))
    return ratio_of_pairs(measured, seed=seed)


def _measure_pair(
    a: NetSpec, b: NetSpec, clock: Clock, seconds: float, warm_cap_s: float, order: random.Random, load: Load
) -> PairMeasured:
    specs = {"a": a, "b": b}
    names = _shuffled(order)
    with contextlib.ExitStack() as stack:
        workers: dict[str, Asks] = {}
        for name in names:
            workers[name], _ = stack.enter_context(load(specs[name]))
        slice_frames: dict[str, int] = {}
        for name in names:
            workers[name].ask("warm", cap_s=warm_cap_s)
            slow = workers[name].ask("slice", frames=2)["wall_ms"] > _LONG_FRAME_MS
            slice_frames[name] = 1 if slow else _SLICE_FRAMES
        slices: Slices = {"a": [], "b": []}
        begin_ns = clock.now_ns()
        while not _is_enough(slices, (clock.now_ns() - begin_ns) / 1e9 / seconds):
            for name in _shuffled(order):
                slices[name].append(workers[name].ask("slice", frames=slice_frames[name]))
    return PairMeasured(wall=_pair(slices, "wall_ms"), cpu=_pair(slices, "cpu_ms"))


def _is_enough(slices: Slices, used: float) -> bool:
    """Whether a pair has had its time (`used` >= 1), and more of it where the machine is so busy that it needs it.

    The precision of the ratio is asked for, never its value, so that going on does not favour any answer.
    """
    if len(slices["a"]) < _LEAST_ROUNDS or used < 1:
        return False
    return used >= _MOST_EXTENSION or standard_error(_pair(slices, "wall_ms")) <= _PRECISION


def _pair(slices: Slices, key: str) -> PairTimes:
    a, b = (np.array([s[key] for s in slices[name]]) for name in ("a", "b"))
    return PairTimes(a=a, b=b)


def _shuffled(order: random.Random) -> list[str]:
    return order.sample(["a", "b"], 2)

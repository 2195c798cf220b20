"""Times of several nets in one process, taken in turns: what a busy machine does to one, it does to all."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Run = Callable[[], object]

WARM_UP_ROUNDS = 2
LEAST_ROUNDS, MOST_ROUNDS = 9, 200
RESAMPLES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Time of one over time of another: median over the rounds with its 95 % bootstrap interval."""

    median: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        """Median and interval."""
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self)


def interleaved_times_s(
    runs: Mapping[str, Run], *, seconds: float, seed: int = 0, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Run all in random order, round by round, for a time or LEAST_ROUNDS, whichever is longer.

    Args:
        runs: Name to what runs the net once.
        seconds: Time to measure, warm-up apart.
        seed: Of the order within a round.
        clock: Seconds.

    Returns:
        Name to one time a round; times at the same position are of the same round.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    order = random.Random(seed)
    for _ in range(WARM_UP_ROUNDS):
        for run in runs.values():
            run()
    begin = clock()
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and clock() - begin >= seconds:
            break
        for name in order.sample(sorted(runs), len(runs)):
            start = clock()
            runs[name]()
            times[name].append(clock() - start)
    return times


def ratio_of(over: Sequence[float], under: Sequence[float], *, seed: int = 0) -> Ratio:
    """over / under, round by round.

    Args:
        over: Times of one net.
        under: Times of the other in the same rounds.
        seed: Of the bootstrap.
    """
    logs = np.log(np.maximum(over, 1e-9)) - np.log(np.maximum(under, 1e-9))
    drawn = np.random.default_rng(seed).choice(logs, (RESAMPLES, logs.size))
    low, high = np.exp(np.quantile(np.median(drawn, axis=1), [0.025, 0.975]))
    return Ratio(median=float(np.exp(np.median(logs))), low=float(low), high=float(high), rounds=int(logs.size))

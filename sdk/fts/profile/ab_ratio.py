"""Is net A slower than net B? A ratio of medians over pairs of fresh processes, claimed only when it stands out.

A machine's speed drifts within seconds, and every process is a little faster or slower for its whole life (memory
layout). So both nets live in two fresh processes at a time and take turns in slices too short for drift to matter:

    round:  d = log(least of A's slice) - log(least of B's slice)    a neighbour only ever adds time
    pair:   m = median of d over the rounds                          one disturbed round moves it by nothing
    answer: exp(median of m over the pairs)                          the unit: m holds all that two processes are off by

On a two-core machine that others used by half (16 pairs, a 10 ms net against itself, 40 rounds of one counted frame each),
m had a standard deviation of 1.2 %, and the ratio of the medians of all frames one of 6.5 %. So the ratio is one of
typical undisturbed frames; what the tail does is for the percentiles to say.

Wall time is what people wait for, and what is compared where it can be. Where its spread from pair to pair exceeds 2.5
% or its interval is wider than 5 %, the machine is too busy for it, and CPU time of all threads is compared instead;
the answer says so. (With four runnable processes a CPU, 9 pairs: deviation of m 5.4 % in wall time, 1.9 % in CPU time;
both find the same 8.6 %.) The choice never looks at the ratio itself, so it favours no answer.

The interval is a bootstrap over pairs. A difference is claimed when the interval excludes 1, |log ratio| exceeds twice the
spread of m from pair to pair, and it exceeds 1 %. The spread is the median absolute deviation times 1.4826, so that one
pair that met a busy neighbour does not hide what the others agree on. Without a difference and with normal m, the first
two conditions hold together by chance with probability 1.9, 1.7 and 0.6 % for 5, 7 and 9 pairs (simulated; less for
heavier tails); the bootstrap of so few pairs is too narrow to carry the claim alone. Below 1 % the order of the turns and
the caches that one net leaves to the other are not told apart from the nets.

Source: Kalibera and Jones, Rigorous Benchmarking in Reasonable Time (2013): repetition at the level that varies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Measure = Literal["wall time", "CPU time"]
Values = npt.NDArray[np.float64]

MIN_PAIRS = 5
USUAL_PAIRS = 9
_NORMAL_MAD = 1.4826  # standard deviation of a normal over its median absolute deviation
SPREADS = 2.0
MAX_WALL_SPREAD = 0.025
MAX_WALL_INTERVAL = 1.05
RESOLUTION = math.log(1.01)
_RESAMPLES = 2_000
_TAIL_PERCENT = 2.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairTimes:
    """What two processes measured in turns.

    Attributes:
        a: Least of each slice of A, float64 (rounds,), any unit.
        b: The same for B, from the same rounds.
    """

    a: Values
    b: Values


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairMeasured:
    """A pair in both kinds of time."""

    wall: PairTimes
    cpu: PairTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class AbRatio:
    """A's time over B's.

    Attributes:
        measure: Which time.
        ratio: Median over pairs; above 1 when A is slower.
        low: Lower end of the 95 % bootstrap interval over pairs.
        high: Upper end.
        spread: Of the log ratio from pair to pair, as a standard deviation, by the median absolute deviation.
        pair_ratios: One a pair.
        differs: Whether a difference is claimed.
        reason: Why, or why not.
    """

    measure: Measure
    ratio: float
    low: float
    high: float
    spread: float
    pair_ratios: tuple[float, ...]
    differs: bool
    reason: str


def ratio_of_pairs(pairs: Sequence[PairMeasured], *, seed: int = 0) -> AbRatio:
    """Compare two nets by wall time, or by CPU time where the machine is too busy for that.

    Args:
        pairs: At least 5, one for each pair of fresh processes.
        seed: Of the bootstrap.
    """
    wall = ab_ratio([p.wall for p in pairs], seed=seed)
    if wall.spread <= MAX_WALL_SPREAD and wall.high <= wall.low * MAX_WALL_INTERVAL:
        return wall
    return ab_ratio([p.cpu for p in pairs], seed=seed, measure="CPU time")


def ab_ratio(pairs: Sequence[PairTimes], *, seed: int = 0, measure: Measure = "wall time") -> AbRatio:
    """Compare two nets.

    Args:
        pairs: At least 5, one for each pair of fresh processes, each with at least one round.
        seed: Of the bootstrap.
        measure: Which time it is.

    Raises:
        ValueError: There are too few pairs to claim anything.
    """
    if len(pairs) < MIN_PAIRS:
        raise ValueError(f"ab_ratio: found {len(pairs)} pairs of processes, expected at least {MIN_PAIRS}")
    logs = np.array([float(np.median(np.log(p.a) - np.log(p.b))) for p in pairs])
    middle = float(np.median(logs))
    resampled = np.random.default_rng(seed).choice(logs, size=(_RESAMPLES, logs.size))
    low, high = np.percentile(np.median(resampled, axis=1), [_TAIL_PERCENT, 100 - _TAIL_PERCENT])
    spread = _robust_deviation(logs)
    reason = _obstacle(middle, float(low), float(high), spread)
    return AbRatio(
        measure=measure,
        ratio=math.exp(middle),
        low=math.exp(low),
        high=math.exp(high),
        spread=spread,
        pair_ratios=tuple(float(r) for r in np.exp(logs)),
        differs=not reason,
        reason=reason or "the interval excludes 1 and the difference exceeds twice the spread from run to run",
    )


def standard_error(pair: PairTimes) -> float:
    """Of the log ratio that a pair's rounds give: sqrt(pi / 2) times the deviation of the rounds over sqrt(rounds)."""
    return math.sqrt(math.pi / 2 / pair.a.size) * _robust_deviation(np.log(pair.a) - np.log(pair.b))


def _robust_deviation(values: Values) -> float:
    return _NORMAL_MAD * float(np.median(np.abs(values - np.median(values))))


def _obstacle(middle: float, low: float, high: float, spread: float) -> str:
    """Why no difference may be claimed, or ""."""
    if low <= 0 <= high:
        return f"the 95 % interval {math.exp(low):.3f} to {math.exp(high):.3f} contains 1"
    if abs(middle) <= SPREADS * spread:
        return f"{math.exp(middle):.3f}x is within twice the spread of {100 * spread:.1f} % from run to run"
    if abs(middle) <= RESOLUTION:
        return f"{math.exp(middle):.3f}x is below the resolution of 1 %"
    return ""

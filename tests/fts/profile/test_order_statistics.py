"""Percentiles and their intervals: published ranks, and coverage on distributions whose quantiles are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from fts.profile.order_statistics import autocorrelation, interval_ranks, percentile

# Ranks of 95 % intervals; None where the largest sample is not far enough out.
PUBLISHED = {
    (100, 50): (40, 61),
    (100, 90): (84, 96),
    (100, 99): (97, None),
    (300, 50): (133, 168),
    (300, 90): (259, 281),
    (300, 99): (293, None),
    (500, 50): (228, 273),
    (500, 90): (436, 464),
    (500, 99): (490, 500),
    (1000, 50): (469, 532),
    (1000, 90): (881, 919),
    (1000, 99): (983, 997),
    (1800, 50): (858, 943),
    (1800, 90): (1595, 1646),
    (1800, 99): (1773, 1791),
    (5400, 50): (2628, 2773),
    (5400, 90): (4816, 4904),
    (5400, 99): (5331, 5361),
    (10000, 50): (4902, 5099),
    (10000, 90): (8941, 9059),
    (10000, 99): (9880, 9920),
}
TRIALS = 2000


@dataclass(frozen=True)
class Latencies:
    """A distribution of latencies in ms: how to draw, and its quantile function."""

    draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
    cdf: Callable[[float], float]

    def quantile(self, share: float) -> float:
        """By bisection of the distribution function."""
        low, high = -1e3, 1e6
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if self.cdf(middle) < share else (low, middle)
        return high


def normal_cdf(x: float, mean: float, sd: float) -> float:
    return 0.5 * math.erfc((mean - x) / (sd * math.sqrt(2)))


def draw_bimodal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    slow = rng.random(shape) < 0.3
    return np.where(slow, rng.normal(18, 1.5, shape), rng.normal(10, 0.4, shape))


LATENCIES = {
    "normal": Latencies(lambda rng, shape: rng.normal(10, 0.5, shape), lambda x: normal_cdf(x, 10, 0.5)),
    "bimodal": Latencies(draw_bimodal, lambda x: 0.7 * normal_cdf(x, 10, 0.4) + 0.3 * normal_cdf(x, 18, 1.5)),
    # Pareto with exponent 1.5: infinite variance
    "heavy tail": Latencies(
        lambda rng, shape: 5 * (1 - rng.random(shape)) ** (-1 / 1.5), lambda x: 1 - (5 / x) ** 1.5 if x > 5 else 0.0
    ),
}


@pytest.mark.parametrize(("n", "percent"), PUBLISHED)
def test_ranks_are_those_of_the_published_table(n, percent):
    ranks = interval_ranks(n, percent)
    assert (ranks.low, ranks.high) == PUBLISHED[n, percent]
    assert ranks.nearest == math.ceil(Fraction(percent, 100) * n)


@pytest.mark.parametrize(("percent", "least"), [(50, 6), (90, 36), (99, 368)])
def test_a_number_appears_with_the_first_n_that_has_an_upper_rank(percent, least):
    # two-sided: p^n <= 0.025
    assert math.ceil(math.log(0.025) / math.log(percent / 100)) == least
    samples = np.arange(1.0, least + 1)
    assert percentile(samples[:-1], percent).value is None
    assert percentile(samples, percent).value == math.ceil(percent * least / 100)
    assert percentile(samples, percent).high == least


@pytest.mark.parametrize("n", [300, 1000])
@pytest.mark.parametrize("name", LATENCIES)
@pytest.mark.parametrize("percent", [50, 90, 99])
def test_intervals_cover_the_true_quantile_as_often_as_they_promise(name, percent, n):
    ranks = interval_ranks(n, percent)
    if ranks.high is None:
        assert (percent, n) == (99, 300)
        n = 500
        ranks = interval_ranks(n, percent)
    drawn = np.sort(LATENCIES[name].draw(np.random.default_rng(11), (TRIALS, n)), axis=1)
    truth = LATENCIES[name].quantile(percent / 100)
    covered = np.mean((drawn[:, ranks.low - 1] <= truth) & (truth <= drawn[:, ranks.high - 1]))
    assert covered >= 0.94
    if percent in (50, 90):
        assert covered <= 0.98


def test_percentile_reads_the_ranks_from_unsorted_samples():
    samples = np.random.default_rng(3).permutation(np.arange(1.0, 301.0))
    found = percentile(samples, 90)
    assert (found.low, found.value, found.high, found.n) == (259.0, 270.0, 281.0, 300)


def test_lost_frames_push_a_percentile_to_infinity():
    samples = np.r_[np.ones(400), np.full(100, np.inf)]
    assert percentile(samples, 50).value == 1.0
    assert percentile(samples, 90).value == math.inf


def test_nothing_measured_is_no_number():
    assert percentile(np.array([]), 50).value is None


@pytest.mark.parametrize("percent", [0, 100, -1])
def test_an_impossible_percent_is_refused(percent):
    with pytest.raises(ValueError, match="between 0 and 100"):
        interval_ranks(10, percent)


def test_a_percent_is_read_in_decimal():
    # 0.999 * 1000 is 999.0000000000001 in no binary fraction that matters here, but ceil would notice
    assert interval_ranks(10000, 99.9).nearest == 9990


def test_autocorrelation_tells_drift_from_independent_noise():
    noise = np.random.default_rng(5).normal(size=4000)
    assert abs(autocorrelation(noise)) < 0.05
    assert autocorrelation(np.cumsum(noise)) > 0.95
    assert autocorrelation(np.ones(10)) == 0.0

"""Claims about two nets, on noise like that of a small shared machine."""

from __future__ import annotations

import numpy as np
import pytest

from fts.profile.ab_ratio import USUAL_PAIRS, PairMeasured, PairTimes, ab_ratio, ratio_of_pairs, standard_error

PAIRS = USUAL_PAIRS
ROUNDS = 20
SLICE = 2  # frames that count of a slice


def pair(rng: np.random.Generator, more_work: float) -> PairTimes:
    """Slices of two processes that take turns on a machine that drifts.

    Drift: an autoregressive speed (0.98 from slice to slice, 6 % wide) that both share; a third of the pairs meets a
    neighbour that takes the machine for a stretch (1.5 times slower). Each process is off by 1 % for its life. Frames
    have a heavy tail (1 + 5 % * Pareto).
    """
    slices = 2 * ROUNDS
    speed = np.zeros(slices)
    for i in range(1, slices):
        speed[i] = 0.98 * speed[i - 1] + 0.06 * np.sqrt(1 - 0.98**2) * rng.normal()
    if rng.random() < 1 / 3:
        begin = rng.integers(0, slices)
        speed[begin : begin + 11] += np.log(1.5)
    frames = 10 * np.exp(speed)[:, None] * (1 + 0.05 * rng.pareto(1.5, (slices, SLICE)))
    least = np.min(frames, axis=1).reshape(ROUNDS, 2)
    first = rng.integers(0, 2, ROUNDS)  # who begins each round
    rows = np.arange(ROUNDS)
    own = np.exp(0.01 * rng.normal(size=2))
    return PairTimes(a=least[rows, first] * own[0] * more_work, b=least[rows, 1 - first] * own[1])


def claims(seed: int, more_work: float, trials: int) -> int:
    rng = np.random.default_rng(seed)
    return sum(ab_ratio([pair(rng, more_work) for _ in range(PAIRS)]).differs for _ in range(trials))


def test_a_net_against_itself_is_claimed_to_differ_at_most_once_in_twenty():
    trials = 400
    assert claims(1, 1.0, trials) <= trials / 50  # 2 % of trials: two false ones in twenty are then rare (6 %)


def test_ten_percent_more_work_is_found_eighteen_times_in_twenty():
    trials = 400
    assert claims(2, 1.1, trials) >= trials * 18 / 20


def test_more_work_in_b_is_a_ratio_below_one():
    rng = np.random.default_rng(3)
    found = ab_ratio([pair(rng, 1 / 1.5) for _ in range(PAIRS)])
    assert found.differs
    assert found.low <= found.ratio <= found.high < 1
    assert found.ratio == pytest.approx(1 / 1.5, rel=0.05)
    assert found.measure == "wall time"


def test_one_disturbed_round_moves_nothing():
    a, b = np.full(9, 10.0), np.full(9, 8.0)
    disturbed = a.copy()
    disturbed[4] = 1e4
    assert ab_ratio([PairTimes(a=disturbed, b=b)] * 5).ratio == ab_ratio([PairTimes(a=a, b=b)] * 5).ratio


def test_an_interval_with_one_inside_is_no_difference():
    pairs = [PairTimes(a=np.array([v]), b=np.array([1.0])) for v in (0.9, 0.95, 1.05, 1.1, 1.2)]
    found = ab_ratio(pairs)
    assert not found.differs
    assert "contains 1" in found.reason


def test_a_difference_within_the_spread_of_the_runs_is_no_difference():
    pairs = [PairTimes(a=np.array([v]), b=np.array([1.0])) for v in (1.02, 1.06, 1.1, 1.2, 1.4)]
    assert "spread" in ab_ratio(pairs).reason


def test_a_difference_below_one_percent_is_not_claimed():
    pairs = [PairTimes(a=np.array([1.004 + i * 1e-5]), b=np.array([1.0])) for i in range(5)]
    assert "resolution" in ab_ratio(pairs).reason


def test_one_pair_with_a_busy_neighbour_does_not_hide_what_the_others_agree_on():
    pairs = [PairTimes(a=np.array([v]), b=np.array([1.0])) for v in (1.09, 1.1, 1.1, 1.11, 1.1, 1.09, 3.0)]
    assert ab_ratio(pairs).differs


def test_the_standard_error_of_a_pair_is_that_of_the_median_of_its_rounds():
    rng = np.random.default_rng(4)
    rounds = [PairTimes(a=np.exp(rng.normal(0, 0.1, 101)), b=np.ones(101)) for _ in range(400)]
    seen = np.std([np.median(np.log(p.a)) for p in rounds])
    assert np.mean([standard_error(p) for p in rounds]) == pytest.approx(seen, rel=0.1)


def flat(*ratios: float) -> list[PairTimes]:
    return [PairTimes(a=np.array([r]), b=np.array([1.0])) for r in ratios]


def test_wall_time_is_compared_where_its_spread_allows_it():
    pairs = [
        PairMeasured(wall=w, cpu=c) for w, c in zip(flat(1.1, 1.11, 1.1, 1.09, 1.1), flat(*[2.0] * 5), strict=True)
    ]
    found = ratio_of_pairs(pairs)
    assert (found.measure, found.ratio) == ("wall time", pytest.approx(1.1))


@pytest.mark.parametrize("walls", [(0.7, 1.4, 1.1, 0.9, 1.3), (1.1, 1.1, 1.1, 2.0, 3.0)], ids=["spread", "interval"])
def test_a_busy_machine_is_compared_by_cpu_time_and_says_so(walls):
    walls, cpus = flat(*walls), flat(1.1, 1.11, 1.1, 1.09, 1.1)
    found = ratio_of_pairs([PairMeasured(wall=w, cpu=c) for w, c in zip(walls, cpus, strict=True)])
    assert (found.measure, found.ratio, found.differs) == ("CPU time", pytest.approx(1.1), True)


def test_fewer_than_five_pairs_are_refused():
    with pytest.raises(ValueError, match="at least 5"):
        ab_ratio([PairTimes(a=np.ones(3), b=np.ones(3))] * 4)

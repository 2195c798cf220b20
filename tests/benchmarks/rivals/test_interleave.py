"""Nets are timed in turns, and ratios are of times of the same round."""

from __future__ import annotations

import pytest
from rivals.interleave import LEAST_ROUNDS, MOST_ROUNDS, WARM_UP_ROUNDS, interleaved_times_s, ratio_of


class Clock:
    """Moves only when a net runs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ran: list[str] = []

    def __call__(self) -> float:
        return self.now

    def net(self, name: str, seconds: float):
        def run() -> None:
            self.ran.append(name)
            self.now += seconds

        return run


def test_every_round_runs_every_net_once_in_an_order_of_its_own():
    clock = Clock()
    nets = {name: clock.net(name, 0.01) for name in "abcd"}
    times = interleaved_times_s(nets, seconds=0.0, clock=clock)
    rounds = [clock.ran[i : i + 4] for i in range(0, len(clock.ran), 4)]
    assert len(rounds) == WARM_UP_ROUNDS + LEAST_ROUNDS
    assert all(sorted(r) == list("abcd") for r in rounds)
    assert len({tuple(r) for r in rounds[WARM_UP_ROUNDS:]}) > 1
    assert all(len(t) == LEAST_ROUNDS for t in times.values())


@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, LEAST_ROUNDS), (4.0, 20), (1e9, MOST_ROUNDS)])
def test_it_runs_for_the_time_given_within_bounds(seconds, rounds):
    clock = Clock()
    nets = {name: clock.net(name, 0.1) for name in "ab"}
    assert len(interleaved_times_s(nets, seconds=seconds, clock=clock)["a"]) == pytest.approx(rounds, abs=1)


def test_a_machine_that_slows_down_for_all_does_not_move_the_ratio():
    slowing = [1.0, 1.1, 4.0, 9.0, 1.0, 2.0, 1.0, 1.0, 7.0]
    found = ratio_of([2 * t for t in slowing], slowing)
    assert (found.median, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))
    assert found.rounds == len(slowing)


def test_the_interval_holds_the_median_and_widens_with_noise():
    calm = ratio_of([1.0, 1.01, 0.99] * 5, [1.0] * 15)
    noisy = ratio_of([1.0, 1.5, 0.5] * 5, [1.0] * 15)
    assert calm.low <= calm.median <= calm.high
    assert noisy.high - noisy.low > calm.high - calm.low

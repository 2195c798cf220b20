"""Warm-up by convergence, on a clock that the test moves."""

from __future__ import annotations

import pytest

from fts.profile.warmup import warm_up


def test_a_net_that_settles_is_steady_after_three_windows_that_agree(clock, net):
    found = warm_up(net(lambda i: 40.0), clock)
    # a window is 250 ms / 40 ms = 6 frames
    assert (found.window_frames, found.frames, found.converged) == (6, 18, True)


def test_a_net_that_keeps_speeding_up_is_run_on(clock, net):
    found = warm_up(net(lambda i: 10.0 * (1 + 5 * 0.97**i)), clock)
    assert found.converged
    last = [10.0 * (1 + 5 * 0.97**i) for i in (found.frames - 3 * found.window_frames, found.frames)]
    assert last[0] <= last[1] * 1.05
    assert found.frames > 100


def test_it_lasts_at_least_200_ms(clock, net):
    # three windows of 50 frames of 1 ms end after 150 ms; the next window ends after 200
    found = warm_up(lambda i: clock.pass_ms(1), clock)
    assert (found.window_frames, found.frames, found.seconds, found.converged) == (50, 200, 0.2, True)


def test_a_net_that_never_settles_is_given_up_after_the_cap(clock, net):
    found = warm_up(net(lambda i: 10.0 + i), clock, cap_s=30)
    assert not found.converged
    assert 30 <= found.seconds < 31


def test_slow_nets_have_windows_of_three_frames(clock, net):
    found = warm_up(net(lambda i: 500.0), clock)
    assert (found.window_frames, found.frames, found.converged) == (3, 12, True)


def test_the_cold_runs_are_told(clock, net):
    cold_ms = {0: 90.0, 1: 30.0, 9: 12.0}
    found = warm_up(net(lambda i: cold_ms.get(i, 11.0)), clock)
    assert (found.first_ms, found.second_ms, found.tenth_ms) == (90.0, 30.0, 12.0)


def test_a_cap_before_the_second_run_leaves_it_untold(clock, net):
    found = warm_up(net(lambda i: 500.0), clock, cap_s=0.1)
    assert (found.frames, found.second_ms, found.tenth_ms) == (1, None, None)


@pytest.mark.parametrize(("apart", "converged"), [(1.019, True), (1.03, False)])
def test_windows_agree_within_two_percent(clock, net, apart, converged):
    # windows of 3 frames, every second window slower
    found = warm_up(net(lambda i: 500.0 * (apart if (i // 3) % 2 else 1.0)), clock, cap_s=20)
    assert found.converged is converged

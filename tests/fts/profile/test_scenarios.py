"""Closed and open loops on a clock that the test moves."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from fts.errors import UsageError
from fts.profile.arrivals import Arrival, CameraThread, FrameQueue, Schedule
from fts.profile.clock import SystemClock
from fts.profile.order_statistics import percentile
from fts.profile.scenarios import Scenario, overload_text, run_closed, run_open, scenario_from_text
from fts.profile.stages import EngineSpan

FRAMES = 900
STALL_MS = 400.0


def stalling_ms(index: int) -> float:
    """10 ms a frame, and one stall of 400 ms in each 300 frames."""
    return STALL_MS if index % 300 == 150 else 10.0


def test_a_stall_shows_in_the_p99_age_of_a_lossless_open_loop(clock, net, fake_camera):
    timeline = run_open(net(stalling_ms), clock, fake_camera(30, FRAMES, lossless=True))
    assert timeline.dropped == 0
    assert timeline.ages_ms.size == FRAMES
    assert percentile(timeline.ages_ms, 99).value >= 300


def test_the_same_stall_is_hidden_by_a_closed_loop(clock, net):
    timeline = run_closed(net(stalling_ms), clock, seconds=0, least_frames=FRAMES)
    assert timeline.ages_ms.max() == STALL_MS
    assert percentile(timeline.ages_ms, 99).value == 10.0


def test_ages_count_from_the_intended_time_of_capture(clock, net, fake_camera):
    timeline = run_open(net(lambda i: 100.0 if i == 0 else 10.0), clock, fake_camera(100, 4, lossless=True))
    # due at 0, 10, 20, 30 ms; done at 100, 110, 120, 130 ms
    np.testing.assert_allclose(timeline.ages_ms, [100, 100, 100, 100])
    np.testing.assert_allclose((timeline.begin_ns - timeline.due_ns) / 1e6, [0, 90, 90, 90])


def test_the_latest_frame_wins_and_the_others_are_counted_as_infinitely_old(clock, net, fake_camera):
    timeline = run_open(net(lambda i: 35.0), clock, fake_camera(100, 8, lossless=False))
    # due every 10 ms: frame 0 runs until 35, then 3 (due 30) until 70, then 7 (due 70)
    np.testing.assert_allclose((timeline.due_ns - timeline.due_ns[0]) / 1e6, [0, 30, 70])
    assert timeline.dropped == 5
    assert np.isinf(timeline.ages_ms).sum() == 5
    assert percentile(np.tile(timeline.ages_ms, 10), 90).value == math.inf


def test_due_times_do_not_drift(clock):
    schedule = Schedule(begin_ns=7, fps=30, frames=10**6)
    assert schedule.due_ns(3 * 10**6) == 7 + 10**5 * 10**9


def test_a_closed_loop_ends_with_its_time_but_not_before_its_frames(clock, net):
    assert run_closed(net(lambda i: 10.0), clock, seconds=0.1).end_ns.size == 10
    assert run_closed(net(lambda i: 1000.0), clock, seconds=0.1, least_frames=3).end_ns.size == 3


def test_the_moments_of_a_frame_are_in_order(clock, net):
    timeline = run_closed(net(lambda i: 10.0), clock, seconds=0.05)
    assert ((timeline.engine_begin_ns - timeline.begin_ns) == 1e6).all()
    assert ((timeline.engine_end_ns - timeline.engine_begin_ns) == 8e6).all()
    assert ((timeline.end_ns - timeline.engine_end_ns) == 1e6).all()


def test_a_lossless_queue_keeps_order_and_a_lossy_one_the_latest():
    arrivals = [Arrival(index=i, due_ns=i) for i in range(3)]
    lossless, latest = FrameQueue(lossless=True), FrameQueue(lossless=False)
    for arrival in arrivals:
        lossless.offer(arrival)
        latest.offer(arrival)
    assert [lossless.pop(), lossless.pop(), lossless.pop(), lossless.pop()] == [*arrivals, None]
    assert [latest.pop(), latest.pop()] == [arrivals[2], None]
    assert (lossless.dropped, latest.dropped) == (0, 2)


def test_a_real_camera_thread_delivers_every_frame_at_its_intended_time():
    """The only waiting test: a real stall of 400 ms in 300 frames leaves more than 1 % of them 300 ms old."""

    def run_frame(index: int) -> EngineSpan:
        begin_ns = time.perf_counter_ns()
        if index == 150:
            time.sleep(STALL_MS / 1e3)
        return EngineSpan(begin_ns, time.perf_counter_ns())

    clock = SystemClock()
    schedule = Schedule(begin_ns=clock.now_ns(), fps=200, frames=300)
    with CameraThread(schedule, clock, lossless=True) as camera:
        timeline = run_open(run_frame, clock, camera)
    assert timeline.due_ns.tolist() == [schedule.due_ns(i) for i in range(300)]
    assert (timeline.begin_ns >= timeline.due_ns).all()
    assert np.sort(timeline.ages_ms)[296] >= 300


def test_leaving_a_camera_early_stops_its_thread():
    clock = SystemClock()
    with CameraThread(Schedule(begin_ns=clock.now_ns(), fps=1000, frames=10**9), clock, lossless=False) as camera:
        assert camera.take() is not None
    assert not camera._thread.is_alive()


@pytest.mark.parametrize(
    ("text", "scenario"),
    [
        ("closed", Scenario(kind="closed")),
        ("open@30", Scenario(kind="open", fps=30)),
        ("open@29.97", Scenario(kind="open", fps=29.97)),
        ("open@30,lossless", Scenario(kind="open", fps=30, lossless=True)),
    ],
)
def test_a_scenario_is_read_and_written_alike(text, scenario):
    assert scenario_from_text(text) == scenario
    assert str(scenario) == text


@pytest.mark.parametrize("text", ["", "open", "open@", "open@0", "open@x", "closed@30", "open@30,lossy", "open@1e9"])
def test_another_scenario_is_refused_with_those_there_are(text):
    with pytest.raises(UsageError, match=r"closed, open@FPS or open@FPS,lossless"):
        scenario_from_text(text)


def test_a_net_slower_than_its_camera_is_called_overloaded():
    assert "ages grow" in overload_text(Scenario(kind="open", fps=30, lossless=True), 34.0)
    assert "dropped" in overload_text(Scenario(kind="open", fps=30), 34.0)
    assert overload_text(Scenario(kind="open", fps=30), 33.0) == ""
    assert overload_text(Scenario(kind="closed"), 1000.0) == ""

"""Time that passes only when somebody lets it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fts.profile.arrivals import Arrival, FrameQueue, Schedule
from fts.profile.stages import EngineSpan

MS = 1_000_000


class FakeClock:
    """A clock that stands still until it is told to move."""

    def __init__(self) -> None:
        self.time_ns = 0

    def now_ns(self) -> int:
        return self.time_ns

    def sleep_until_ns(self, moment_ns: int) -> None:
        self.time_ns = max(self.time_ns, moment_ns)

    def pass_ms(self, ms: float) -> None:
        self.time_ns += round(ms * MS)


class FakeCamera:
    """Frames of a schedule through the real queue, without a thread: what is due by now is in the queue."""

    def __init__(self, schedule: Schedule, clock: FakeClock, *, lossless: bool) -> None:
        self._schedule = schedule
        self._clock = clock
        self._queue = FrameQueue(lossless=lossless)
        self._next = 0

    @property
    def dropped(self) -> int:
        return self._queue.dropped

    def take(self) -> Arrival | None:
        while True:
            while self._next < self._schedule.frames and self._schedule.due_ns(self._next) <= self._clock.now_ns():
                self._queue.offer(Arrival(index=self._next, due_ns=self._schedule.due_ns(self._next)))
                self._next += 1
            if (arrival := self._queue.pop()) is not None:
                return arrival
            if self._next == self._schedule.frames:
                return None
            self._clock.sleep_until_ns(self._schedule.due_ns(self._next))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def net(clock: FakeClock) -> Callable[..., Callable[[int], EngineSpan]]:
    """A function (milliseconds of frame i) -> a net on the fake clock: 1 ms before the engine and 1 ms after it."""

    def make(frame_ms: Callable[[int], float]) -> Callable[[int], EngineSpan]:
        def run_frame(index: int) -> EngineSpan:
            clock.pass_ms(1)
            begin_ns = clock.now_ns()
            clock.pass_ms(frame_ms(index) - 2)
            end_ns = clock.now_ns()
            clock.pass_ms(1)
            return EngineSpan(begin_ns, end_ns)

        return run_frame

    return make


@pytest.fixture
def fake_camera(clock: FakeClock) -> Callable[..., FakeCamera]:
    def make(fps: float, frames: int, *, lossless: bool) -> FakeCamera:
        schedule = Schedule(begin_ns=clock.now_ns() + 50 * MS, fps=fps, frames=frames)
        return FakeCamera(schedule, clock, lossless=lossless)

    return make

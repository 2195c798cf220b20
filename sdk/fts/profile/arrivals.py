"""Frames that come when they come: the camera of an open loop, and the queue between it and the net.

A closed loop asks for the next frame when it is ready for it, so a stall delays the frames behind it and none of them
shows it. Here frame i is due at t0 + i P whatever the net does, and its age counts from there.

Source: Tene, "How NOT to Measure Latency", and the README of wrk2, on coordinated omission.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from fts.profile.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When frames are due.

    Attributes:
        begin_ns: Moment of frame 0.
        fps: Rate.
        frames: How many.
    """

    begin_ns: int
    fps: float
    frames: int

    def due_ns(self, index: int) -> int:
        """Intended capture time of a frame; from the first frame on, so that rounding does not add up."""
        return self.begin_ns + round(index * 1e9 / self.fps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A frame that was captured."""

    index: int
    due_ns: int


class FrameQueue:
    """Frames waiting for the net: all of them, or the latest alone."""

    def __init__(self, *, lossless: bool) -> None:
        self.dropped = 0
        self._lossless = lossless
        self._waiting: deque[Arrival] = deque()

    def offer(self, arrival: Arrival) -> None:
        """Put a frame in; where the latest wins, it takes the place of one that waits."""
        if not self._lossless and self._waiting:
            self._waiting.clear()
            self.dropped += 1
        self._waiting.append(arrival)

    def pop(self) -> Arrival | None:
        """The frame to run next, or None."""
        return self._waiting.popleft() if self._waiting else None


class Arrivals(Protocol):
    """Where an open loop takes its frames from."""

    def take(self) -> Arrival | None:
        """Wait for the next frame; None after the last one."""

    @property
    def dropped(self) -> int:
        """Frames that nobody took."""


class CameraThread:
    """A thread that captures on schedule, as a camera does. Use as a context manager."""

    def __init__(self, schedule: Schedule, clock: Clock, *, lossless: bool) -> None:
        self._schedule = schedule
        self._clock = clock
        self._queue = FrameQueue(lossless=lossless)
        self._condition = threading.Condition()
        self._finished = False
        self._stopped = False
        self._thread = threading.Thread(target=self._capture, name="fts-profile-camera", daemon=True)

    def __enter__(self) -> CameraThread:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._condition:
            self._stopped = True
        self._thread.join()

    @property
    def dropped(self) -> int:
        """Frames that a later one replaced."""
        return self._queue.dropped

    def take(self) -> Arrival | None:
        """Wait for the next frame; None after the last one."""
        with self._condition:
            while True:
                arrival = self._queue.pop()
                if arrival is not None or self._finished:
                    return arrival
                self._condition.wait()

    def _capture(self) -> None:
        for index in range(self._schedule.frames):
            due_ns = self._schedule.due_ns(index)
            self._clock.sleep_until_ns(due_ns)
            with self._condition:
                if self._stopped:
                    break
                self._queue.offer(Arrival(index=index, due_ns=due_ns))
                self._condition.notify()
        with self._condition:
            self._finished = True
            self._condition.notify()

"""Time, as a thing that can be handed over: measuring code asks a clock, and tests bring their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock."""

    def now_ns(self) -> int:
        """Nanoseconds since some fixed moment."""

    def sleep_until_ns(self, moment_ns: int) -> None:
        """Return at that moment, or at once when it has passed."""


class SystemClock:
    """perf_counter: on Linux CLOCK_MONOTONIC, whose rate NTP may bend by 0.05 % at most."""

    def now_ns(self) -> int:
        """Nanoseconds of perf_counter."""
        return time.perf_counter_ns()

    def sleep_until_ns(self, moment_ns: int) -> None:
        """Sleep; the kernel may wake us some 0.1 ms late."""
        left_ns = moment_ns - time.perf_counter_ns()
        if left_ns > 0:
            time.sleep(left_ns / 1e9)

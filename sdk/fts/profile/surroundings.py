"""What else happened on the machine while it measured: other processes, the host, the quota, the clocks."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from fts.profile.machine import frequencies_mhz

_SAMPLE_SECONDS = 0.5
# Columns of the "cpu" line of /proc/stat (proc(5)); guest time is already in user time.
_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(8)
_BUSY = (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Over one measurement; None where the system does not tell.

    Attributes:
        wall_s: How long it was.
        others_share: CPU time of other processes over all CPU time there was, 0..1.
        steal_share: The same for time that the host gave to other machines.
        throttled_periods: How often a cgroup quota stopped this process.
        frequency_min_mhz: Least frequency of any CPU seen.
        frequency_max_mhz: Highest.
    """

    wall_s: float
    others_share: float | None
    steal_share: float | None
    throttled_periods: int | None
    frequency_min_mhz: float | None
    frequency_max_mhz: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    wall_s: float
    own_s: float
    busy_s: float | None
    steal_s: float | None
    all_s: float | None
    throttled: int | None


class Watch:
    """Looks at the surroundings from enter to exit; `seen` then tells. Child processes must have ended by then."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._stop = threading.Event()
        self._frequencies: list[float] = []
        self._thread = threading.Thread(target=self._sample, name="fts-profile-watch", daemon=True)
        self.seen: Surroundings | None = None

    def __enter__(self) -> Watch:
        self._begin = _reading(self._root)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        self.seen = _difference(self._begin, _reading(self._root), self._frequencies)

    def _sample(self) -> None:
        while True:
            self._frequencies.extend(frequencies_mhz(self._root))
            if self._stop.wait(_SAMPLE_SECONDS):
                return


def _difference(begin: _Reading, end: _Reading, frequencies: list[float]) -> Surroundings:
    others = steal = None
    if begin.busy_s is not None and end.busy_s is not None and begin.all_s is not None and end.all_s is not None:
        total_s = max(end.all_s - begin.all_s, 1e-9)
        others = max(0.0, (end.busy_s - begin.busy_s - (end.own_s - begin.own_s)) / total_s)
        steal = max(0.0, ((end.steal_s or 0) - (begin.steal_s or 0)) / total_s)
    throttled = None
    if begin.throttled is not None and end.throttled is not None:
        throttled = end.throttled - begin.throttled
    return Surroundings(
        wall_s=end.wall_s - begin.wall_s,
        others_share=others,
        steal_share=steal,
        throttled_periods=throttled,
        frequency_min_mhz=min(frequencies, default=None),
        frequency_max_mhz=max(frequencies, default=None),
    )


def _reading(root: Path) -> _Reading:
    own = os.times()
    ticks = _cpu_ticks(root / "proc/stat")
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return _Reading(
        wall_s=time.monotonic(),
        own_s=own.user + own.system + own.children_user + own.children_system,
        busy_s=sum(ticks[i] for i in _BUSY) * tick_s if ticks else None,
        steal_s=ticks[_STEAL] * tick_s if ticks else None,
        all_s=sum(ticks) * tick_s if ticks else None,
        throttled=_throttled(root),
    )


def _cpu_ticks(stat: Path) -> list[int]:
    """The eight columns of all CPUs together, or []."""
    try:
        words = stat.read_text().splitlines()[0].split()
    except (OSError, IndexError):
        return []
    return [int(w) for w in words[1:9]] if words[:1] == ["cpu"] and len(words) >= 9 else []


def _throttled(root: Path) -> int | None:
    """nr_throttled of this process's cgroup, as mounted in a container."""
    for name in ("sys/fs/cgroup/cpu.stat", "sys/fs/cgroup/cpu/cpu.stat"):
        try:
            lines = (root / name).read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, value = line.partition(" ")
            if key == "nr_throttled" and value.isdigit():
                return int(value)
    return None

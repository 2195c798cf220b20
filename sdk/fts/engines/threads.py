"""How many CPUs this process may use: not how many the machine has.

A container's quota and a process's affinity are both invisible in `os.cpu_count()`; a pool as large as the machine
inside a quota of two CPUs is throttled by the kernel for most of each period. Quotas nest, the tightest one holds.

Source: Linux Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_PROC_CGROUP = Path("/proc/self/cgroup")
_CGROUP_ROOT = Path("/sys/fs/cgroup")


def available_cpus(
    *, affinity: int | None = None, proc_cgroup: Path = _PROC_CGROUP, cgroup_root: Path = _CGROUP_ROOT
) -> int:
    """CPUs that affinity and every cgroup quota above this process leave, at least 1.

    Args:
        affinity: CPUs by affinity; None to ask the system.
        proc_cgroup: The file in which the kernel lists this process's cgroups.
        cgroup_root: Where the cgroup file systems are mounted.
    """
    allowed = affinity if affinity is not None else _affinity()
    quotas = [int(q) for q in _quotas(proc_cgroup, cgroup_root)]
    return max(1, min([allowed, *quotas]))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(proc_cgroup: Path, cgroup_root: Path) -> Iterator[float]:
    """CPUs of each quota on the way from this process's cgroups up to the root."""
    for line in _lines(proc_cgroup):
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        _, controllers, group = parts
        if not controllers:
            for folder in _folders(cgroup_root, group):
                yield from _quota_v2(folder)
        elif "cpu" in controllers.split(","):
            for mount in dict.fromkeys((controllers, "cpu", "cpu,cpuacct")):
                for folder in _folders(cgroup_root / mount, group):
                    yield from _quota_v1(folder)


def _folders(mount: Path, group: str) -> Iterator[Path]:
    """The group's folder and all above it; inside a container the lower ones may not be mounted."""
    names = [n for n in group.split("/") if n not in ("", ".", "..")]
    for depth in range(len(names), -1, -1):
        yield mount.joinpath(*names[:depth])


def _quota_v2(folder: Path) -> Iterator[float]:
    words = " ".join(_lines(folder / "cpu.max")).split()
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]) > 0:
        yield int(words[0]) / int(words[1])


def _quota_v1(folder: Path) -> Iterator[float]:
    quota = "".join(_lines(folder / "cpu.cfs_quota_us"))
    period = "".join(_lines(folder / "cpu.cfs_period_us"))
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        yield int(quota) / int(period)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []

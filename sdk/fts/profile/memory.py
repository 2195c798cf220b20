"""How much memory this process holds, now and at its peak."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Resident memory of a process; None where the system does not tell."""

    rss_bytes: int | None
    peak_rss_bytes: int | None


def resident_memory(status: Path = _STATUS) -> Memory:
    """Read VmRSS and VmHWM.

    Args:
        status: The file in which the kernel describes this process.
    """
    try:
        lines = status.read_text().splitlines()
    except OSError:
        lines = []
    words = {w[0]: w[1] for w in (line.split() for line in lines) if len(w) == 3 and w[2] == "kB"}
    rss, peak = (int(words[key]) * 1024 if key in words else None for key in ("VmRSS:", "VmHWM:"))
    return Memory(rss_bytes=rss, peak_rss_bytes=peak)

"""The machine that figures come from: what a reader needs to judge them, or to get them again."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fts.engines.onnxruntime_session import onnxruntime_version
from fts.engines.threads import available_cpus

_COMMAND_SECONDS = 5
# Flags that decide which kernels run; the whole list is long and says little.
_TELLING_FLAGS = frozenset(
    ("amx_bf16", "amx_int8", "asimd", "asimddp", "asimdhp", "avx", "avx2", "avx512_vnni", "avx512bw", "avx512f",
     "avx512vl", "avx_vnni", "bf16", "f16c", "fma", "fphp", "hypervisor", "i8mm", "sme", "sse4_1", "sse4_2", "sve",
     "sve2")
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """This machine and this environment; "" or () where the system does not tell.

    Attributes:
        cpu_model: As the kernel names it.
        cpu_flags: Those that decide which kernels run, sorted.
        architecture: Such as "x86_64".
        cpus: Online.
        affinity: CPUs that this process may run on.
        usable_cpus: What affinity and cgroup quotas leave.
        governors: Frequency governors in use.
        frequency_locked: Whether every CPU's least and most frequency are equal; None where unknown.
        system: Kernel.
        python: Version.
        onnxruntime: Version.
        device_model: Board name, such as that of a Jetson.
        nvpmodel: Power mode of a Jetson.
        tegrastats: One line of it.
    """

    cpu_model: str
    cpu_flags: tuple[str, ...]
    architecture: str
    cpus: int
    affinity: tuple[int, ...]
    usable_cpus: int
    governors: tuple[str, ...]
    frequency_locked: bool | None
    system: str
    python: str
    onnxruntime: str
    device_model: str
    nvpmodel: str
    tegrastats: str


def this_machine(root: Path = Path("/")) -> Machine:
    """Look at this machine.

    Args:
        root: Where /proc and /sys are mounted.
    """
    info = _cpuinfo(_text(root / "proc/cpuinfo"))
    flags = set((info.get("flags") or info.get("Features") or "").split())
    policies = sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq"))
    limits = [(_text(p / "scaling_min_freq"), _text(p / "scaling_max_freq")) for p in policies]
    return Machine(
        cpu_model=info.get("model name") or info.get("CPU part") or platform.processor(),
        cpu_flags=tuple(sorted(flags & _TELLING_FLAGS)),
        architecture=platform.machine(),
        cpus=os.cpu_count() or 1,
        affinity=tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else (),
        usable_cpus=available_cpus(),
        governors=tuple(sorted({g for p in policies if (g := _text(p / "scaling_governor"))})),
        frequency_locked=all(low == high for low, high in limits) if limits else None,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        onnxruntime=onnxruntime_version(),
        device_model=_text(root / "proc/device-tree/model").strip("\0"),
        nvpmodel=_said("nvpmodel", "-q"),
        tegrastats=_first_line_of("tegrastats"),
    )


def frequencies_mhz(root: Path = Path("/")) -> tuple[float, ...]:
    """Frequency of each CPU now, by cpufreq, else by /proc/cpuinfo; () where neither tells."""
    files = sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    texts = [t for t in map(_text, files) if t.isdigit()]
    if texts:
        return tuple(int(t) / 1e3 for t in texts)
    lines = (line.partition(":") for line in _text(root / "proc/cpuinfo").splitlines())
    return tuple(float(value) for key, _, value in lines if key.strip() == "cpu MHz")


def _cpuinfo(text: str) -> Mapping[str, str]:
    """Key to value of the first CPU that has the key."""
    info: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        info.setdefault(key.strip(), value.strip())
    return info


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _said(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return " ".join(done.stdout.split())


def _first_line_of(command: str) -> str:
    """First line of a command that runs until it is stopped."""
    if shutil.which(command) is None:
        return ""
    process = subprocess.Popen([command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        out, _ = process.communicate(timeout=2)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
    return (out.splitlines() or [""])[0]

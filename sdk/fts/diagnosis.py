"""What is installed, what is missing, and the command that fixes it. Reads metadata first and imports only to try."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fts.errors import FtsError

Level = Literal["ok", "info", "warning", "missing"]

# Distributions that all install the one module `onnxruntime`: the last one installed wins, file by file.
ONNXRUNTIME_DISTRIBUTIONS = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-directml",
    "onnxruntime-openvino",
    "onnxruntime-training",
    "onnxruntime-migraphx",
)
OPENCV_DISTRIBUTIONS = (
    "opencv-python",
    "opencv-python-headless",
    "opencv-contrib-python",
    "opencv-contrib-python-headless",
)
PYTHON_RANGE = ((3, 10), (3, 12))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A distribution that some part of fts needs.

    Attributes:
        distribution: Name on the package index.
        purpose: What it is for.
        fix: The line to type when it is missing.
        needed_for: "base", an extra's name, or a target's name.
    """

    distribution: str
    purpose: str
    fix: str
    needed_for: str


PARTS: tuple[Part, ...] = (
    Part(distribution="numpy", purpose="arrays", fix="pip install 'numpy>=1.26'", needed_for="base"),
    Part(distribution="onnx", purpose="fts-convert", fix="pip install 'fts-edge[convert]'", needed_for="convert"),
    Part(
        distribution="onnx-graphsurgeon",
        purpose="fts-convert",
        fix="pip install 'fts-edge[convert]'",
        needed_for="convert",
    ),
    Part(distribution="torch", purpose="torch input", fix="pip install 'fts-edge[torch]'", needed_for="torch"),
    Part(distribution="jinja2", purpose="report.html", fix="pip install 'fts-edge[report]'", needed_for="report"),
    Part(distribution="matplotlib", purpose="report.html", fix="pip install 'fts-edge[report]'", needed_for="report"),
    Part(distribution="onnxscript", purpose="torch input", fix="pip install 'fts-edge[torch]'", needed_for="torch"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One thing looked at.

    Attributes:
        subject: What.
        level: ok; info (absent and not needed); warning (works, with a catch); missing (something needed is not there).
        found: What was found.
        fix: The command or step that mends it, or "".
    """

    subject: str
    level: Level
    found: str
    fix: str = ""


def diagnose(*, target: str | None = None) -> tuple[Diagnosis, ...]:
    """Look at this environment.

    Args:
        target: Also say what a conversion for this target needs; None for the base install and what is there beyond.
    """
    needed = {"base"} if target is None else {"base", "convert"}
    found = [_python(), *_shared_module("onnxruntime", ONNXRUNTIME_DISTRIBUTIONS, "pip install 'onnxruntime>=1.19'")]
    found += _shared_module("cv2", OPENCV_DISTRIBUTIONS, "pip install 'opencv-python>=4.8'")
    found += [_part(part, part.needed_for in needed) for part in PARTS]
    found += [*_engine(), _cpus(), _cache(), _cameras()]
    return tuple(found)


def _python() -> Diagnosis:
    version = sys.version_info[:2]
    text = f"{platform.python_version()} ({platform.machine()}, {platform.system()})"
    if PYTHON_RANGE[0] <= version <= PYTHON_RANGE[1]:
        return Diagnosis(subject="python", level="ok", found=text)
    return Diagnosis(subject="python", level="warning", found=text, fix="use Python 3.10, 3.11 or 3.12")


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _part(part: Part, is_needed: bool) -> Diagnosis:
    version = _version(part.distribution)
    if version is not None:
        return Diagnosis(subject=part.distribution, level="ok", found=version)
    text = f"not installed ({part.purpose})"
    return Diagnosis(subject=part.distribution, level="missing" if is_needed else "info", found=text, fix=part.fix)


def _shared_module(module: str, distributions: Sequence[str], install: str) -> list[Diagnosis]:
    """A module that several distributions provide: exactly one of them should."""
    installed = [(d, v) for d in distributions if (v := _version(d)) is not None]
    text = ", ".join(f"{d} {v}" for d, v in installed)
    found = []
    if len(installed) > 1:
        names = " ".join(d for d, _ in installed)
        fix = f"keep one: pip uninstall -y {names}, then pip install {installed[0][0]}"
        found.append(
            Diagnosis(subject=module, level="warning", found=f"{text}: they overwrite each other's files", fix=fix)
        )
    problem = _import_problem(module)
    if problem is None:
        version = getattr(importlib.import_module(module), "__version__", "")
        if not installed:
            text = f"{version} (not from pip)"
        found.append(Diagnosis(subject=module, level="ok", found=text or version))
    elif not installed:
        found.append(Diagnosis(subject=module, level="missing", found="not installed", fix=install))
    else:
        reason, _, advice = problem.partition(". ")
        found.append(Diagnosis(subject=module, level="missing", found=f"{text}: {reason}", fix=advice or install))
    return found


def _import_problem(module: str) -> str | None:
    try:
        if module == "cv2":
            importlib.import_module("fts.imaging.opencv")
        else:
            from fts.engines.onnxruntime_session import import_onnxruntime

            import_onnxruntime()
    except FtsError as error:
        return str(error)
    return None


def _engine() -> list[Diagnosis]:
    if _import_problem("onnxruntime") is not None:
        return []
    from fts.engines.isa import is_u8s8_exact

    if is_u8s8_exact():
        text = "u8*s8 sums are exact here: bundles with 8-bit weights (--isa vnni) run"
        return [Diagnosis(subject="int8 arithmetic", level="ok", found=text)]
    text = "u8*s8 sums saturate here (x86 without VNNI): bundles of --isa vnni fall back to FP32"
    return [
        Diagnosis(subject="int8 arithmetic", level="info", found=text, fix="convert with --isa any for this machine")
    ]


def _cpus() -> Diagnosis:
    from fts.engines.threads import available_cpus

    text = f"{available_cpus()} usable of {os.cpu_count()} (affinity and cgroup counted)"
    return Diagnosis(subject="cpus", level="ok", found=text)


def _cache() -> Diagnosis:
    folder = Path(os.environ.get("FTS_CACHE") or Path.home() / ".cache" / "fts")
    existing = next((p for p in (folder, *folder.parents) if p.exists()), folder)
    if os.access(existing, os.W_OK):
        return Diagnosis(subject="cache", level="ok", found=str(folder))
    fix = "set FTS_CACHE to a folder you may write to, or convert with --no-cache"
    return Diagnosis(subject="cache", level="warning", found=f"{folder}: not writable", fix=fix)


def _cameras() -> Diagnosis:
    devices = sorted(str(p) for p in Path("/dev").glob("video*"))
    if devices:
        return Diagnosis(subject="cameras", level="ok", found=", ".join(devices))
    return Diagnosis(subject="cameras", level="info", found="no /dev/video* here")

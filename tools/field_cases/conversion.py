"""Run fts-convert in a process of its own and note what a user would see: exit code, text, files, time, memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sysconfig
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from field_cases.case import Case, preprocessing_flags, with_target

FTS_CONVERT = Path(sysconfig.get_path("scripts")) / "fts-convert"
LIMIT_S = 600.0
POLL_S = 0.01
KIB_PER_MB = 1024  # ru_maxrss is in KiB on Linux


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What one run of fts-convert left behind.

    Attributes:
        exit_code: Negative: ended by that signal.
        stderr: All of it.
        seconds: Wall time.
        peak_rss_mb: Greatest resident memory of the command or of a process it started.
        bundle: The path given to -o, there or not.
        new_files: Everything in the output folder, and everything new in the case's folder.
    """

    exit_code: int
    stderr: str
    seconds: float
    peak_rss_mb: float
    bundle: Path
    new_files: tuple[str, ...]


def convert_command(case: Case, target: str, bundle: Path, arguments: tuple[str, ...] | None = None) -> list[str]:
    """The command line of a case; `arguments` stands in for the case's own."""
    chosen = with_target(case.arguments if arguments is None else arguments, target)
    budget = ("--budget", "none", "--min-int8", "0")
    return [str(FTS_CONVERT), *chosen, *preprocessing_flags(case.preprocess), *budget, "-o", str(bundle)]


def environment_with_cache(folder: Path) -> dict[str, str]:
    """This environment with an empty stage cache, so that every case is really converted."""
    return {**os.environ, "FTS_CACHE": str(folder)}


def convert(case: Case, target: str, work: Path, arguments: tuple[str, ...] | None = None) -> Conversion:
    """Convert a case into the empty folder `work`."""
    out = work / "out"
    out.mkdir(parents=True)
    bundle = out / "case.fts"
    before = _files(case.folder)
    start_s = time.monotonic()
    with (work / "stdout.txt").open("wb") as stdout, (work / "stderr.txt").open("wb") as stderr:
        process = subprocess.Popen(
            convert_command(case, target, bundle, arguments),
            cwd=case.folder,
            env=environment_with_cache(work / "cache"),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        exit_code, peak_rss_kib = _wait(process, LIMIT_S)
    return Conversion(
        exit_code=exit_code,
        stderr=(work / "stderr.txt").read_text(encoding="utf-8", errors="replace"),
        seconds=time.monotonic() - start_s,
        peak_rss_mb=peak_rss_kib / KIB_PER_MB,
        bundle=bundle,
        new_files=tuple(sorted(_files(out) | (_files(case.folder) - before))),
    )


def convert_and_kill(case: Case, target: str, work: Path, after_s: float) -> Conversion | None:
    """Start the same conversion and end it with SIGKILL; None when it was done before that."""
    out = work / "out"
    out.mkdir(parents=True)
    bundle = out / "case.fts"
    process = subprocess.Popen(
        convert_command(case, target, bundle),
        cwd=case.folder,
        env=environment_with_cache(work / "cache"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(timeout=after_s)
        return None
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    exit_code = process.wait()
    files = tuple(sorted(_files(out)))
    return Conversion(exit_code=exit_code, stderr="", seconds=after_s, peak_rss_mb=0.0, bundle=bundle, new_files=files)


def read_report(bundle: Path) -> Mapping[str, Any]:
    """report/report.json of a bundle."""
    with zipfile.ZipFile(bundle) as archive:
        report: Mapping[str, Any] = json.loads(archive.read("report/report.json"))
    return report


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> tuple[int, int]:
    """Exit code and peak memory in KiB of a child and of the processes that it waited for."""
    end_s = time.monotonic() + limit_s
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_maxrss
        if time.monotonic() > end_s:
            os.killpg(process.pid, signal.SIGKILL)
            end_s = float("inf")
        time.sleep(POLL_S)


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}

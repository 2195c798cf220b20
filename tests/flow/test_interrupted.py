"""A conversion that is killed leaves nothing under the final name, or a whole bundle; the next run succeeds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import CONVERT, TARGET, Converted, command_line, convert_in_process_of_its_own

# The first word of each stage's progress line.
STAGES = ("load", "clean", "calibrate", "search", "verify", "pack")
OUT = "out.fts"


@pytest.fixture
def work(converted: Converted, tmp_path: Path) -> Path:
    """A folder with the inputs of `converted`."""
    (tmp_path / "net.onnx").symlink_to(converted.folder / "net.onnx")
    (tmp_path / "photos").symlink_to(converted.photos)
    return tmp_path


def arguments() -> tuple[str, ...]:
    return ("net.onnx", *TARGET, "--calib", "photos", "-o", OUT)


def signalled(work: Path, stage: str, number: signal.Signals) -> tuple[int, str]:
    """Send a signal as soon as the stage begins; returns the exit status and stderr.

    Ctrl-C reaches the process that verifies as well, as on a terminal.
    """
    with subprocess.Popen(
        command_line(*arguments()), cwd=work, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        said = ""
        while line := process.stderr.readline():
            said += line
            if line.startswith(stage):
                send = os.killpg if number == signal.SIGINT else os.kill
                send(process.pid, number)
                break
        said += process.stderr.read()
    return process.returncode, said


@pytest.mark.parametrize("stage", STAGES)
def test_killed_in_a_stage_leaves_nothing_or_a_whole_bundle(stage: str, work: Path, converted: Converted) -> None:
    status, _ = signalled(work, stage, signal.SIGKILL)
    bundle = work / OUT
    if stage == "pack" and bundle.exists():  # the rename may have come first
        assert bundle.read_bytes() == converted.bundle.read_bytes()
    else:
        assert status == -signal.SIGKILL
        assert not bundle.exists()


# What the process does just before or just behind the rename that gives the bundle its final name.
DIE_AT_RENAME = f"""
import os, signal
rename = os.replace
def replace(source, target):
    is_last = os.fspath(target).endswith("{OUT}")
    if is_last and os.environ["DIE"] == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)
    if is_last:
        os.kill(os.getpid(), signal.SIGKILL)
os.replace = replace
{CONVERT}
"""


def test_the_bundle_appears_in_one_step_and_the_next_run_succeeds(work: Path, converted: Converted) -> None:
    for moment in ("before", "behind"):
        (work / OUT).unlink(missing_ok=True)
        command = [sys.executable, "-c", DIE_AT_RENAME, *arguments()]
        done = subprocess.run(command, cwd=work, env={**os.environ, "DIE": moment}, capture_output=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
        assert (work / OUT).exists() == (moment == "behind")
    assert (work / OUT).read_bytes() == converted.bundle.read_bytes()
    (work / OUT).unlink()
    again = convert_in_process_of_its_own(*arguments(), cwd=work)
    assert again.code == 0, again.err
    assert (work / OUT).read_bytes() == converted.bundle.read_bytes()


@pytest.mark.parametrize("stage", ["calibrate", "verify"])
def test_ctrl_c_is_130_in_one_line_and_leaves_nothing(stage: str, work: Path) -> None:
    before = sorted(path.name for path in work.iterdir())
    status, said = signalled(work, stage, signal.SIGINT)
    assert status == 130, said
    assert said.rstrip().endswith("interrupted")
    assert "Traceback" not in said
    assert sorted(path.name for path in work.iterdir()) == before


def test_killed_runs_leave_a_cache_that_the_next_run_can_use(work: Path, converted: Converted) -> None:
    signalled(work, "verify", signal.SIGKILL)
    again = convert_in_process_of_its_own(*arguments(), cwd=work)
    assert again.code == 0, again.err
    assert (work / OUT).read_bytes() == converted.bundle.read_bytes()

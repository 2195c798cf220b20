"""A conversion stopped in the middle of the statistics goes on where it was, and ends with the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import CONVERT, TARGET, Ran
from .nets import PICTURE, TENSOR, save_net, save_pictures

# Half of them calibrate: more than the 8 parts of the split halves.
PHOTOS, CALIBRATE, SELECT = 24, 12, 6

# Keeps a state behind every sample, notes each sample in a file, and gets a signal instead of the sample of that number.
STOPPED = f"""
import os, signal
from fts_calibration.statistics import collect
from fts_converters import resumable_statistics
resumable_statistics.SAVE_EVERY_S = float(os.environ["SAVE_EVERY_S"])
add = collect.Collector.add
def noted(self, feed):
    with open("samples.log", "a") as log:
        log.write(f"{{self.samples}}\\n")
    if self.samples == int(os.environ["STOP_AT"]):
        os.kill(os.getpid(), int(os.environ["SIGNAL"]))
    return add(self, feed)
collect.Collector.add = noted
{CONVERT}
"""


def convert(
    folder: Path, *, stop_at: int = -1, number: signal.Signals = signal.SIGKILL, save_every_s: float = 0
) -> tuple[Ran, list[int]]:
    """Convert, stopped before a sample; returns what came of it and the samples that ran."""
    log = folder / "samples.log"
    log.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, "net.onnx", *TARGET, "--calib", "photos", "-o", "out.fts"],
        cwd=folder,
        env={**os.environ, "STOP_AT": str(stop_at), "SIGNAL": str(int(number)), "SAVE_EVERY_S": str(save_every_s)},
        capture_output=True,
        text=True,
        check=False,
    )
    samples = [int(line) for line in log.read_text().split()]
    if done.returncode == 0:  # ranges of the select split are taken again at the end
        assert samples[-SELECT:] == list(range(SELECT))
        samples = samples[:-SELECT]
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr), samples


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    save_pictures(folder / "photos", PHOTOS)
    save_net(folder / "net.onnx", PICTURE)
    return folder


def stages(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """A new empty cache; returns where its entries will be."""
    monkeypatch.setenv("FTS_CACHE", str(folder))
    return folder / "stages"


def test_killed_and_interrupted_it_goes_on_and_gives_the_same_bytes(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages(monkeypatch, tmp_path / "one")
    whole, samples = convert(work)
    assert (whole.code, samples) == (0, list(range(CALIBRATE)))
    expected = (work / "out.fts").read_bytes()
    (work / "out.fts").unlink()

    kept = stages(monkeypatch, tmp_path / "two")
    killed, samples = convert(work, stop_at=5)
    assert (killed.code, samples) == (-signal.SIGKILL, [0, 1, 2, 3, 4, 5])
    interrupted, samples = convert(work, stop_at=9, number=signal.SIGINT)
    assert (interrupted.code, samples) == (130, [5, 6, 7, 8, 9]), interrupted.err
    assert len(list(kept.glob("*.json"))) == 1
    done, samples = convert(work)
    assert (done.code, samples) == (0, [9, 10, 11]), done.err
    assert "goes on behind sample 9" in done.err
    assert (work / "out.fts").read_bytes() == expected


def test_a_finished_pass_leaves_no_state_behind(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [stages(monkeypatch, tmp_path / name) for name in ("never", "often")]
    entries = []
    for folder, save_every_s in zip(folders, (1e9, 0), strict=True):
        monkeypatch.setenv("FTS_CACHE", str(folder.parent))
        assert convert(work, save_every_s=save_every_s)[0].code == 0
        (work / "out.fts").unlink()
        entries.append(sorted(path.name for path in folder.iterdir()))
    assert entries[0] == entries[1]


def test_states_are_not_written_sample_by_sample(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = stages(monkeypatch, tmp_path / "cache")
    killed, _ = convert(work, stop_at=9, save_every_s=30)
    assert killed.code == -signal.SIGKILL
    assert not kept.exists() or not list(kept.iterdir())


@pytest.mark.parametrize("what", ["photo", "net"])
def test_a_changed_input_starts_anew(what: str, work: Path) -> None:
    assert convert(work, stop_at=7)[1] == list(range(8))
    if what == "photo":
        save_pictures(work / "photos", 1, first_seed=500)
    else:
        save_net(work / "net.onnx", TENSOR)
    done, samples = convert(work)
    assert (done.code, samples) == (0, list(range(CALIBRATE))), done.err

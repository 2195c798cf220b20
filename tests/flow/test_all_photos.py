"""What is encoded has seen calibrate and select, and never verify."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from .conftest import Run, report_of
from .nets import TENSOR, save_net

# Of the files in the order of their sha256: calibrate, calibrate, select, verify in turn.
SELECT, VERIFY = 2, 3
REACH = 1.5


def save_feeds_with_a_wide_one(folder: Path, place_in_turn: int) -> None:
    """Eleven samples within 1 and one that reaches REACH, in the wanted split."""
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        samples = [rng.uniform(-1, 1, (1, 3, 16, 16)).astype(np.float32) for _ in range(12)]
        samples[0] *= np.float32(REACH)
        folder.mkdir(exist_ok=True)
        files = [folder / f"{number:02}.npz" for number in range(len(samples))]
        for file, sample in zip(files, samples, strict=True):
            np.savez(file, x=sample)
        order = sorted(files, key=lambda file: hashlib.sha256(file.read_bytes()).hexdigest())
        if order.index(files[0]) % 4 == place_in_turn:
            return
    raise AssertionError("no seed puts the wide sample there")


def reach_of_input(place: Path, fts_convert: Run) -> float:
    save_net(place / "net.onnx", TENSOR)
    done = fts_convert("net.onnx", "--calib", "feeds", "--budget", "sqnr>=5", "--recover", "none")
    assert done.code == 0, done.err
    assert "ranges of all photos: sqnr" in done.err
    report = report_of(next(place.glob("*.fts")))
    split_of = {f["path"]: f["split"] for f in report["calibration"]["files"]}
    assert split_of["00.npz" if "00.npz" in split_of else "feeds/00.npz"] in ("select", "verify")
    (found,) = [r for r in report["calibration"]["ranges"] if r["tensor"] == "x"]
    return max(-found["low"], found["high"])


def test_a_wide_photo_of_the_select_split_widens_the_range(place: Path, fts_convert: Run) -> None:
    save_feeds_with_a_wide_one(place / "feeds", SELECT)
    assert reach_of_input(place, fts_convert) >= REACH * 0.95


def test_a_wide_photo_of_the_verify_split_leaves_no_trace(place: Path, fts_convert: Run) -> None:
    save_feeds_with_a_wide_one(place / "feeds", VERIFY)
    # 1, or a choice of headroom on it, but not the wide sample.
    assert reach_of_input(place, fts_convert) <= 1.3

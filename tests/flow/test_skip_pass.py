"""`--skip-pass` leaves a pass out and says so."""

from __future__ import annotations

from pathlib import Path

from .conftest import Run, warning_ids
from .nets import PICTURE, save_net, save_pictures


def test_a_skipped_pass_is_a_warning_and_stands_in_the_report(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place / "photos", 4)
    done = fts_convert("net.onnx", "--calib", "photos", "--budget", "none", "--skip-pass", "fold_batchnorm")
    assert done.code == 0, done.err
    assert "[pass-skipped] fold_batchnorm" in done.err
    assert "pass-skipped" in warning_ids(place / "net.cpu-int8.fts")

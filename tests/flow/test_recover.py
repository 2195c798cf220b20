"""--recover: what is reported, what is packed, and that `none` leaves the weights alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from fts.bundle.archive import open_bundle

from .conftest import Run, report_of
from .nets import PICTURE, save_net, save_pictures


def _integers(bundle: Path) -> dict[str, np.ndarray]:
    net = onnx.load_from_string(open_bundle(bundle).read("engines/cpu-int8.onnx"))
    return {t.name: numpy_helper.to_array(t) for t in net.graph.initializer if t.name.endswith("_quantized")}


def test_kept_rungs_are_reported_and_packed(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place / "photos", 12)
    bundles = {}
    for level in ("none", "rounding"):
        bundles[level] = place / f"{level}.fts"
        done = fts_convert("net.onnx", "--calib", "photos", "--recover", level, "-o", bundles[level])
        assert done.code == 0, done.err
    assert report_of(bundles["none"])["recovery"] == []
    rungs = report_of(bundles["rounding"])["recovery"]
    assert [r["rung"] for r in rungs] == ["bias", "rounding"]
    for rung in rungs:
        assert rung["kept"] == (rung["after"] > rung["before"]) or abs(rung["after"] - rung["before"]) < 1e-3
    own, mended = _integers(bundles["none"]), _integers(bundles["rounding"])
    assert own.keys() == mended.keys()
    is_changed = any((own[name] != mended[name]).any() for name in own)
    assert is_changed == any(r["kept"] for r in rungs)


def test_budget_none_judges_and_recovers_nothing(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place / "photos", 4)
    done = fts_convert("net.onnx", "--calib", "photos", "--budget", "none", "-o", "net.fts")
    assert done.code == 0, done.err
    assert report_of(place / "net.fts")["recovery"] == []

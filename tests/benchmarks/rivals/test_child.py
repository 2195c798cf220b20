"""What a rival's process writes, with rivals made for the test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rivals import child, nncf_ptq, run_rival

FAILING = """
PACKAGES = ("numpy",)
METHODS = {"m": [1, 2, 3]}
def convert(settings, source, feeds, folder):
    for number, chosen in enumerate(settings):
        if chosen == 2:
            raise RuntimeError("two is not supported")
        target = folder / f"{number}.onnx"
        target.write_text(f"{chosen} {len(feeds)} {feeds[0]['x'].shape}")
        yield target
"""


def test_a_setting_that_fails_is_a_row_and_does_not_stop_the_others(tmp_path):
    script = tmp_path / "child.py"
    script.write_text(Path(child.__file__).read_text())
    (tmp_path / "failing.py").write_text(FAILING)
    np.savez(tmp_path / "feeds.npz", x=np.zeros((5, 3, 2, 2), np.float32))
    folder = tmp_path / "out"
    folder.mkdir()
    command = [sys.executable, str(script), "failing", "m", "none.onnx", str(tmp_path / "feeds.npz"), str(folder)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    result = json.loads((folder / "result.json").read_text())
    assert result["is_complete"]
    assert result["peak_bytes"] > 0
    assert [r["settings"] for r in result["rows"]] == [1, 2, 3]
    assert result["rows"][1]["error"] == "RuntimeError: two is not supported"
    assert (folder / result["rows"][0]["file"]).read_text() == "1 5 (1, 3, 2, 2)"
    assert (folder / result["rows"][2]["file"]).read_text() == "3 5 (1, 3, 2, 2)"


def test_nncf_is_not_imported_where_it_could_send(monkeypatch):
    monkeypatch.delenv(nncf_ptq.NO_TELEMETRY, raising=False)
    with pytest.raises(RuntimeError, match="NNCF_CI"):
        next(nncf_ptq.convert([{}], Path("x"), [], Path(".")))


def test_rivals_are_run_with_every_opt_out_set():
    assert run_rival.SILENT[nncf_ptq.NO_TELEMETRY] == "1"
    assert run_rival.SILENT["ORT_DISABLE_TELEMETRY"] == "1"


@pytest.mark.parametrize("rival", run_rival.RIVALS)
def test_methods_can_be_listed_without_the_rival(rival):
    assert run_rival.methods_of(rival, with_slow=False)


def test_every_slow_method_is_one_of_a_rival_and_runs_when_asked_for():
    for rival, method in run_rival.SLOW:
        assert method in run_rival.methods_of(rival, with_slow=True)
        assert method not in run_rival.methods_of(rival, with_slow=False)

"""fts-profile as typed."""

from __future__ import annotations

import json
import subprocess
import sys

import cv2
import numpy as np
import pytest

from fts.commands.profile import main
from fts.profile import measure


@pytest.fixture(autouse=True)
def short_warm_up(monkeypatch):
    """On a busy machine the speed of a tiny net does not settle: 30 s would be spent on it."""
    monkeypatch.setattr(measure, "CAP_S", 0.1)
    monkeypatch.setattr(measure, "_LEAST_LATER_CAP_S", 0.1)


QUICK = ("--runs", "1", "--seconds", "0.1", "--threads", "1", "--no-layers", "--no-ratio")


def profile_json(bundle, *more, capsys):
    assert main([str(bundle), *QUICK, "--json", "-", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_everything_is_measured_and_shown(bundle, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measure, "USUAL_PAIRS", 5)
    monkeypatch.setattr(measure, "_RATIO_CAP_S", 0.02)
    out = tmp_path / "now.json"
    assert main([str(bundle), "--runs", "1", "--seconds", "0.1", "--threads", "1", "--json", str(out)]) == 0
    document = json.loads(out.read_text())
    assert document["bundle"]["name"] == "net.cpu-int8.fts"
    assert document["scenario"] == {
        "name": "closed",
        "seconds": 0.1,
        "runs": 1,
        "threads": 1,
        "frames": "4 frames, synthetic, the first 32x32",
        "inputs": [],
    }
    assert document["ratio"]["against"].startswith("portable FP32 net")
    assert len(document["ratio"]["pair_ratios"]) == 5
    assert document["layers"]["rows"][-1]["name"] == "unattributed"
    assert len(document["samples"]) == 1
    table = capsys.readouterr().out
    assert "UNSTABLE  one process alone does not show how runs differ" in table
    assert "ratio     " in table
    assert "unattributed" in table
    assert list(tmp_path.glob("*.part*")) == []


def test_json_on_stdout_takes_the_place_of_the_table(bundle, capsys):
    document = profile_json(bundle, capsys=capsys)
    assert document["layers"] is None
    assert document["ratio"] == {"against": None, "reason": "--no-ratio"}
    assert document["latency"]["frames"] == len(document["samples"][0]["engine_ms"])


def test_an_open_loop_runs_every_frame_of_its_time_or_drops_it(bundle, capsys):
    document = profile_json(bundle, "--scenario", "open@100", capsys=capsys)
    assert document["scenario"]["name"] == "open@100"
    assert document["latency"]["frames"] == 10


def test_frames_of_a_folder_are_used_in_their_own_size(bundle, frame, tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    for i in range(3):
        cv2.imwrite(str(tmp_path / "photos" / f"{i}.png"), frame)
    document = profile_json(bundle, "--frames", str(tmp_path / "photos"), capsys=capsys)
    assert document["scenario"]["frames"] == "3 frames, photos, the first 64x48"


def test_samples_go_to_their_own_file(bundle, tmp_path, capsys):
    document = profile_json(bundle, "--samples", str(tmp_path / "raw.npz"), capsys=capsys)
    assert document["samples"] == {"file": "raw.npz"}
    with np.load(tmp_path / "raw.npz") as raw:
        assert raw["run/0/engine_ms"].size == document["latency"]["frames"]


def test_a_tensor_input_is_given_by_a_flag(kit, tmp_path, capsys):
    bundle = kit.aged().write(tmp_path / "aged.cpu-int8.fts")
    assert main([str(bundle), *QUICK]) == 2
    assert "needs --input age=VALUE" in capsys.readouterr().err
    assert profile_json(bundle, "--input", "age=3", capsys=capsys)["scenario"]["inputs"] == ["age=3"]


def test_a_net_of_tensors_alone_takes_no_frames(kit, tmp_path, capsys):
    net = kit.onnx_bytes(kit.NEGATIVE)
    shape = (1, 3, kit.SIZE, kit.SIZE)
    bundle = kit.Recipe(
        portable=net, encoded=net, inputs=(kit.tensor_input("x", shape),), outputs=(kit.tensor_output("y", shape),)
    ).write(tmp_path / "raw.cpu-int8.fts")
    np.save(tmp_path / "x.npy", np.ones(shape, np.float32))
    given = ("--input", f"x={tmp_path / 'x.npy'}")
    assert profile_json(bundle, *given, capsys=capsys)["scenario"]["frames"] == "no frames: tensor inputs alone"
    assert main([str(bundle), *QUICK, *given, "--frames", "photo.png"]) == 2
    assert "takes no frame" in capsys.readouterr().err


def test_the_portable_net_has_no_ratio_to_itself(kit, tmp_path, capsys):
    bundle = kit.Recipe(target="orin-int8", kind="tensorrt").write(tmp_path / "net.orin-int8.fts")
    quick = [a for a in QUICK if a != "--no-ratio"]
    assert main([str(bundle), *quick]) == 0
    said = capsys.readouterr()
    assert "ratio     none: what runs here is the portable FP32 net itself" in said.out
    assert "warning: [fallback]" in said.err


def test_strict_refuses_a_fallback(kit, tmp_path, capsys):
    bundle = kit.Recipe(target="orin-int8", kind="tensorrt").write(tmp_path / "net.orin-int8.fts")
    assert main([str(bundle), *QUICK, "--strict"]) == 4
    assert "strict=True rules out a fallback" in capsys.readouterr().err


def test_times_of_a_simulation_are_called_so(kit, tmp_path, capsys):
    bundle = kit.Recipe(target="orin-int8", kind="tensorrt").write(tmp_path / "net.orin-int8.fts")
    document = profile_json(bundle, "--simulate", capsys=capsys)
    assert document["bundle"]["evidence"]["tag"] == "simulated"
    assert document["warnings"] == ["these are times of a simulation of orin-int8 on this machine, not of that device"]


def test_a_bundle_below_its_budget_is_measured_and_called_so(kit, tmp_path, capsys):
    bundle = kit.Recipe(met=False).write(tmp_path / "net.cpu-int8.below-budget.fts")
    assert "missed its accuracy budget" in profile_json(bundle, capsys=capsys)["warnings"][0]


def test_a_condition_that_holds_is_exit_3_and_a_sentence(bundle, tmp_path, capsys):
    old = tmp_path / "old.json"
    assert main([str(bundle), *QUICK, "--json", str(old)]) == 0
    document = json.loads(old.read_text())
    for entry in document["latency"]["percentiles"]:
        entry |= {"state": "ok", "value_ms": 1e-9}
    old.write_text(json.dumps(document))
    assert main([str(bundle), *QUICK, "--baseline", str(old), "--fail-if", "p50>1.05x"]) == 3
    said = capsys.readouterr().err
    assert "fts-profile: --fail-if p50>1.05x: p50 went from 0.000 ms to" in said
    assert "decided on UNSTABLE figures" in said
    for entry in document["latency"]["percentiles"]:
        entry["value_ms"] = 1e9
    old.write_text(json.dumps(document))
    assert main([str(bundle), *QUICK, "--baseline", str(old), "--fail-if", "p50>1.05x"]) == 0


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--scenario", "open"), "open@FPS"),
        (("--fail-if", "p90>1.05x"), "needs --baseline"),
        (("--fail-if", "p90"), "expected p50, p90 or p99"),
        (("--baseline", "none.json", "--fail-if", "p90>2x"), "none.json: cannot be read"),
        (("--json", "none/now.json"), "--json none/now.json: expected the name of a file in a folder that exists"),
        (("--samples", "raw.txt"), "expected the suffix .npz"),
        (("--input", "x=1"), "expected NAME=VALUE with NAME one of the tensor inputs"),
        (("--frames", "none.png"), "none.png: no such file"),
    ],
)
def test_a_wrong_flag_is_noticed_before_anything_is_measured(flags, text, bundle, monkeypatch, capsys):
    monkeypatch.setattr(measure, "measure", lambda *_, **__: pytest.fail("measured"))
    assert main([str(bundle), *flags]) == 2
    assert text in capsys.readouterr().err


def test_a_baseline_without_a_condition_is_refused(bundle, tmp_path, capsys):
    old = tmp_path / "old.json"
    assert main([str(bundle), *QUICK, "--json", str(old)]) == 0
    assert main([str(bundle), *QUICK, "--baseline", str(old)]) == 2
    assert "needs --fail-if" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [("--runs", "0"), ("--seconds", "0"), ("--seconds", "x"), ("--threads", "-1")])
def test_a_number_out_of_range_is_a_usage_error(flags, bundle, capsys):
    with pytest.raises(SystemExit) as stop:
        main([str(bundle), *flags])
    assert stop.value.code == 2
    assert "expected" in capsys.readouterr().err


def test_a_missing_bundle_is_exit_2(tmp_path, capsys):
    assert main([str(tmp_path / "none.fts"), *QUICK]) == 2
    assert "no such file" in capsys.readouterr().err


def test_help_imports_no_library():
    code = """
import sys
from fts.commands.profile import main
try:
    main(["--help"])
except SystemExit as stop:
    assert stop.code == 0
print(sorted(set(sys.modules) & {"cv2", "numpy", "onnxruntime", "onnx"}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--fail-if" in done.stdout

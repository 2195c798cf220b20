"""What the budget promises is measured from the packed bundle, told with its reasons, and a missed one is refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import fts
from fts.bundle.archive import open_bundle
from fts.errors import BelowBudgetError
from fts_converters import verify

from .conftest import Converted, Ran, Run, report_of, warning_ids
from .nets import CONV, PICTURE, TENSOR, save_feeds, save_net, save_pictures


@pytest.fixture
def missed(place: Path, fts_convert: Run) -> Ran:
    """A conversion whose budget no INT8 net can meet."""
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place / "photos", 8)
    return fts_convert("net.onnx", "--calib", "photos", "--budget", "psnr>=90")


def test_a_missed_budget_is_exit_3_with_the_list_of_units(missed: Ran) -> None:
    assert missed.code == 3
    assert "output 'y': psnr>=90 missed on the select split" in missed.err
    assert "output 'y': psnr>=90 missed on the verify split" in missed.err
    listed = missed.err.partition("worst first:\n")[2].partition("  plans tried")[0].splitlines()
    assert len(listed) == 2  # both convolutions
    values = [float(line.split()[0]) for line in listed]
    assert values == sorted(values)
    assert all(" of the MACs  Conv " in line for line in listed)
    assert "net.cpu-int8.below-budget.fts" in missed.err
    front = missed.err.partition("cheapest first")[2].splitlines()[1:-1]
    assert front
    assert all("work 0." in line and "of the MACs in INT8" in line for line in front)


def test_the_best_attempt_lies_beside_the_final_name_and_is_refused(missed: Ran, place: Path) -> None:
    bundle = place / "net.cpu-int8.below-budget.fts"
    assert not (place / "net.cpu-int8.fts").exists()
    with pytest.raises(BelowBudgetError, match=r"psnr>=90.*allow_below_budget=True"):
        fts.load(bundle)
    with fts.load(bundle, allow_below_budget=True) as model:
        assert model.infer({"x": np.zeros((1, 3, 16, 16), np.float32)})["y"].shape == (1, 3, 16, 16)
    report = report_of(bundle)
    assert report["budget"]["met"] is False
    assert len(report["sensitivity"]) == 2
    assert report["sensitivity_method"]["name"] == "exhaustive"  # of two samples, the fast way takes both


def test_each_way_to_measure_units_is_in_the_report(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place / "photos", 12)
    found = {}
    for way in ((), ("--sensitivity", "fast"), ("--sensitivity", "full")):
        assert fts_convert("net.onnx", "--calib", "photos", "--budget", "psnr>=90", *way).code == 3
        found[way[1:]] = report_of(place / "net.cpu-int8.below-budget.fts")
    assert {way: r["sensitivity_method"]["name"] for way, r in found.items()} == {
        (): "pilot",
        ("fast",): "pilot",
        ("full",): "exhaustive",
    }
    assert [r["metrics"][0]["n"] for r in found.values()] == [3, 3, 3]
    values = [{e["unit"]: e["value"] for e in r["sensitivity"]} for r in found.values()]
    assert values[0] == values[1]
    assert values[0].keys() == values[2].keys()


def test_fts_run_refuses_the_best_attempt_too(missed: Ran, place: Path, fts: Run) -> None:
    bundle, picture = "net.cpu-int8.below-budget.fts", "photos/p000.png"
    refused = fts("run", bundle, picture)
    assert refused.code == 3
    assert "--allow-below-budget" in refused.err
    assert not (place / "p000.out.png").exists()
    assert fts("run", bundle, picture, "--allow-below-budget").code == 0


def test_too_small_a_share_of_integer_arithmetic_is_exit_3(place: Path, fts_convert: Run) -> None:
    """ONNX Runtime has no integer kernel for ConvTranspose, and one that asks for an output_shape is not lowered."""
    text = f"""net (float[1,3,16,16] x) => (float[1,3,18,18] y) {{ a = {CONV}(x, w)
        y = ConvTranspose<output_shape=[18,18]>(a, w) }}"""
    save_net(place / "net.onnx", text)
    save_pictures(place / "photos", 4)
    done = fts_convert("net.onnx", "--calib", "photos", "--min-int8", "1.0")
    assert done.code == 3
    assert "of the MACs run in integer kernels, 100% wanted (--min-int8)" in done.err
    assert (place / "net.cpu-int8.below-budget.fts").exists()
    assert not (place / "net.cpu-int8.fts").exists()
    (reason,) = [n["reason"] for n in report_of(place / "net.cpu-int8.below-budget.fts")["nodes"]
                 if n["op_type"] == "ConvTranspose"]  # fmt: skip
    assert reason


def test_a_layer_that_costs_too_much_goes_to_float_with_its_reason(place: Path, fts_convert: Run) -> None:
    """A budget between all-INT8 and all-float: the search gives up one layer, not the budget."""
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place / "photos", 8)
    everything = json.loads(fts_convert("net.onnx", "--calib", "photos", "--json").out)
    reached = min(m["value"] for m in everything["metrics"])
    threshold = f"psnr>={reached + 25:.2f}"  # out of reach of the finer integer forms too
    done = fts_convert("net.onnx", "--calib", "photos", "--budget", threshold, "--min-int8", "0", "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["integer_mac_share"] < 1.0
    nodes = report_of(place / "net.cpu-int8.fts")["nodes"]
    assert [n["name"] for n in nodes if n["precision"] == "fp32" and "for the budget" in n["reason"]]
    assert all(m["value"] >= reached + 25 for m in result["metrics"])


def test_without_a_budget_one_file_is_enough_and_nothing_is_called_verified(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place / "photos", 1)
    done = fts_convert("net.onnx", "--calib", "photos", "--budget", "none")
    assert done.code == 0, done.err
    assert "[not-verified]" in done.err
    report = report_of(place / "net.cpu-int8.fts")
    assert {m["split"] for m in report["metrics"]} == {"calibrate"}
    assert "not-verified" in warning_ids(place / "net.cpu-int8.fts")
    with fts.load(place / "net.cpu-int8.fts"):
        pass


def test_low_quality_without_a_budget_is_a_warning(place: Path, fts_convert: Run) -> None:
    """One sample is ten thousand times as large as the others, which get one step of the grid or none."""
    save_net(place / "net.onnx", TENSOR)
    save_feeds(place / "feeds", 3, {"x": (1, 3, 16, 16)})
    np.savez(place / "feeds/large.npz", x=np.full((1, 3, 16, 16), 1e4, np.float32))
    done = fts_convert("net.onnx", "--calib", "feeds", "--budget", "none")
    assert done.code == 0, done.err
    assert "[quality-low] output 'y': sqnr" in done.err
    assert "quality-low" in warning_ids(place / "net.cpu-int8.fts")


def test_verification_needs_nothing_but_the_bundle_and_the_verify_split(
    place: Path, fts_convert: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Model, photos and cache are gone before the child starts."""
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place / "photos", 8)
    run, fts_cache = subprocess.run, os.environ["FTS_CACHE"]
    seen: list[Sequence[str]] = []
    asked: list[dict[str, Any]] = []

    def spy(command: Sequence[str], **options: Any) -> Any:
        seen.append(command)
        asked.append(json.loads(options["input"]))
        (place / "net.onnx").unlink()
        shutil.rmtree(place / "photos")
        shutil.rmtree(fts_cache)
        return run(command, **options)

    monkeypatch.setattr(verify.subprocess, "run", spy)
    done = fts_convert("net.onnx", "--calib", "photos")
    assert done.code == 0, done.err
    assert seen == [[sys.executable, "-m", "fts_converters.verify"]]
    assert set(asked[0]) == {"bundle", "feeds", "budgets", "pictures"}
    assert (place / "net.cpu-int8.fts").exists()


def test_a_verification_that_dies_is_exit_1_and_leaves_nothing(
    place: Path, fts_convert: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_net(place / "net.onnx", TENSOR)
    save_pictures(place / "photos", 4)
    monkeypatch.setattr(verify.sys, "executable", "/bin/false")
    done = fts_convert("net.onnx", "--calib", "photos")
    assert done.code == 1
    assert "verification ended with status 1" in done.err
    assert sorted(path.name for path in place.iterdir()) == ["net.onnx", "photos"]


def test_the_share_is_that_of_the_graph_which_onnxruntime_runs(converted: Converted, tmp_path: Path) -> None:
    """Counted again from the engine in the bundle."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 3
    engine = open_bundle(converted.bundle).read("engines/cpu-int8.onnx")
    onnxruntime.InferenceSession(engine, options, providers=["CPUExecutionProvider"])
    kernels = [n.op_type for n in onnx.load(tmp_path / "optimised.onnx").graph.node]
    report = report_of(converted.bundle)
    assert kernels.count("QLinearConv") == report["kernels"]["QLinearConv"] == 2
    assert report["integer_mac_share"] == 1.0


def test_the_report_accounts_for_every_node_file_and_metric(converted: Converted) -> None:
    report = report_of(converted.bundle)
    portable = onnx.load_from_string(open_bundle(converted.bundle).read("model/portable.onnx"))
    told = [n["name"] for n in report["nodes"]]
    cleaned = [n.name for n in portable.graph.node]
    assert [name for name in told if name in cleaned] == cleaned  # between them what a lowering added
    assert all(n["reason"] and n["precision"] in ("int8", "fp32") for n in report["nodes"])
    files = report["calibration"]["files"]
    assert {f["path"] for f in files} == {p.name for p in converted.photos.iterdir()}
    splits = [f["split"] for f in files]
    assert (splits.count("calibrate"), splits.count("select"), splits.count("verify")) == (4, 2, 2)
    assert all(f["status"] == "used" and len(f["mean_rgb"]) == 3 for f in files)
    assert [(m["split"], m["n"], m["output"]) for m in report["metrics"]] == [("select", 2, "y"), ("verify", 2, "y")]
    assert all(m["tag"] in ("measured", "simulated") for m in report["metrics"])


def test_warnings_reach_stderr_and_the_report_with_the_same_ids(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", TENSOR)
    save_pictures(place / "photos", 4)
    (place / "photos/broken.png").write_bytes(b"no picture")
    done = fts_convert("net.onnx", "--calib", "photos", "-q")
    shown = set(re.findall(r"^fts-convert: warning: \[([a-z-]+)\] ", done.err, flags=re.M))
    assert {"calibration-file-skipped", "default-preprocessing", "output-is-tensor"} <= shown
    assert shown - {"not-faster"} == warning_ids(place / "net.cpu-int8.fts")  # times are no part of a bundle
    (skipped,) = [f for f in report_of(place / "net.cpu-int8.fts")["calibration"]["files"] if f["status"] == "skipped"]
    assert skipped["path"] == "broken.png"
    assert skipped["reason"]


def test_select_decides_by_its_worst_sample(converted: Converted) -> None:
    report = report_of(converted.bundle)
    assert all(m["value"] == m["min"] <= m["mean"] for m in report["metrics"])  # n < 20


def test_a_second_success_replaces_the_bundle_and_its_pictures(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place / "photos", 8)
    assert fts_convert("net.onnx", "--calib", "photos", "-o", "a.fts").code == 0
    first = (place / "a.fts").read_bytes()
    save_pictures(place / "photos", 4, first_seed=90)
    assert fts_convert("net.onnx", "--calib", "photos", "-o", "a.fts").code == 0
    assert (place / "a.fts").read_bytes() != first
    assert {p.name for p in (place / "a.report").iterdir()} == {
        "report.html", "report.json", "speed.json", "timings.json",
        *(f"verify_{i}{role}.png" for i in range(2) for role in ("", "_input", "_fp32", "_engine")),
    }  # fmt: skip


def test_a_net_too_small_to_gain_warns_with_the_reason_and_stays_reproducible(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place / "photos", 8)
    ran = fts_convert("net.onnx", "--calib", "photos")
    assert ran.code == 0
    assert "[not-faster] not shown to be faster than FP32 here: " in ran.err
    assert "of its time are integer kernels" in ran.err
    assert "not-faster" not in warning_ids(place / "net.cpu-int8.fts")  # times are no part of a bundle
    speed = json.loads((place / "net.cpu-int8.report" / "speed.json").read_text())
    assert speed["low"] <= speed["ratio"] <= speed["high"]
    assert speed["low"] <= 1.0


def test_a_speed_that_was_asked_for_and_is_not_there_is_exit_3(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place / "photos", 8)
    ran = fts_convert("net.onnx", "--calib", "photos", "--min-speedup", "1.0")
    assert ran.code == 3
    assert "at least 1 wanted (--min-speedup): " in ran.err
    assert (place / "net.cpu-int8.below-budget.fts").is_file()


@pytest.mark.parametrize("text", ["0", "-1", "fast", "nan", "inf"])
def test_a_speed_that_is_no_ratio_is_refused(text: str, place: Path, fts_convert: Run) -> None:
    ran = fts_convert("net.onnx", "--calib", "photos", f"--min-speedup={text}")
    assert ran.code == 2
    assert "expected a ratio such as 1.0" in ran.err


def test_channels_are_equalized_where_that_scores_better(place: Path, fts_convert: Run) -> None:
    """Channels from 2^-4 to 2^3 share one grid behind the Relu."""
    text = (
        "net (float[1,3,16,16] x) => (float[1,3,16,16] y) "
        "{ a = Conv<pads=[1,1,1,1]>(x, w_in) r = Relu(a) y = Conv<pads=[1,1,1,1]>(r, w_out) }"
    )
    save_net(place / "net.onnx", text)
    save_pictures(place / "photos", 8)
    net = onnx.load(place / "net.onnx")
    spread = np.exp2(np.arange(8, dtype=np.float32) - 4)
    scales = {"w_in": spread.reshape(8, 1, 1, 1), "w_out": 1 / spread.reshape(1, 8, 1, 1)}
    for tensor in net.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * scales[tensor.name], tensor.name))
    onnx.save(net, place / "uneven.onnx")
    done = fts_convert("uneven.onnx", "--calib", "photos", "-o", "uneven.fts", "--budget", "sqnr>=20")
    assert done.code == 0, done.err
    assert "channels equalized: kept" in done.err
    bundle = open_bundle(place / "uneven.fts")
    assert bundle.manifest.provenance["options"]["equalized"] is True
    # The fallback net is the one that came: nothing in it is scaled.
    portable = onnx.load_model_from_string(bundle.read("model/portable.onnx"))
    assert not any("equalized" in t.name for t in portable.graph.initializer)


def test_a_net_without_channels_to_scale_is_converted_as_lowered(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", TENSOR)
    save_pictures(place / "photos", 8)
    assert fts_convert("net.onnx", "--calib", "photos", "-o", "net.fts").code == 0
    assert open_bundle(place / "net.fts").manifest.provenance["options"]["equalized"] is False

"""Nets that come with Q/DQ, from the file to the bundle: the pictures have no say in their scales."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from tests.fts_converters.given_grids.quantized_nets import SIDE, QdqNet, tensorrt
from tests.generators.run_plain import run_plain

import fts
from fts.bundle.archive import open_bundle

from .conftest import Run, report_of
from .nets import TENSOR, save_net, save_pictures

ANY = ("--min-int8", "0")


def black_pictures(folder: Path, count: int = 6) -> Path:
    folder.mkdir()
    for number in range(count):
        picture = np.zeros((SIDE, SIDE, 3), np.uint8)
        picture[0, 0, 0] = number  # no two files alike: copies count once
        cv2.imwrite(str(folder / f"p{number}.png"), picture)
    return folder


def psnr_db(reference: np.ndarray, output: np.ndarray) -> float:
    noise = float(np.mean((reference.astype(np.float64) - output) ** 2))
    return np.inf if noise == 0 else 20 * np.log10(float(np.ptp(reference)) / noise**0.5)


@pytest.mark.parametrize("budget", [(), ("--budget", "none")], ids=["default budget", "no budget"])
@pytest.mark.parametrize("isa", ["any", "vnni"])
def test_black_pictures_spoil_nothing(place: Path, fts_convert: Run, isa: str, budget: tuple[str, ...]) -> None:
    net = tensorrt()
    onnx.save(net, place / "net.onnx")
    black_pictures(place / "black")
    done = fts_convert("net.onnx", "--calib", "black", "--isa", isa, *budget, "-o", "net.fts")
    assert done.code == 0, done.err
    rng = np.random.default_rng(3)
    with fts.load(place / "net.fts", simulate=True) as model:
        for _ in range(4):
            x = rng.random((1, 3, SIDE, SIDE)).astype(np.float32)
            assert psnr_db(run_plain(net, {"x": x})[0], next(iter(model.infer({"x": x}).values()))) > 60
    report = report_of(place / "net.fts")
    assert report["integer_mac_share"] == 1.0
    (warning,) = [w["text"] for w in report["warnings"] if w["id"] == "given-scales-kept"]
    assert "4 activations and 4 constants" in warning
    assert "calibration pictures were not used" in warning
    assert "given-scales-kept" in done.err
    page = place / "net.report" / "report.html"
    assert not page.exists() or "calibration pictures were not used" in page.read_text(encoding="utf-8")


def test_the_bundle_runs_as_an_app_runs_it_where_sums_saturate(place: Path, fts_convert: Run) -> None:
    """Without simulation and without a session option: what --isa any promises of this very machine."""
    net = tensorrt()
    onnx.save(net, place / "net.onnx")
    save_pictures(place / "photos", 6, height=SIDE, width=SIDE)
    assert fts_convert("net.onnx", "--calib", "photos", "--isa", "any", "-o", "net.fts").code == 0
    x = np.ones((1, 3, SIDE, SIDE), np.float32)  # the greatest products there are
    with fts.load(place / "net.fts", strict=True) as model:
        np.testing.assert_allclose(next(iter(model.infer({"x": x}).values())), run_plain(net, {"x": x})[0], atol=1e-5)


def test_reports_count_the_scales_and_name_what_stayed_in_float(place: Path, fts_convert: Run) -> None:
    net = QdqNet(5)
    a = net.op("Relu", [net.conv(net.qdq("x", 1 / 127), 3, 8)])
    plain = net.const((net.rng.standard_normal((3, 8, 3, 3)) * 0.2).astype(np.float32))
    onnx.save(net.model(net.op("Conv", [a, plain], pads=[1] * 4)), place / "net.onnx")
    save_pictures(place / "photos", 6, height=SIDE, width=SIDE)
    done = fts_convert("net.onnx", "--calib", "photos", "-o", "net.fts", *ANY)
    assert done.code == 0, done.err
    report = report_of(place / "net.fts")
    assert report["given_scales"] == {"activations": 1, "constants": 1}
    nodes = {n["name"]: n for n in report["nodes"]}
    assert nodes["Conv_3"]["precision"] == "int8"
    assert "scales that the net came with" in nodes["Conv_3"]["reason"]
    assert nodes["Conv_5"]["precision"] == "fp32"
    assert "came in float and stays so" in nodes["Conv_5"]["reason"]
    manifest = open_bundle(place / "net.fts").manifest
    assert manifest.provenance["calibrator"] == "none: the scales came with the net"


def test_a_float_net_reports_no_given_scales(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", TENSOR)
    save_pictures(place / "photos", 6)
    assert fts_convert("net.onnx", "--calib", "photos", "--budget", "none", *ANY, "-o", "net.fts").code == 0
    report = report_of(place / "net.fts")
    assert report["given_scales"] == {"activations": 0, "constants": 0}
    assert "given-scales-kept" not in {w["id"] for w in report["warnings"]}


def test_inspect_counts_the_scales(place: Path, fts: Run) -> None:
    onnx.save(tensorrt(as_floats=True), place / "net.onnx")
    shown = fts("inspect", "net.onnx")
    assert shown.code == 0, shown.err
    assert "scales     4 activations and 4 constants come with the net" in shown.out
    facts = json.loads(fts("inspect", "net.onnx", "--json").out)
    assert facts["given_scales"] == {"activations": 4, "constants": 4}


def test_an_operator_with_scales_of_the_moment_is_refused(place: Path, fts_convert: Run) -> None:
    net = QdqNet(6)
    net.nodes.append(onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], name="dynamic"))
    w = net.const(np.ones((4, 3, 1, 1), np.int8))
    net.nodes.append(onnx.helper.make_node("ConvInteger", ["q", w, "z"], ["sums"], name="sums"))
    onnx.save(net.model(net.op("Cast", ["sums"], to=1)), place / "net.onnx")
    save_pictures(place / "photos", 6, height=SIDE, width=SIDE)
    done = fts_convert("net.onnx", "--calib", "photos", "-o", "net.fts")
    assert done.code == 2
    assert "node 'dynamic'" in done.err
    assert "DynamicQuantizeLinear" in done.err
    assert not (place / "net.fts").exists()

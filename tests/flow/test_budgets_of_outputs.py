"""A net with several outputs, each held against a budget of its own, from the command line or the card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from .conftest import Run, report_of
from .nets import CONV, save_pictures

# A mask, five points, classes of age and a label, from one feature map.
HEADS = f"""
<ir_version: 8, opset_import: ["": 17]>
net (float[1,3,16,16] x) => (float[1,1,16,16] mask, float[1,10] points, float[1,5] age, float[1,4] label) {{
    a = {CONV}(x, w_in)
    r = Relu(a)
    m = {CONV}(r, w_mask)
    mask = Sigmoid(m)
    p = GlobalAveragePool(r)
    f = Flatten(p)
    points = Gemm(f, w_points)
    g = Gemm(f, w_age)
    age = Softmax(g)
    label = Gemm(f, w_label)
}}"""
CARD = """
[outputs.mask]
budget = "iou>=0.8"
[outputs.points]
budget = "nme<=0.05"
eyes = [0, 1]
[outputs.age]
metric = "age"
ages = [10, 20, 30, 40, 50]
[outputs.label]
metric = "top1"
budget = "drop<=0.5%"
"""


@pytest.fixture
def heads(place: Path) -> Path:
    draw = np.random.default_rng(3)
    model = parser.parse_model(HEADS)
    for name, shape, factor in (
        ("w_in", (16, 3, 3, 3), 0.3), ("w_mask", (1, 16, 3, 3), 0.3), ("w_points", (16, 10), 1.0), ("w_age", (16, 5), 1.0),
        ("w_label", (16, 4), 1.0),
    ):  # fmt: skip
        weights = (draw.standard_normal(shape) * factor).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weights, name))
    onnx.save(model, place / "net.onnx")
    save_pictures(place / "photos", 12)
    (place / "net.toml").write_text(CARD)
    return place


def metrics_of(bundle: Path, split: str = "verify") -> dict[str, dict[str, Any]]:
    return {m["output"]: m for m in report_of(bundle)["metrics"] if m["split"] == split}


def test_the_card_gives_each_output_its_metric(heads: Path, fts_convert: Run) -> None:
    done = fts_convert("net.onnx", "--calib", "photos", "--card", "net.toml")
    assert done.code == 0, done.err
    found = metrics_of(heads / "net.cpu-int8.fts")
    assert {n: m["budget"] for n, m in found.items()} == {
        "mask": "iou>=0.8", "points": "nme<=0.05", "age": "age<=0.5", "label": "drop<=0.5%",
    }  # fmt: skip
    assert all(m["met"] and m["margin_db"] >= 0 and m["n"] == 3 for m in found.values())
    assert found["mask"]["value"] == found["mask"]["min"]
    assert found["points"]["value"] == found["points"]["max"] >= found["points"]["mean"] > 0
    assert found["label"]["value"] == found["label"]["mean"] == 0.0
    low, high = found["points"]["interval"]
    assert 0 <= low <= found["points"]["mean"] <= high
    assert found["label"]["interval"] == [0.0, pytest.approx(0.5615, abs=1e-3)]  # Wilson: 0 of 3
    assert "points: nme max" in done.out


def test_errors_and_decibels_are_judged_together(heads: Path, fts_convert: Run) -> None:
    """The tightest of four conditions is the one that is missed, whatever its unit."""
    budgets = "mask:psnr>=20,points:nme<=0.0001,age:age<=5,label:top1>=50%"
    done = fts_convert("net.onnx", "--calib", "photos", "--card", "net.toml", "--budget", budgets)
    assert done.code == 3
    assert "output 'points': nme<=0.0001 missed on the verify split" in done.err
    assert "output 'mask'" not in done.err
    report = report_of(heads / "net.cpu-int8.below-budget.fts")
    assert report["sensitivity"][0]["output"] == "points"
    assert {m["budget"] for m in report["metrics"]} == {"psnr>=20", "nme<=0.0001", "age<=5", "top1>=0.5"}
    values = [entry["value"] for entry in report["sensitivity"] if entry["output"] == "points"]
    assert values == sorted(values, reverse=True)  # worst first: the greatest error


def test_a_flag_for_every_output_goes_before_the_card_and_a_name_before_that(heads: Path, fts_convert: Run) -> None:
    arguments = ("--budget", "sqnr>=10", "--budget", "mask:psnr>=15,age:none", "--json")
    done = fts_convert("net.onnx", "--calib", "photos", "--card", "net.toml", *arguments)
    assert done.code == 0, done.err
    budgets = {m["output"]: m["budget"] for m in json.loads(done.out)["metrics"]}
    assert budgets == {"mask": "psnr>=15", "points": "sqnr>=10", "label": "sqnr>=10"}


def test_a_rate_that_is_missed_is_repaired(place: Path, fts_convert: Run) -> None:
    """Labels of 256 places; the budget lies half way between all layers in INT8 and none."""
    draw = np.random.default_rng(0)
    layers = 6
    body = "".join(f"c{i} = {CONV}(r{i}, w{i}) r{i + 1} = Relu(c{i})" for i in range(layers))
    text = f"""<ir_version: 8, opset_import: ["": 17]> net (float[1,3,16,16] r0) => (float[1,256,4] label) {{
        {body} k = Constant<value_ints=[1,4,256]>() s = Reshape(r{layers}, k) label = Transpose<perm=[0,2,1]>(s) }}"""
    model = parser.parse_model(text)
    for i in range(layers):
        shape = (8 if i < layers - 1 else 4, 3 if i == 0 else 8, 3, 3)
        weights = (draw.standard_normal(shape) * (2 / np.prod(shape[1:])) ** 0.5).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weights, f"w{i}"))
    onnx.save(model, place / "net.onnx")
    save_pictures(place / "photos", 16)
    everything = json.loads(
        fts_convert("net.onnx", "--calib", "photos", "--budget", "top1>=1%", "--recover", "none", "--json").out
    )
    reached = max(m["value"] for m in everything["metrics"])
    assert reached < 0.999
    wanted = f"top1>={(1 + reached) / 2:.4f}"
    done = fts_convert(
        "net.onnx", "--calib", "photos", "--budget", wanted, "--recover", "none", "--min-int8", "0", "--json"
    )
    assert json.loads(done.out)["metrics"][0]["value"] >= (1 + reached) / 2 - 1e-4, done.err
    assert json.loads(done.out)["integer_mac_share"] > 0.1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--budget", "masks:iou>=0.9"), "the net has no output 'masks' (did you mean 'mask'?); its outputs: mask, points"),
        (("--budget", "iou>=0.9"), "iou does not fit output 'points' of shape 1x10"),
        (("--budget", "points:nme>=0.9"), "of nme less is better"),
        (("--budget", "label:drop<=1%"), "drop does not fit output 'label' of shape 1x4: a drop is one of"),
        (("--budget", "mask:none,points:none,age:none,label:none"), "no output is left to judge"),
        (("--budget", "label:age<=1"), "output 'label'"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_exit_2(heads: Path, fts_convert: Run, arguments: tuple[str, ...], says: str) -> None:
    done = fts_convert("net.onnx", "--calib", "photos", *arguments)
    assert done.code == 2
    assert says in done.err
    assert not list(heads.glob("*.fts"))


def test_a_card_that_does_not_fit_names_itself(heads: Path, fts_convert: Run) -> None:
    (heads / "net.toml").write_text('[outputs.points]\nbudget = "nme<=0.05"\neyes = [0, 7]\n')
    done = fts_convert("net.onnx", "--calib", "photos", "--card", "net.toml")
    assert done.code == 2
    assert "card, nme does not fit output 'points' of shape 1x10: the card's eyes name point 7 of 5" in done.err

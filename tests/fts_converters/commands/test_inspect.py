"""fts inspect on a model and on a bundle."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

from fts.imaging.decode import write_image
from fts_converters.commands import main_convert, main_fts

# 3x3 convolution, 2 -> 4 channels would be 72 weights; here 3 -> 4: 108. MACs at 8x8: 4 * 8 * 8 * 27 = 6912.
WEIGHTS = ", ".join(["0.5"] * 108)
NET = f"""<ir_version: 8, opset_import: ["" : 13]>
net (float[1,3,h,w] x) => (float[1,4,h,w] y)
<float[4,3,3,3] w = {{{WEIGHTS}}}> {{
  c = Identity (x)
  [conv] y = Conv <pads = [1, 1, 1, 1]> (c, w)
}}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(parser.parse_model(NET).SerializeToString())
    return path


def test_a_model_shows_macs_and_parameters_before_and_after_cleaning(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main_fts(["inspect", str(model), "--shape", "x=1x3x8x8", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["before"]["macs_unknown_nodes"] == 1
    assert facts["after"]["macs"] == 6912
    assert facts["after"]["parameters"] == 108
    assert facts["inputs"] == [{"name": "x", "dtype": "float32", "shape": [1, 3, "h", "w"]}]


def test_a_raised_opset_is_shown_and_can_be_turned_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gelu.onnx"
    text = """<ir_version: 8, opset_import: ["" : 13]> g (float[1,3,h,w] x) => (float[1,3,h,w] y)
        <float root = {1.41421356}, float one = {1.0}, float half = {0.5}>
        { a = Div(x, root) e = Erf(a) p = Add(e, one) q = Mul(x, p) y = Mul(q, half) }"""
    path.write_bytes(parser.parse_model(text).SerializeToString())
    assert main_fts(["inspect", str(path), "--shape", "x=1x3x8x8"]) == 0
    assert "opset      13 -> 20, for operators that are newer" in capsys.readouterr().out
    assert main_fts(["inspect", str(path), "--shape", "x=1x3x8x8", "--skip-pass", "raise_opset", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["opset"], facts["opset_after"]) == (13, 13)
    (reason,) = (r["reason"] for p in facts["passes"] for r in p["refusals"])
    assert reason == "GELU: its operator exists from opset 20 on, the net has 13"


def test_a_model_of_unknown_size_says_what_is_lacking_and_still_shows_the_rest(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main_fts(["inspect", str(model)]) == 0
    text = capsys.readouterr().out
    assert "not cleaned: shapes must be known" in text
    assert "108 parameters" in text


def test_a_bundle_shows_engines_quality_and_every_node_with_its_reason(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calib = tmp_path / "calib"
    calib.mkdir()
    rng = np.random.default_rng(0)
    for i in range(4):
        write_image(calib / f"{i}.png", rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
    bundle = tmp_path / "net.fts"
    convert = [str(model), "--target", "cpu-int8", "--calib", str(calib), "--shape", "x=1x3x8x8", "--no-cache", "-q"]
    assert main_convert([*convert, "-o", str(bundle)]) == 0
    capsys.readouterr()
    assert main_fts(["inspect", str(bundle), "--nodes"]) == 0
    text = capsys.readouterr().out
    assert "target     cpu-int8" in text
    assert "engines/cpu-int8.onnx" in text
    assert "quality    sqnr>=20 (default): met" in text
    assert "integer kernel" in text
    assert main_fts(["inspect", str(bundle), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["target"] == "cpu-int8"


LACKING = """<ir_version: 10, opset_import: ["" : 21]>
net (float[1,4,6,6] x) => (float[1,4,12,12] y, float[1,4,6,6] z)
<float[4] s = {1, 2, 3, 4}, float[4] b = {0, 0, 1, 1}, float[4] f = {1, 1, 2, 2}, int64 d = {0}> {
  [norm] n = GroupNormalization <num_groups = 2> (x, s, b)
  [up] y = Resize <mode = "cubic"> (n, , f)
  [erf] z = Erf (x)
}"""


def test_an_engine_shows_what_is_replaced_and_what_would_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(parser.parse_model(LACKING).SerializeToString())
    assert main_fts(["inspect", str(path), "--engine", "qnn-htp"]) == 0
    text = capsys.readouterr().out
    assert "replaced   up: Resize: mode is cubic; taken: nearest, linear" in text
    assert "lacking    erf: Erf: it has no Erf; would work: Gelu as one operator; or this node on the CPU" in text
    assert "norm:" not in text
    assert main_fts(["inspect", str(path), "--engine", "litert-cpu", "--json"]) == 0
    engine = json.loads(capsys.readouterr().out)["engine"]
    assert [n["node"] for n in engine["lowered"]] == ["norm", "up"]
    assert [(n["node"], n["op_type"]) for n in engine["lacking"]] == [("erf", "Erf")]
    assert main_fts(["inspect", str(path), "--engine", "onnxruntime-cpu"]) == 0
    assert "lacking    nothing that is known" in capsys.readouterr().out


def test_an_unknown_engine_is_wrong_input(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_fts(["inspect", str(model), "--engine", "qnn-hpt"]) == 2
    assert "did you mean 'qnn-htp'?" in capsys.readouterr().err
    assert main_fts(["inspect", "net.fts", "--engine", "qnn-htp"]) == 2


@pytest.mark.parametrize("command", ["check", "inspect"])
def test_a_missing_file_is_wrong_input(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_fts([command, str(tmp_path / "none.fts")]) == 2
    assert "none.fts" in capsys.readouterr().err

"""Nets of every shape and type convert, or end in a clear no; none crashes, and none changes its contract."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import fts
from fts.bundle.archive import open_bundle
from fts.engines.onnxruntime_session import open_session

from .conftest import Run, report_of
from .nets import CONV, PICTURE, TENSOR, save_feeds, save_net, save_pictures, smooth_picture, weights

IN, OUT = "float[1,3,16,16] x", "float[1,3,16,16] y"


# Where a thousandth place of y is odd: as many places as chance wants, so that rounding changes how many.
ODD_PLACES = """many = Constant<value_float=1000.0>() half = Constant<value_float=0.5>()
    a = Mul(y, many) f = Floor(a) h = Mul(f, half) g = Floor(h) odd = Sub(h, g) where = NonZero(odd)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A net, how its conversion ends, and the outputs its bundle declares: name, type, kind."""

    id: str
    text: str
    code: int
    outputs: tuple[tuple[str, str, str], ...]
    opset: int = 17
    cast: str = "float32"


Y = ("y", "float32", "tensor")
KINDS = (
    Kind(
        id="batch-dynamic",
        text=TENSOR.replace("float[1,", "float[batch,"),
        code=0,
        outputs=(Y,),
    ),
    Kind(
        id="grey",
        text=f"net (float[1,1,16,16] x) => (float[1,1,16,16] y) {{ y = {CONV}(x, w_one) }}",
        code=0,
        outputs=(("y", "float32", "image"),),
    ),
    Kind(
        id="several-outputs-of-several-types",
        text=f"""net ({IN}) => ({OUT}, bool[1,3,16,16] positive, int64[1,16,16] best) {{
            y = {CONV}(x, w)
            zero = Constant<value_float=0.0>()
            positive = Greater(y, zero)
            best = ArgMax<axis=1, keepdims=0>(y)
        }}""",
        code=0,
        outputs=(Y, ("positive", "bool", "tensor"), ("best", "int64", "tensor")),
    ),
    Kind(
        id="only-a-bool-output",
        text=f"""net ({IN}) => (bool[1,3,16,16] y) {{
            a = {CONV}(x, w) zero = Constant<value_float=0.0>() y = Greater(a, zero) }}""",
        code=0,
        outputs=(("y", "bool", "tensor"),),
    ),
    Kind(
        id="only-an-integer-output",
        text=f"net ({IN}) => (int64[1,16,16] y) {{ a = {CONV}(x, w) y = ArgMax<axis=1, keepdims=0>(a) }}",
        code=0,
        outputs=(("y", "int64", "tensor"),),
    ),
    Kind(
        id="output-without-axes",
        text=f"net ({IN}) => (float y) {{ a = {CONV}(x, w) y = ReduceMean<keepdims=0>(a) }}",
        code=0,
        outputs=(Y,),
    ),
    Kind(
        id="output-is-an-input",
        text=f"net ({IN}) => ({IN}, {OUT}) {{ y = {CONV}(x, w) }}",
        code=0,
        outputs=(("x", "float32", "image"), Y),
    ),
    Kind(
        id="output-is-a-weight",
        text=f"net ({IN}) => ({OUT}, float[3,3,3,3] w) {{ y = {CONV}(x, w) }}",
        code=0,
        outputs=(Y, ("w", "float32", "tensor")),
    ),
    Kind(
        id="constant-output",
        text=f"net ({IN}) => ({OUT}) {{ a = {CONV}(x, w) none = Constant<value_float=0.0>() y = Mul(a, none) }}",
        code=0,
        outputs=(Y,),
    ),
    Kind(
        id="half-inside",
        text=f"net ({IN}) => ({OUT}) {{ a = Cast<to=10>(x) b = {CONV}(a, w) y = Cast<to=1>(b) }}",
        code=0,
        outputs=(Y,),
        cast="float16",
    ),
    Kind(
        id="half",
        text=TENSOR.replace("float[", "float16["),
        code=0,
        outputs=(("y", "float16", "tensor"),),
        cast="float16",
    ),
    Kind(
        id="double",
        text=TENSOR.replace("float[", "double["),
        code=0,
        outputs=(("y", "float64", "tensor"),),
        cast="float64",
    ),
    Kind(
        id="half-picture",
        text=PICTURE.replace("float[", "float16["),
        code=0,
        outputs=(("y", "float16", "image"),),
        cast="float16",
    ),
    Kind(id="no-mac-at-all", text=f"net ({IN}) => ({OUT}) {{ y = Relu(x) }}", code=3, outputs=(("y", "float32", "image"),)),
    Kind(id="no-node-at-all", text=f"net ({IN}) => ({IN}) {{ }}", code=3, outputs=(("x", "float32", "image"),)),
    Kind(
        id="shape-depends-on-data",
        text=f"""net ({IN}) => ({OUT}, int64[4,count] where) {{
            y = {CONV}(x, w) {ODD_PLACES} }}""",
        code=3,
        outputs=(Y, ("where", "int64", "tensor")),
    ),
    Kind(
        id="branches",
        text=f"""net ({IN}) => ({OUT}) {{
            mean = ReduceMean<keepdims=0>(x) half = Constant<value_float=0.5>() bright = Greater(mean, half)
            y = If<then_branch = a () => (float[1,3,16,16] p) {{ p = {CONV}(x, w) }},
                   else_branch = b () => (float[1,3,16,16] q) {{ q = Relu(x) }}>(bright) }}""",
        code=3,
        outputs=(("y", "float32", "image"),),
    ),
    Kind(
        id="sequence-inside",
        text=f"""net ({IN}) => ({OUT}) {{
            a = {CONV}(x, w) s = SequenceConstruct(a) first = Constant<value_int=0>() y = SequenceAt(s, first) }}""",
        code=0,
        outputs=(Y,),
    ),
    Kind(id="old-opset", text=TENSOR, code=0, outputs=(Y,), opset=11),
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.id)
def test_converts_or_says_no_and_keeps_its_contract(kind: Kind, place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", kind.text, kind.opset, kind.cast)
    save_pictures(place / "photos", 4)
    done = fts_convert("net.onnx", "--calib", "photos")
    assert done.code == kind.code, done.err
    bundle = place / ("net.cpu-int8.fts" if kind.code == 0 else "net.cpu-int8.below-budget.fts")
    manifest = open_bundle(bundle).manifest
    assert tuple((o.name, o.spec.dtype, o.kind) for o in manifest.outputs) == kind.outputs
    assert all(n["reason"] for n in report_of(bundle)["nodes"])
    (entry,) = manifest.inputs
    feed = {"x": np.random.default_rng(4).random(entry.spec.static_shape).astype(entry.spec.dtype)}
    portable = open_session(open_bundle(bundle).read("model/portable.onnx"))
    with fts.load(bundle, simulate=True, allow_below_budget=True) as model:
        results = model.infer(feed)
    for name, expected in zip(portable.output_names, portable.run(feed), strict=True):
        assert results[name].dtype == expected.dtype
        assert results[name].ndim == expected.ndim


def test_a_net_without_macs_converts_when_no_share_is_asked_for(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", f"net ({IN}) => ({OUT}) {{ y = Relu(x) }}")
    save_pictures(place / "photos", 4)
    refused = fts_convert("net.onnx", "--calib", "photos")
    assert refused.code == 3
    assert "--min-int8 0 accepts that" in refused.err
    done = fts_convert("net.onnx", "--calib", "photos", "--min-int8", "0")
    assert done.code == 0, done.err
    assert "[nothing-int8]" in done.err


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_a_net_of_another_float_type_becomes_int8_and_keeps_its_inputs_and_outputs(
    dtype: str, place: Path, fts_convert: Run
) -> None:
    text = PICTURE.replace("float[", {"float16": "float16[", "float64": "double["}[dtype])
    save_net(place / "net.onnx", text, cast=dtype)
    save_pictures(place / "photos", 8)
    done = fts_convert("net.onnx", "--calib", "photos")
    assert done.code == 0, done.err
    # onnxruntime's CPU provider has no float64 convolution, so that such a net cannot be compared with itself.
    assert ("[not-compared]" in done.err) == (dtype == "float64")
    report = report_of(place / "net.cpu-int8.fts")
    assert report["integer_mac_share"] == 1.0
    assert [n["precision"] for n in report["nodes"] if n["op_type"] == "Conv"] == ["int8", "int8"]
    wide = onnx.load(save_net(place / "float32.onnx", PICTURE))
    for weight in wide.graph.initializer:  # the same weights, as rounded to the type
        rounded = numpy_helper.to_array(weight).astype(dtype).astype(np.float32)
        weight.CopyFrom(numpy_helper.from_array(rounded, weight.name))
    frame = smooth_picture(77)
    with fts.load("net.cpu-int8.fts", simulate=True) as model:
        ((entry,), (out,)) = model.inputs, model.outputs
        assert (entry.spec.dtype, out.spec.dtype) == (dtype, dtype)
        result = model(frame)
        feed = np.random.default_rng(4).random((1, 3, 16, 16)).astype(dtype)
        tensor = model.infer({"x": feed})["y"]
        assert tensor.dtype == np.dtype(dtype)
        (expected,) = open_session(wide.SerializeToString()).run({"x": feed.astype(np.float32)})
        assert 10 * np.log10(1 / np.mean((tensor.astype(np.float64) - expected) ** 2)) > 35
    assert result.tensors["y"].dtype == np.dtype(dtype)
    assert result.image.shape == frame.shape


def test_why_a_double_net_stays_in_doubles_is_a_warning(place: Path, fts_convert: Run) -> None:
    text = """net (double[1,4] x) => (double[1,3] y) { a = Mul(x, huge) b = Mul(a, tiny) y = Gemm(b, k) }"""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]>{text}')
    numbers = {"huge": np.float64(1e300), "tiny": np.float64(1e-300), "k": np.ones((4, 3))}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in numbers.items())
    onnx.save(model, place / "net.onnx")
    save_feeds(place / "feeds", 4, {"x": (1, 4)}, dtype="float64")
    done = fts_convert("net.onnx", "--calib", "feeds")
    assert done.code == 3
    assert "[not-widened] Gemm 'y' stays in float64" in done.err
    assert "1e+300, beyond float32" in done.err


def test_an_output_whose_shape_differs_from_fp32_has_lost_all(place: Path, fts_convert: Run) -> None:
    text = f"net ({IN}) => (int64[4,count] where) {{ y = {CONV}(x, w) {ODD_PLACES} }}"
    save_net(place / "net.onnx", text)
    save_pictures(place / "photos", 4)
    done = fts_convert("net.onnx", "--calib", "photos", "--json")
    assert done.code == 3
    assert [m["min"] for m in json.loads(done.out)["metrics"]] == [-120.0, -120.0]


@pytest.mark.parametrize("spelling", ["value_float=2.0", "value_floats=[2.0]", "value={2.0}"])
def test_constants_mean_the_same_however_they_are_spelled(spelling: str, place: Path, fts_convert: Run) -> None:
    spelled = "value=float {2.0}" if spelling.startswith("value={") else spelling
    save_net(
        place / "net.onnx", f"net ({IN}) => ({OUT}) {{ a = {CONV}(x, w) k = Constant<{spelled}>() y = Mul(a, k) }}"
    )
    save_pictures(place / "photos", 4)
    done = fts_convert("net.onnx", "--calib", "photos")
    assert done.code == 0, done.err
    portable = open_session(open_bundle(place / "net.cpu-int8.fts").read("model/portable.onnx"))
    original = open_session((place / "net.onnx").read_bytes())
    feed = {"x": np.random.default_rng(4).random((1, 3, 16, 16)).astype(np.float32)}
    np.testing.assert_allclose(portable.run(feed)[0], original.run(feed)[0], rtol=0, atol=1e-5)  # float32 sums of 27


def test_an_unused_tensor_input_stays_and_can_be_left_out(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", f"net ({IN}, float[1,4] unused) => ({OUT}) {{ y = {CONV}(x, w) }}")
    save_pictures(place / "photos", 4)
    (place / "card.toml").write_text("[inputs.unused]\nvalue = 0.0\n")
    done = fts_convert("net.onnx", "--calib", "photos", "--card", "card.toml")
    assert done.code == 0, done.err
    feed = np.zeros((1, 3, 16, 16), np.float32)
    with fts.load("net.cpu-int8.fts", simulate=True) as model:
        assert [i.name for i in model.inputs] == ["x", "unused"]
        assert model.infer({"x": feed})["y"].shape == feed.shape


def test_an_unused_input_can_be_frozen_away(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", f"net ({IN}, float[1,4] unused) => ({OUT}) {{ y = {CONV}(x, w) }}")
    save_pictures(place / "photos", 4)
    (place / "card.toml").write_text("[inputs.unused]\nvalue = 0.0\nfreeze = true\n")
    done = fts_convert("net.onnx", "--calib", "photos", "--card", "card.toml")
    assert done.code == 0, done.err
    with fts.load("net.cpu-int8.fts", simulate=True) as model:
        assert [i.name for i in model.inputs] == ["x"]


def test_bytes_in_and_bytes_out_stay_bytes_with_channels_last(place: Path, fts_convert: Run) -> None:
    text = f"""net (uint8[1,16,16,3] image) => (uint8[1,16,16,3] styled) {{
        f = Cast<to=1>(image) full = Constant<value_float=255.0>() unit = Div(f, full)
        p = Transpose<perm=[0,3,1,2]>(unit)
        a = {CONV}(p, w) s = Sigmoid(a)
        q = Transpose<perm=[0,2,3,1]>(s) m = Mul(q, full) r = Round(m) styled = Cast<to=2>(r)
    }}"""
    save_net(place / "net.onnx", text)
    save_pictures(place / "photos", 8)
    done = fts_convert("net.onnx", "--calib", "photos")
    assert done.code == 0, done.err
    with fts.load("net.cpu-int8.fts", simulate=True) as model:
        (entry,), (out,) = model.inputs, model.outputs
        assert (entry.spec.dtype, entry.spec.shape, entry.kind) == ("uint8", (1, 16, 16, 3), "image")
        assert (out.spec.dtype, out.spec.shape, out.kind, out.range) == ("uint8", (1, 16, 16, 3), "image", (0.0, 255.0))
        assert entry.preprocessing is not None
        assert entry.preprocessing.scale == 1.0
        frame = np.random.default_rng(6).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        result = model(frame)
        assert result.tensors["styled"].dtype == np.uint8
        assert result.image.shape == frame.shape
        portable = open_session(open_bundle("net.cpu-int8.fts").read("model/portable.onnx"))
        (expected,) = portable.run({"image": np.ascontiguousarray(frame[None, ..., ::-1])})
    # F47: within 16 levels of FP32
    assert np.abs(result.tensors["styled"].astype(int) - expected.astype(int)).max() <= 16


def test_raw_bytes_calibrate_a_net_of_bytes(place: Path, fts_convert: Run) -> None:
    text = f"net (uint8[1,3,16,16] x) => ({OUT}) {{ f = Cast<to=1>(x) y = {CONV}(f, w) }}"
    save_net(place / "net.onnx", text)
    save_feeds(place / "feeds", 4, {"x": (1, 3, 16, 16)}, dtype="uint8")
    done = fts_convert("net.onnx", "--calib", "feeds")
    assert done.code == 0, done.err


def test_functions_of_the_model_are_written_out_and_quantized(place: Path, fts_convert: Run) -> None:
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17, "local": 1]>
        net ({IN}, float[3,3,3,3] w) => ({OUT}) {{ y = local.block(x, w) }}
        <opset_import: ["": 17], domain: "local"> block (a, b) => (c) {{ d = {CONV}(a, b) c = Relu(d) }}""")
    del model.graph.input[1]
    model.graph.initializer.append(numpy_helper.from_array(weights()["w"], "w"))
    onnx.save(model, place / "net.onnx")
    save_pictures(place / "photos", 4)
    done = fts_convert("net.onnx", "--calib", "photos")
    assert done.code == 0, done.err
    report = report_of(place / "net.cpu-int8.fts")
    assert report["integer_mac_share"] == 1.0
    assert {n["op_type"] for n in report["nodes"]} == {"Conv", "Relu"}


def test_nodes_of_one_name_are_told_apart(place: Path, fts_convert: Run) -> None:
    path = save_net(place / "net.onnx", f"net ({IN}) => ({OUT}) {{ a = {CONV}(x, w) y = {CONV}(a, w) }}")
    model = onnx.load(path)
    for node in model.graph.node:
        node.name = "conv"
    onnx.save(model, path)
    save_pictures(place / "photos", 4)
    done = fts_convert("net.onnx", "--calib", "photos")
    assert done.code == 0, done.err
    assert [n["name"] for n in report_of(place / "net.cpu-int8.fts")["nodes"]] == ["conv", "conv#2"]


def test_an_input_without_axes_keeps_its_shape(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", f"net ({IN}, float strength) => ({OUT}) {{ a = {CONV}(x, w) y = Mul(a, strength) }}")
    save_feeds(place / "feeds", 4, {"x": (1, 3, 16, 16), "strength": ()})
    done = fts_convert("net.onnx", "--calib", "feeds")
    assert done.code == 0, done.err
    with fts.load("net.cpu-int8.fts", simulate=True) as model:
        assert model.inputs[1].shape == ()
        frame = np.zeros((16, 16, 3), np.uint8)
        assert model(frame, inputs={"strength": 0.5}).tensors["y"].shape == (1, 3, 16, 16)


@pytest.mark.parametrize("names", [("in/put:0", "out/put:0"), ("../x", "../../y"), ("x=1", 'y"q'), ("ü x", "日本")])
def test_any_names_of_tensors_reach_the_app(names: tuple[str, str], place: Path, fts_convert: Run) -> None:
    path = save_net(place / "net.onnx", TENSOR)
    model = onnx.load(path)
    model.graph.input[0].name = model.graph.node[0].input[0] = names[0]
    model.graph.output[0].name = model.graph.node[0].output[0] = names[1]
    onnx.save(model, path)
    save_pictures(place / "photos", 4)
    done = fts_convert("net.onnx", "--calib", "photos")
    assert done.code == 0, done.err
    with fts.load("net.cpu-int8.fts", simulate=True) as loaded:
        assert set(loaded.infer({names[0]: np.zeros((1, 3, 16, 16), np.float32)})) == {names[1]}
    assert {p.name for p in place.iterdir()} == {"net.onnx", "photos", "net.cpu-int8.fts", "net.cpu-int8.report"}

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from tests.generators.run_plain import run_plain

from fts.engines.onnxruntime_session import open_session
from fts.errors import ModelFileError, NonFiniteValueError
from fts_converters.load import load_model

TEXT = "g (float[2,32] x) => (float[2,32] y) { a = MatMul(x,w) y = Add(a,b) }"
WEIGHT = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
BIAS = np.random.default_rng(1).standard_normal(32).astype(np.float32)
X = np.random.default_rng(2).standard_normal((2, 32)).astype(np.float32)


def net(text: str = TEXT, opset: int = 17, **constants: np.ndarray) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    constants = constants or {"w": WEIGHT, "b": BIAS}
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in constants.items())
    return model


def move_out(tensor: TensorProto, data: bytearray) -> None:
    """The tensor's bytes to the end of a data file, as an exporter does."""
    for key, value in (("location", "net.data"), ("offset", len(data)), ("length", len(tensor.raw_data))):
        tensor.external_data.add(key=key, value=str(value))
    data += tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL


def save(folder: Path, model: onnx.ModelProto, *tensors: TensorProto) -> str:
    data = bytearray()
    for tensor in tensors or model.graph.initializer:
        move_out(tensor, data)
    (folder / "net.data").write_bytes(data)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    return str(folder / "net.onnx")


def entry(tensor: TensorProto, key: str) -> onnx.StringStringEntryProto:
    return next(e for e in tensor.external_data if e.key == key)


def assert_same(path: str, before: onnx.ModelProto, feed: dict[str, np.ndarray]) -> None:
    loaded = load_model(path)
    light = loaded.to_light()
    ours = open_session(light.proto.SerializeToString(), weights=light.weights, threads=1).run(feed)
    for a, b in zip(run_plain(before, feed), ours, strict=True):
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-5 * np.ptp(a))


def copy_of(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(model.SerializeToString())


def test_large_and_small_tensors_are_read(tmp_path):
    model = net()
    assert_same(save(tmp_path, copy_of(model)), model, {"x": X})


def test_large_values_stay_out_of_the_message(tmp_path):
    light = load_model(save(tmp_path, net())).to_light()
    assert set(light.weights) == {"w"}
    np.testing.assert_array_equal(light.weights["w"], WEIGHT)


@pytest.mark.parametrize(
    "place", ["constant node", "constant node that is an output", "subgraph", "function", "integers"]
)
def test_external_data_is_read_in_every_place_of_a_model(tmp_path, place):
    feed = {"x": X}
    if place.startswith("constant node"):
        model = net(TEXT.replace("{ a", "{ w = Constant<value = float[1] {0.0}>() a"), b=BIAS)
        model.graph.node[0].attribute[0].t.CopyFrom(numpy_helper.from_array(WEIGHT))
        if place.endswith("output"):
            model.graph.output.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [32, 32]))
        moved = copy_of(model)
        tensor = moved.graph.node[0].attribute[0].t
    elif place == "subgraph":
        text = """g (float[2,32] x, bool c) => (float[2,32] y) {
            y = If (c) <then_branch = t () => (float[2,32] p) { p = MatMul(x,w) },
                        else_branch = e () => (float[2,32] q) { q = Identity(x) }> }"""
        model = net(text, b=BIAS)
        model.graph.node[0].attribute[0].g.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
        feed["c"] = np.array(True)
        moved = copy_of(model)
        tensor = moved.graph.node[0].attribute[0].g.initializer[0]
    elif place == "function":
        model = parser.parse_model(
            """<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[2,32] x) => (float[2,32] y) { y = own.f(x) }
            <domain: "own", opset_import: ["" : 17]> f (a) => (c) { k = Constant<value = float[1] {0.0}>() c = MatMul(a,k) }"""
        )
        model.functions[0].node[0].attribute[0].t.CopyFrom(numpy_helper.from_array(WEIGHT))
        moved = copy_of(model)
        tensor = moved.functions[0].node[0].attribute[0].t
    else:
        model = net("g (float[400] x) => (float[400] y) { y = Gather(x,i) }", i=np.arange(400)[::-1].copy())
        feed = {"x": np.arange(400, dtype=np.float32)}
        moved = copy_of(model)
        tensor = moved.graph.initializer[0]
    assert_same(save(tmp_path, moved, tensor), model, feed)


def test_an_old_opset_is_raised_and_compared_with(tmp_path):
    model = net(TEXT.replace("y = Add(a,b)", "d = Add(a,b) y = Clip<min=-0.5,max=0.5>(d)"), opset=9)
    path = save(tmp_path, copy_of(model))
    loaded = load_model(path)
    assert loaded.opset == 13
    assert loaded.original is not None
    assert loaded.original.weights["w"] is loaded.to_light().weights["w"]
    assert_same(path, model, {"x": X})


@pytest.mark.parametrize("tensor", ["w", "b"])
def test_the_digest_depends_on_external_values(tmp_path, tensor):
    folders = [tmp_path / str(i) for i in range(3)]
    for folder in folders:
        folder.mkdir()
    values = {"w": WEIGHT, "b": BIAS}
    changed = values | {tensor: values[tensor] + np.float32(1)}
    digests = [
        load_model(save(f, net(**v))).source_sha256 for f, v in zip(folders, (values, values, changed), strict=True)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_a_file_that_changes_after_loading_changes_nothing(tmp_path):
    loaded = load_model(save(tmp_path, net()))
    (tmp_path / "net.data").write_bytes(b"")
    np.testing.assert_array_equal(loaded.to_light().weights["w"], WEIGHT)


def test_nan_are_found_in_external_weights(tmp_path):
    weight = WEIGHT.copy()
    weight[3, 4] = np.nan
    with pytest.raises(NonFiniteValueError, match=r"tensor 'w' \(read by MatMul 'a'\): 1 of 1024 weights are NaN"):
        load_model(save(tmp_path, net(w=weight, b=BIAS)))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("offset", "-4", r"offset '-4'"),
        ("offset", "four", r"offset 'four'"),
        ("offset", "132", r"bytes 132 to 4228 of 'net\.data', which has 4224 bytes"),
        ("offset", str(2**62), r"of 'net\.data', which has 4224 bytes"),
        ("length", "4092", r"length '4092', expected .*4096 bytes for shape \(32, 32\) of FLOAT"),
        ("length", str(2**40), r"length '1099511627776', expected"),
    ],
)
def test_a_place_that_does_not_fit_is_named(tmp_path, key, value, message):
    model = net()
    path = Path(save(tmp_path, model))
    entry(model.graph.initializer[0], key).value = value
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelFileError, match=rf"tensor 'w': its external data cannot be read: .*{message}"):
        load_model(str(path))


def test_offset_and_length_may_be_left_out(tmp_path):
    model = net()
    path = Path(save(tmp_path, model))
    kept = [e for e in model.graph.initializer[0].external_data if e.key == "location"]
    del model.graph.initializer[0].external_data[:]
    model.graph.initializer[0].external_data.extend(kept)
    path.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(load_model(str(path)).to_light().weights["w"], WEIGHT)


@pytest.mark.parametrize("form", ["short", "missing", "folder"])
def test_a_data_file_that_is_not_whole_is_named(tmp_path, form):
    path = save(tmp_path, net())
    data = tmp_path / "net.data"
    data.unlink()
    if form == "short":
        data.write_bytes(WEIGHT.tobytes()[:-1])
    elif form == "folder":
        data.mkdir()
    with pytest.raises(ModelFileError, match=r"tensor 'w': its external data cannot be read: .*'net\.data'"):
        load_model(path)


@pytest.mark.parametrize("change", ["type", "dims"])
def test_a_tensor_without_a_size_is_refused(tmp_path, change):
    model = net()
    path = Path(save(tmp_path, model))
    if change == "type":
        model.graph.initializer[0].data_type = 99
    else:
        model.graph.initializer[0].dims[0] = -32
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelFileError, match=r"tensor 'w'.*says no number of bytes"):
        load_model(str(path))


def test_a_location_that_no_file_can_have_is_refused(tmp_path):
    model = net()
    path = Path(save(tmp_path, model))
    entry(model.graph.initializer[0], "location").value = "net\0.data"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelFileError, match="was not opened"):
        load_model(str(path))

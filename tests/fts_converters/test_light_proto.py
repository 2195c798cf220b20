from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from tests.generators.run_plain import run_plain

from fts.engines.onnxruntime_session import open_session
from fts.errors import ModelError
from fts_converters import light_proto
from fts_converters.light_proto import LARGE_BYTES, LightProto, light_from_proto
from fts_converters.model import Model, model_from_light, model_from_proto
from fts_converters.passes.fold_constants import fold_constants

X = np.random.default_rng(1).standard_normal((2, 32)).astype(np.float32)
TWO = "g (float[2,32] x) => (float[2,32] y) { a = MatMul(x,w) b = Relu(a) y = MatMul(b,v) }"
SQUARE = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)


def net(text: str, opset: int = 17, **constants: np.ndarray) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items())
    return model


def copy_of(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(model.SerializeToString())


def as_model(model: onnx.ModelProto) -> Model:
    return model_from_light(light_from_proto(copy_of(model)), source="net.onnx", source_sha256="")


def run(light: LightProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    return open_session(light.proto.SerializeToString(), weights=light.weights, threads=1).run(feed)


def test_large_weights_leave_the_message_and_come_back():
    model = net(TWO, w=SQUARE, v=SQUARE + 1)
    light = light_from_proto(copy_of(model))
    assert set(light.weights) == {"w", "v"}
    assert light.proto.ByteSize() < LARGE_BYTES
    assert abs(light.size_bytes - model.ByteSize()) < 100
    assert light.whole("net") == model


@pytest.mark.parametrize(
    "values",
    [np.ones(LARGE_BYTES // 4, np.float32), np.arange(4000), np.ones(4000, np.int32), np.ones(4000, np.int8)],
    ids=["small", "int64", "int32", "int8"],
)
def test_small_ones_and_integers_stay(values):
    light = light_from_proto(net("g (float[1] x) => (float[1] y) { y = Identity(x) }", k=values))
    assert light.weights == {}
    np.testing.assert_array_equal(numpy_helper.to_array(light.proto.graph.initializer[0]), values)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_onnxruntime_computes_on_the_arrays_themselves(dtype):
    text = TWO.replace("float[", {2: "float16[", 4: "float[", 8: "double["}[np.dtype(dtype).itemsize])
    model = net(text, w=(SQUARE / 32).astype(dtype), v=(SQUARE / 32).astype(dtype))
    light = light_from_proto(copy_of(model))
    whole = open_session(model.SerializeToString(), threads=1).run({"x": X.astype(dtype)})
    np.testing.assert_array_equal(run(light, {"x": X.astype(dtype)})[0], whole[0])


def test_the_digest_depends_on_nodes_names_and_every_value():
    base = net(TWO, w=SQUARE, v=SQUARE)
    one = SQUARE.copy()
    one[31, 31] += 1
    others = [
        net(TWO, w=one, v=SQUARE),
        net(TWO, w=SQUARE, v=one),
        net(TWO.replace("Relu", "Abs"), w=SQUARE, v=SQUARE),
        net(TWO, w=SQUARE, v=SQUARE.T),
    ]
    digests = [light_from_proto(copy_of(m)).sha256() for m in (base, base, *others)]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 5


def test_a_whole_above_the_limit_of_a_message_is_refused(monkeypatch):
    light = light_from_proto(net(TWO, w=SQUARE, v=SQUARE))
    monkeypatch.setattr(light_proto, "LIMIT_BYTES", 4096)
    with pytest.raises(ModelError, match=r"the FP32 net: \d+ bytes, .* at most 4096"):
        light.whole("the FP32 net")


def test_data_that_do_not_fill_the_shape_are_refused():
    model = net(TWO, w=SQUARE, v=SQUARE)
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-4]
    with pytest.raises(ModelError, match="tensor 'w': its data do not fill its shape"):
        light_from_proto(model)


def test_the_graph_and_both_forms_share_one_array():
    light = light_from_proto(net(TWO, w=SQUARE, v=SQUARE + 1))
    model = model_from_light(light, source="net.onnx", source_sha256="")
    again = model.to_light()
    assert again.weights["w"] is light.weights["w"]
    assert again.proto.ByteSize() < LARGE_BYTES
    np.testing.assert_array_equal(model.graph.tensors()["w"].values, SQUARE)
    assert run(again, {"x": X})[0].tobytes() == run(light, {"x": X})[0].tobytes()
    assert model.to_proto().ByteSize() > 2 * SQUARE.nbytes


def test_a_weight_that_a_subgraph_reads_stays_in_the_message():
    """onnxruntime takes values from outside for the main graph alone."""
    text = """g (float[2,32] x, bool c) => (float[2,32] y) {
        y = If (c) <then_branch = t () => (float[2,32] p) { p = MatMul(x,w) },
                    else_branch = e () => (float[2,32] q) { q = MatMul(x,v) }> }"""
    model = net(text, w=SQUARE, v=SQUARE + 1)
    light = as_model(model).to_light()
    assert light.weights == {}
    feed = {"x": X, "c": np.array(True)}
    np.testing.assert_array_equal(run(light, feed)[0], run_plain(model, feed)[0])


def test_a_weight_that_is_an_output_is_given_out():
    text = TWO.replace("=> (float[2,32] y)", "=> (float[2,32] y, float[32,32] w)")
    light = as_model(net(text, w=SQUARE, v=SQUARE)).to_light()
    np.testing.assert_array_equal(run(light, {"x": X})[1], SQUARE)


def test_what_cannot_leave_the_message_has_its_limit(monkeypatch):
    model = as_model(net("g (float[4000] x) => (float[4000] y) { y = Mul(x,f) f = Cast<to=1>(k) }", k=np.arange(4000)))
    monkeypatch.setattr(light_proto, "LIMIT_BYTES", 4096)
    with pytest.raises(ModelError, match=r"net\.onnx.*without its float weights"):
        model.to_light()


def test_folding_reads_large_weights_without_a_message_of_them(monkeypatch):
    text = """g (float[2,32] x) => (float[2,32] y) {
        t = Transpose(w) s = ReduceSum<keepdims=1>(t) u = ReduceMax<keepdims=1>(v) k = Add(s,u) a = MatMul(x,w) y = Mul(a,k) }"""
    model = net(text, w=SQUARE, v=SQUARE + 1)
    ours = as_model(model)
    monkeypatch.setattr(light_proto, "LIMIT_BYTES", 3000)
    assert fold_constants(ours)
    assert [n.op for n in ours.graph.nodes] == ["MatMul", "Mul"]
    expected = run_plain(model, {"x": X})[0]
    np.testing.assert_allclose(run(ours.to_light(), {"x": X})[0], expected, rtol=0, atol=1e-4 * np.ptp(expected))


def test_folding_leaves_a_sequence_of_constants(monkeypatch):
    text = """g (float[32,32] x) => (float[32,32] y) {
        s = SequenceConstruct(w,v) i = Constant<value_int=1>() a = SequenceAt(s,i) y = Add(x,a) }"""
    model = net(text, w=SQUARE, v=SQUARE + 1)
    ours = model_from_proto(copy_of(model), source="net.onnx", source_sha256="")
    fold_constants(ours)
    feed = {"x": SQUARE}
    np.testing.assert_array_equal(run(ours.to_light(), feed)[0], run_plain(model, feed)[0])


def test_a_missing_value_is_an_error_of_the_engine():
    light = light_from_proto(net(TWO, w=SQUARE, v=SQUARE))
    from fts.errors import EngineError

    with pytest.raises(EngineError, match=r"^my net: onnxruntime"):
        open_session(light.proto.SerializeToString(), weights={"w": SQUARE}, what="my net")


def test_placeholders_say_type_and_shape():
    tensor = light_proto.placeholder("w", (2, 3), TensorProto.FLOAT)
    assert helper.tensor_dtype_to_np_dtype(tensor.data_type) == np.float32
    assert tuple(tensor.dims) == (2, 3)
    assert not tensor.raw_data

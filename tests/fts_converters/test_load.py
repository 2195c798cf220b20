from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from fts.engines.onnxruntime_session import open_session
from fts.errors import ModelError, ModelFileError, NonFiniteValueError, UnsupportedOpError
from fts_converters import light_proto, load
from fts_converters.check_equivalent import check_equivalent
from fts_converters.light_proto import LightProto, light_from_proto
from fts_converters.load import load_model
from fts_converters.lower_opset import lower_opset
from fts_converters.pack import _oldest_onnxruntime
from fts_converters.upgrade_opset import opset_of

# Version conversion renames no arithmetic: the same kernels run in the same order.
SAME_BITS = 0.0
CONV = "g (float[1,3,8,8] x) => (float[1,8,6,6] y) { y = Conv(x,w,b) }"
PICTURE = "g (float[1,3,8,8] x) => (float[1,3,H,W] y) { %s }"


def net(text: str = CONV, opset: int = 17, ir: int = 8, **constants: np.ndarray) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]> {text}')
    rng = np.random.default_rng(0)
    if text == CONV:
        constants = {"w": rng.normal(size=(8, 3, 3, 3)).astype(np.float32), "b": np.ones(8, np.float32), **constants}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items())
    return model


def light(model: onnx.ModelProto) -> LightProto:
    """In two parts; the model itself keeps its values."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return light_from_proto(copy)


@pytest.fixture
def save(tmp_path):
    def write(model: onnx.ModelProto, name: str = "net.onnx") -> str:
        (tmp_path / "model").mkdir(exist_ok=True)
        path = tmp_path / "model" / name
        path.write_bytes(model.SerializeToString())
        return str(path)

    return write


def run(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    return open_session(model.SerializeToString(), threads=1).run(feed)


def feed_of(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    taken = {t.name for t in model.graph.initializer}
    rng = np.random.default_rng(seed)
    return {
        i.name: rng.normal(size=[d.dim_value for d in i.type.tensor_type.shape.dim]).astype(np.float32)
        for i in model.graph.input
        if i.name not in taken
    }


# --- files --------------------------------------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ModelFileError, match=r"absent\.onnx'?: there is no such file"):
        load_model(str(tmp_path / "absent.onnx"))


def test_a_folder_is_no_model(tmp_path):
    with pytest.raises(ModelFileError, match="cannot be read"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("data", [b"", b"no model at all", b"\x89PNG\r\n\x1a\n" + bytes(99), b"PK\x03\x04" + bytes(50)])
def test_other_files_are_no_onnx(tmp_path, data):
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="not an ONNX file"):
        load_model(str(path))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_truncated_file_is_refused(save, share):
    path = Path(save(net()))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ModelError, match=r"cut short|invalid ONNX|no graph"):
        load_model(str(path))


def test_the_digest_is_of_the_content(save):
    first, again = load_model(save(net())), load_model(save(net(), "other.onnx"))
    changed = load_model(save(net(b=np.zeros(8, np.float32))))
    assert first.source_sha256 == again.source_sha256 != changed.source_sha256
    assert again.source == "other.onnx"


def test_a_net_above_the_limit_of_a_message_is_refused(save, monkeypatch):
    monkeypatch.setattr(light_proto, "LIMIT_BYTES", 100)
    with pytest.raises(ModelError, match=r"net\.onnx.*at most 100"):
        load_model(save(net()))


# --- external data --------------------------------------------------------------------------------------------------------


def external(location: str) -> onnx.ModelProto:
    model = net()
    tensor = next(t for t in model.graph.initializer if t.name == "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(8 * 27 * 4))):
        tensor.external_data.add(key=key, value=value)
    return model


WEIGHT = np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype(np.float32)


def test_external_data_beside_the_model_is_read(save):
    path = save(external("w.bin"))
    Path(path).with_name("w.bin").write_bytes(WEIGHT.tobytes())
    loaded = load_model(path).to_proto()
    weight = next(t for t in loaded.graph.initializer if t.name == "w")
    np.testing.assert_array_equal(numpy_helper.to_array(weight), WEIGHT)


@pytest.mark.parametrize("form", ["..", "absolute", "symlink", "folder symlink", "empty"])
def test_external_data_outside_the_folder_is_never_opened(save, tmp_path, form, monkeypatch):
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = outside / "w.bin"
    secret.write_bytes(WEIGHT.tobytes())
    folder = tmp_path / "model"
    folder.mkdir()
    location = {"..": "../outside/w.bin", "absolute": str(secret), "folder symlink": "link/w.bin", "empty": ""}.get(
        form, "link"
    )
    if form == "symlink":
        (folder / "link").symlink_to(secret)
    if form == "folder symlink":
        (folder / "link").symlink_to(outside)
    path = save(external(location))
    monkeypatch.setattr(load, "_load_external_data", lambda *a: pytest.fail("external data was opened"))
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert "tensor 'w'" in str(caught.value)
    assert repr(location) in str(caught.value)
    assert "was not opened" in str(caught.value)


@pytest.mark.parametrize("place", ["attribute", "list of tensors", "subgraph", "function", "sparse"])
def test_external_data_is_looked_for_in_every_place_of_a_model(save, place):
    tensor = TensorProto(name="hidden", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/hostname")
    model = net()
    node = helper.make_node("Constant", [], ["k"])
    if place == "attribute":
        node.attribute.append(helper.make_attribute("value", tensor))
        model.graph.node.append(node)
    elif place == "list of tensors":
        node.attribute.add(name="values", type=onnx.AttributeProto.TENSORS).tensors.append(tensor)
        model.graph.node.append(node)
    elif place == "subgraph":
        inner = helper.make_graph([], "inner", [], [], [tensor])
        model.graph.node.append(helper.make_node("If", ["x"], ["k"], then_branch=inner, else_branch=inner))
    elif place == "function":
        node.attribute.append(helper.make_attribute("value", tensor))
        model.functions.append(helper.make_function("own", "f", [], ["k"], [node], [helper.make_opsetid("", 17)]))
    else:
        model.graph.sparse_initializer.add().values.CopyFrom(tensor)
    with pytest.raises(ModelFileError, match=r"tensor '(hidden)?.*/etc/hostname"):
        load_model(save(model))


def test_missing_external_data_is_named(save):
    with pytest.raises(ModelFileError, match=r"external data cannot be read: .*w\.bin"):
        load_model(save(external("w.bin")))


def test_external_data_that_is_too_short_is_refused(save):
    path = save(external("w.bin"))
    Path(path).with_name("w.bin").write_bytes(WEIGHT.tobytes()[:-8])
    with pytest.raises(ModelError):
        load_model(path)


def test_external_data_that_is_a_pipe_is_not_waited_for(save):
    path = save(external("pipe"))
    os.mkfifo(Path(path).with_name("pipe"))
    with pytest.raises(ModelError):
        load_model(path)


# --- content --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["graph", "subgraph", "function"])
def test_a_private_operator_names_node_operator_and_domain(save, place):
    model = net()
    node = helper.make_node("AlignCrop", ["x"], ["k"], name="align_faces", domain="acme.face")
    model.opset_import.append(helper.make_opsetid("acme.face", 1))
    if place == "graph":
        model.graph.node.append(node)
    elif place == "subgraph":
        inner = helper.make_graph([node], "inner", [], [])
        model.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=inner, else_branch=inner))
    else:
        model.functions.append(helper.make_function("own", "f", ["x"], ["k"], [node], list(model.opset_import)))
    with pytest.raises(UnsupportedOpError) as caught:
        load_model(save(model))
    error = caught.value
    assert (error.node, error.op_type, error.domain) == ("align_faces", "AlignCrop", "acme.face")
    assert all(word in str(error) for word in ("align_faces", "AlignCrop", "acme.face"))


@pytest.mark.parametrize("op_type", ["Conv", "QuickGelu", "FusedMatMul", "Gelu", "Attention", "MatMul"])
def test_float_operators_are_not_taken_for_quantized_ones(op_type):
    assert not load.QUANTIZED.fullmatch(op_type)


def test_a_net_that_draws_random_numbers_is_refused(save):
    text = "g (float[1,3,8,8] x) => (float[1,3,8,8] y) { r = RandomNormalLike(x) y = Add(x,r) }"
    with pytest.raises(ModelError, match="RandomNormalLike draws random numbers"):
        load_model(save(net(text)))


def test_nan_weights_are_counted_and_their_reader_named(save):
    weight = WEIGHT.copy()
    weight.reshape(-1)[[3, 70]] = np.nan
    with pytest.raises(NonFiniteValueError, match=r"tensor 'w' \(read by Conv 'y'\): 2 of 216 weights are NaN"):
        load_model(save(net(w=weight)))


def test_nan_in_a_constant_node_is_found(save):
    text = "g (float[1,3,8,8] x) => (float[1,3,8,8] y) { k = Constant<value = float[1] {1.0}>() y = Mul(x,k) }"
    model = net(text)
    model.graph.node[0].attribute[0].t.CopyFrom(numpy_helper.from_array(np.array([np.nan], np.float32)))
    with pytest.raises(NonFiniteValueError, match=r"tensor 'k' \(read by Mul 'y'\): 1 of 1"):
        load_model(save(model))


def test_infinite_constants_are_masks_and_pass(save):
    text = "g (float[1,3,8,8] x) => (float[1,3,8,8] y) { y = Max(x,k) }"
    load_model(save(net(text, k=np.array([-np.inf], np.float32))))


def test_initializers_that_are_inputs_are_no_inputs(save):
    model = net(ir=3)
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    loaded = load_model(save(model))
    assert [i.name for i in loaded.graph.inputs] == ["x"]


def test_a_sequence_is_refused(save):
    model = net()
    model.graph.input.append(helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None))
    with pytest.raises(ModelError, match=r"input 'parts': type sequence_type, expected a tensor"):
        load_model(save(model))


def test_a_net_without_inputs_is_refused(save):
    model = net("g () => (float[2] y) { y = Identity(k) }", k=np.zeros(2, np.float32))
    with pytest.raises(ModelError, match="no inputs"):
        load_model(save(model))


def test_an_invalid_graph_is_refused_with_the_checkers_words(save):
    model = net()
    model.graph.node[0].input[0] = "nowhere"
    with pytest.raises(ModelError, match=r"invalid ONNX.*nowhere"):
        load_model(save(model))


def test_local_functions_become_plain_nodes(save):
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[2,8] x) => (float[2,8] y) { y = own.twice(x,w) }
        <domain: "own", opset_import: ["" : 17]> twice (a, k) => (c) { b = MatMul(a,k) c = MatMul(b,k) }"""
    )
    model.graph.initializer.append(numpy_helper.from_array(np.eye(8, dtype=np.float32) * 2, "w"))
    loaded = load_model(save(model))
    assert [n.op for n in loaded.graph.nodes] == ["MatMul", "MatMul"]
    feed = feed_of(model)
    np.testing.assert_array_equal(run(loaded.to_proto(), feed)[0], feed["x"] * 4)


def test_float_constants_given_as_attributes_stay_float32(save):
    constants = "k = Constant<value_float=0.5>() s = Constant<value_ints=[1,3,8,8]>()"
    text = f"g (float[1,3,8,8] x) => (float[1,3,8,8] y) {{ {constants} e = Expand(k,s) y = Mul(x,e) }}"
    model = load_model(save(net(text)))
    model.graph.fold_constants(error_ok=False).cleanup()
    feed = {"x": np.ones((1, 3, 8, 8), np.float32)}
    np.testing.assert_array_equal(run(model.to_proto(), feed)[0], feed["x"] / 2)


# --- forms ------------------------------------------------------------------------------------------------------------------

RELU = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }"


def same(save, model: onnx.ModelProto) -> onnx.ModelProto:
    """The net as loaded; its outputs are those of the net in the file."""
    loaded = load_model(save(model)).to_proto()
    feed = feed_of(model)
    for a, b in zip(run(model, feed), run(loaded, feed), strict=True):
        np.testing.assert_array_equal(a, b)
    return loaded


def test_a_graph_out_of_order_is_sorted(save):
    model = net("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) b = Abs(a) c = Exp(b) y = Neg(c) }")
    first = model.graph.node[0]
    moved = onnx.NodeProto.FromString(first.SerializeToString())
    model.graph.node.remove(first)
    model.graph.node.append(moved)
    assert [n.op_type for n in same(save, model).graph.node] == ["Relu", "Abs", "Exp", "Neg"]


def test_a_subgraph_waits_for_the_outer_tensor_it_reads(save):
    text = """g (float[2,3] x, bool c) => (float[2,3] y) { y = If(c) <then_branch = t () => (float[2,3] p) { p = Neg(a) },
        else_branch = e () => (float[2,3] q) { q = Exp(a) }> a = Relu(x) }"""
    loaded = load_model(save(net(text)))
    assert [n.op for n in loaded.graph.nodes] == ["Relu", "If"]


def test_a_cycle_is_refused(save):
    with pytest.raises(ModelError, match="topologically sorted"):
        load_model(save(net("g (float[2,3] x) => (float[2,3] y) { a = Add(x,b) b = Neg(a) y = Abs(b) }")))


@pytest.mark.parametrize("form", ["initializer", "initializer with coordinates", "Constant", "subgraph"])
def test_sparse_constants_are_filled_in(save, form):
    model = net("g (float[2,3] x) => (float[2,3] y) { y = Mul(x,k) }")
    values = numpy_helper.from_array(np.array([2, 3], np.float32), "k")
    places = np.array([[0, 1], [1, 2]]) if "coordinates" in form else np.array([1, 5])
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(places, "at"), [2, 3])
    if form.startswith("initializer"):
        model.graph.sparse_initializer.append(sparse)
    elif form == "Constant":
        model.graph.node.insert(0, helper.make_node("Constant", [], ["k"], sparse_value=sparse))
    else:
        inner = helper.make_graph([helper.make_node("Mul", ["x", "k"], ["z"])], "i", [],
                                  [helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3])])  # fmt: skip
        inner.sparse_initializer.append(sparse)
        true = net("g (float[2,3] x, bool c) => (float[2,3] y) { y = Neg(x) }")
        model.CopyFrom(true)
        model.graph.node[0].CopyFrom(helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner))
    loaded = load_model(save(model)).to_proto()
    x = np.ones((2, 3), np.float32)
    feed = {"x": x, "c": np.array(True)} if form == "subgraph" else {"x": x}
    np.testing.assert_array_equal(run(loaded, feed)[0], np.array([[0, 2, 0], [0, 0, 3]], np.float32))


def test_indices_outside_of_a_sparse_constant_are_refused(save):
    model = net("g (float[2,3] x) => (float[2,3] y) { y = Mul(x,k) }")
    values = numpy_helper.from_array(np.array([2], np.float32), "k")
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([6])), [2, 3])
    )
    with pytest.raises(ModelError, match="tensor 'k': sparse, and its indices"):
        load_model(save(model))


def test_the_domain_ai_onnx_is_the_standard(save):
    model = net(RELU)
    for holder in (*model.graph.node, *model.opset_import):
        holder.domain = "ai.onnx"
    model.graph.name = ""
    assert {n.domain for n in same(save, model).graph.node} == {""}


def test_two_versions_of_one_operator_set_are_refused(save):
    model = net(RELU)
    model.opset_import.append(helper.make_opsetid("ai.onnx", 13))
    with pytest.raises(ModelError, match="imported as version 17 and as 13"):
        load_model(save(model))


@pytest.mark.parametrize("opset", [13, 17, 18])
@pytest.mark.parametrize("axes", ["", "<axes=[1]>"])
def test_mean_variance_normalization_is_written_out(save, opset, axes):
    model = net(PICTURE % f"y = MeanVarianceNormalization{axes}(x)", opset)
    loaded = load_model(save(model)).to_proto()
    check_equivalent(light(model), light(loaded), feed_of(model), what="net")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = Relu(x) a = Neg(x) y = Abs(a)", "'a' has been used as output names multiple times"),
        ("k = Relu(x) y = Neg(k)", "'k' has been used"),
        ("x = Relu(x) y = Neg(x)", "'x' has been used"),
    ],
)
def test_a_tensor_made_twice_is_named(save, text, words):
    model = net(f"g (float[2,3] x) => (float[2,3] y) {{ {text} }}", k=np.ones((2, 3), np.float32))
    with pytest.raises(ModelError, match=words):
        load_model(save(model))


def test_names_that_passes_generate_may_be_taken(save):
    names = ("_gs_0", "onnx_graphsurgeon_constant_0", "fts_0", "y_folded")
    nodes = " ".join(f"{n} = Relu({p})" for n, p in zip(names, ("x", *names), strict=False))
    same(save, net(f"g (float[2,3] x) => (float[2,3] y) {{ {nodes} y = Neg(y_folded) }}"))


def test_outputs_that_nobody_reads_may_be_unnamed_or_named(save):
    model = net("g (float[1,1,4,4] x) => (float[1,1,2,2] y) { y, i = MaxPool<kernel_shape=[3,3]>(x) }")
    same(save, model)
    model.graph.node[0].output[1] = ""
    same(save, model)


# --- opset ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Old:
    name: str
    opset: int
    text: str
    constants: tuple[tuple[str, np.ndarray], ...] = ()


def scales(*values: float) -> tuple[tuple[str, np.ndarray], ...]:
    return (("s", np.array(values, np.float32)),)


OLD = [
    Old(name="Softmax 11", opset=11, text="g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis=1>(x) }"),
    Old(name="Clip 6", opset=8, text=PICTURE % "y = Clip<min=-0.5,max=0.5>(x)"),
    Old(name="Pad 2", opset=9, text=PICTURE % 'y = Pad<mode="reflect",pads=[0,0,1,1,0,0,1,1]>(x)'),
    Old(name="Slice 1", opset=9, text=PICTURE % "y = Slice<axes=[2],starts=[1],ends=[3]>(x)"),
    Old(name="Squeeze 1", opset=9, text="g (float[1,8,1,1] x) => (float[8] y) { y = Squeeze<axes=[0,2,3]>(x) }"),
    Old(name="ReduceSum 1", opset=11, text="g (float[1,8,4,4] x) => (float[1,8] y) { y = ReduceSum<axes=[2,3],keepdims=0>(x) }"),
    Old(name="Upsample 7", opset=7, text=PICTURE % 'y = Upsample<mode="nearest",scales=[1.0,1.0,2.0,2.0]>(x)'),
    *(
        Old(name=f"{op} {mode} {factor}", opset=opset, text=PICTURE % f'y = {op}<mode="{mode}">(x,s)',
            constants=scales(1, 1, factor, factor))
        for op, opset, factors in (("Upsample", 9, (2, 1.5)), ("Resize", 10, (2, 3, 1.5, 0.5, 0.7)))
        for mode in ("nearest", "linear")
        for factor in factors
    ),
    Old(name="Resize 11", opset=11,
        text=PICTURE % 'y = Resize<mode="cubic",coordinate_transformation_mode="align_corners">(x,r,s)',
        constants=(("r", np.zeros(0, np.float32)), *scales(1, 1, 2, 2))),
]  # fmt: skip


@pytest.mark.parametrize("old", OLD, ids=lambda o: o.name)
def test_an_old_opset_is_raised_to_13_with_equal_outputs(save, old):
    model = net(old.text, old.opset, 4, **dict(old.constants))
    loaded = load_model(save(model))
    assert loaded.opset == 13
    for seed in range(2):
        feed = feed_of(model, seed)
        for a, b in zip(run(model, feed), run(loaded.to_proto(), feed), strict=True):
            assert a.shape == b.shape
            assert np.abs(a - b).max() <= SAME_BITS


def test_the_net_as_it_came_is_kept_to_be_compared_with(save):
    model = load_model(save(net(PICTURE % "y = Clip<min=-0.5,max=0.5>(x)", 9, 4)))
    assert model.original is not None
    assert model.original.proto.opset_import[0].version == 9
    check_equivalent(model.original, model.to_light(), feed_of(model.original.proto), what="net")
    assert load_model(save(net())).original is None


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_an_opset_in_range_is_kept(save, opset):
    assert load_model(save(net(opset=opset, ir=8 if opset < 21 else 10))).opset == opset


@pytest.mark.parametrize("opset", [22, 23, 24])
def test_a_new_opset_is_lowered_where_the_graph_can_be_expressed_there(save, opset):
    model = net(opset=opset, ir=10)
    loaded = load_model(save(model))
    assert loaded.opset == 21
    assert loaded.to_proto().ir_version == 10
    assert _oldest_onnxruntime(loaded.to_proto()) == "1.19"
    # The same net written in opset 21: an older onnxruntime cannot run the new one, or runs it by other kernels.
    same = net(opset=21, ir=10)
    np.testing.assert_array_equal(run(same, feed_of(same))[0], run(loaded.to_proto(), feed_of(model))[0])


def test_a_new_opset_is_kept_where_it_cannot_be_lowered_and_the_bundle_says_so(save):
    text = "g (float[1,4,8,8] x, float[1,4,1,8] new) => (float[1,4,8,8] y) { y = TensorScatter(x,new,at) }"
    loaded = load_model(save(net(text, 25, 10, at=np.array([3]))))
    assert loaded.opset == 24
    assert re.fullmatch(r"1\.2\d", _oldest_onnxruntime(loaded.to_proto()))


@pytest.mark.parametrize(
    ("opset", "body"),
    [
        (23, "y = RMSNormalization(x,k)"), (24, "y = Swish<alpha=0.5>(x)"), (28, "y = Swish(x)"),
        (25, "q = Mul(x,k) y = Attention(q,x,x)"), (23, "y = RotaryEmbedding(x,c,s)"),
    ],
)  # fmt: skip
def test_an_operator_newer_than_the_range_is_written_out_by_its_own_definition(save, opset, body):
    rng = np.random.default_rng(3)
    angles = {n: rng.random((1, 8, 4)).astype(np.float32) for n in "cs" if f",{n}" in body}
    model = net(f"g (float[1,3,8,8] x) => (float[1,3,8,8] y) {{ {body} }}", opset, 10, **angles,
                **({"k": rng.random(8).astype(np.float32)} if ",k)" in body else {}))  # fmt: skip
    loaded = load_model(save(model))
    assert loaded.opset == 21
    if opset <= 25:  # the newest that every supported onnxruntime with these operators runs
        check_equivalent(light(model), loaded.to_light(), feed_of(model), what="net")


@pytest.mark.parametrize(
    ("opset", "least", "text"),
    [
        (28, 28, "g (float[4] x) => (float[4] y) { y = Mod(x,k) }"),
        (28, 28, 'g (float[1,3,8,8] x) => (float[1,12,4,4] y) { y = SpaceToDepth<blocksize=2,mode="CRD">(x) }'),
        (28, 26, "g (float[4] x) => (float[4] y) { y = CumProd(x,a) }"),
        (24, 24, "g (float[4] x) => (float[4] y) { b = Cast<to=16>(x) v, i = TopK(b,n) y = Cast<to=1>(v) }"),
        (23, 22, "g (float[4] x) => (float[4] y) { b = Cast<to=16>(x) c = Round(b) y = Cast<to=1>(c) }"),
    ],
)
def test_a_node_that_the_older_opset_would_read_otherwise_keeps_the_lowest_opset_that_holds_it(opset, least, text):
    constants = {"k": np.float32(0.7), "a": np.array(0, np.int64), "n": np.array([4])}
    model = net(text, opset, 11, **{n: v for n, v in constants.items() if f",{n})" in text})
    lowered, obstacle = lower_opset(model, opset, 21)
    assert opset_of(lowered) == least
    assert "opset" in obstacle


def test_an_attribute_that_is_new_but_says_the_default_is_no_obstacle():
    model = net('g (float[4] x) => (float16[4] y) { y = Cast<to=10,round_mode="up">(x) }', 24, 11)
    lowered, obstacle = lower_opset(model, 24, 21)
    assert (opset_of(lowered), obstacle) == (21, "")
    assert [a.name for a in lowered.graph.node[0].attribute] == ["to"]


def test_an_opset_newer_than_onnx_is_refused(save):
    with pytest.raises(ModelError, match=r"opset 99, and the installed onnx .* knows opsets up to \d+"):
        load_model(save(net(opset=99)))


@pytest.mark.parametrize(("ir", "words"), [(99, "Install a newer onnx"), (2, "older than ONNX 1.0")])
def test_an_unknown_ir_version_is_refused(save, ir, words):
    with pytest.raises(ModelError, match=f"IR version {ir}.*{words}"):
        load_model(save(net(ir=ir)))


@pytest.mark.parametrize("ir", range(3, onnx.IR_VERSION + 1))
def test_every_known_ir_version_is_read(save, ir):
    model = net(opset=13, ir=ir)
    if ir < 4:
        for tensor in model.graph.initializer:
            model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    assert [i.name for i in load_model(save(model)).graph.inputs] == ["x"]


@pytest.mark.parametrize(("opset", "ir"), [(13, 8), (18, 8), (19, 9), (20, 9), (21, 10)])
def test_the_ir_version_is_the_one_that_came_with_the_opset(save, opset, ir):
    assert load_model(save(net(opset=opset, ir=8))).to_proto().ir_version == ir


def test_an_old_net_with_weights_beside_its_message_is_raised(save):
    """Weights above 1 KiB are placeholders while the converter and the checker look at the net."""
    weights = np.random.default_rng(0).normal(size=(32, 3, 3, 3)).astype(np.float32)
    model = net("g (float[1,3,8,8] x) => (float[1,32,6,6] y) { y = Conv(x,w) }", 9, 8, w=weights)
    loaded = load_model(save(model))
    assert loaded.opset == 13
    np.testing.assert_array_equal(loaded.to_light().weights["w"], weights)

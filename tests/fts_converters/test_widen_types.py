from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper, parser
from tests.generators.laws import loaded_model, model_of
from tests.generators.random_graphs import random_graph
from tests.generators.retyped import retyped
from tests.generators.run_plain import run_plain

from fts_converters.check_widened import check_widened
from fts_converters.load import load_model
from fts_converters.passes import clean
from fts_converters.tensor_types import scopes
from fts_converters.widen_types import widen_types

# A stretch that stays in float64 rounds once where the float32 net rounds at every node: graphs of some 20 nodes.
FLOAT64_ISLANDS = 1e-5
W = np.random.default_rng(0).normal(size=(3, 3, 3, 3)) * 0.2


def net(text: str, opset: int = 17, **constants: np.ndarray) -> onnx.ModelProto:
    header = f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
    model = parser.parse_model(header + text)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items())
    return model


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    kinds = {v.name: onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type) for v in model.graph.input}
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
    return {n: np.asarray(rng.normal(size=shapes[n])).astype(kinds[n]) for n in kinds}


def other_floats(model: onnx.ModelProto) -> set[str]:
    """Tensors of another float type that something else than a Cast makes or reads, and constants of one that is read."""
    kinds = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
    return {
        name
        for s in scopes(model)
        for n in s.graph.node
        for name in (*n.input, *n.output)
        if n.op_type != "Cast" and s.types.get(name) in kinds
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """A net with float16 in it, and what stays of it."""

    name: str
    text: str
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    stays: frozenset[str] = frozenset()
    opset: int = 17


X, Y = "float16[1,3,8,8] x", "float16[1,3,8,8] y"
CONV = "Conv<pads=[1,1,1,1]>"
HALF = (
    Half(name="all of it", text=f"g ({X}) => ({Y}) {{ h = {CONV}(x,w) r = Relu(h) y = Add(r,k) }}",
         constants={"w": W.astype(np.float16), "k": np.float16(0.1)}),
    Half(name="autocast", text=f"""g (float[1,3,8,8] x) => (float[1,3,8,8] y) {{
         a = Cast<to=10>(x) u = Cast<to=10>(w) h = {CONV}(a,u) b = Cast<to=1>(h) y = Sigmoid(b) }}""",
         constants={"w": W.astype(np.float32)}),
    Half(name="subgraphs", text=f"""g ({X}, bool c) => ({Y}) {{ h = Relu(x) y = If(c) <
         then_branch = t () => (float16[1,3,8,8] p) {{ p = {CONV}(h,w) }},
         else_branch = e () => (float16[1,3,8,8] q) {{ k = Constant<value = float16[1] {{15360}}>() q = Mul(x,k) }}> }}""",
         constants={"w": W.astype(np.float16)}),
    Half(name="a constant that a branch gives", text="""g (float16[2] x, bool c) => (float16[2] y) { b = If(c) <
         then_branch = t () => (float16[2] p) { p = Constant<value = float16[2] {15360, 0}>() },
         else_branch = e () => (float16[2] q) { q = Neg(x) }> y = Add(x,b) }"""),
    Half(name="Loop", text="""g (float16[2] x) => (float16[2] y) { y = Loop(n, "", x) <
         body = b (int64 i, bool p, float16[2] v) => (bool p2, float16[2] o) { p2 = Identity(p) o = Mul(v, k) }> }""",
         constants={"n": np.array(3), "k": np.float16(1.5)}),
    Half(name="made by an attribute", text="""g (float16[4,4] x) => (float16[4,4] y) { s = Shape(x)
         a = ConstantOfShape<value = float16[1] {15360}>(s) b = EyeLike<dtype=10>(x) c = Add(a,b) y = Add(c,x) }"""),
    Half(name="Resize", text=f"""g ({X}) => (float16[1,3,16,16] y) {{ y = Resize<mode="linear",
         coordinate_transformation_mode="tf_crop_and_resize">(x,r,s) }}""",
         constants={"r": np.array([0, 0, 0, 0, 1, 1, 1, 1], np.float16), "s": np.array([1, 1, 2, 2], np.float32)}),
    Half(name="missing operands", text=f'g ({X}) => ({Y}) {{ y = Clip(x, "", m) }}', constants={"m": np.float16(0.25)}),
    Half(name="masks", text="""g (float16[1,4] x) => (float16[1,4] y) { a = Add(x,m) b = Where(c,a,n) d = Clip(b,lo,hi)
         y = Softmax<axis=1>(d) }""",
         constants={"m": np.array([[0, 0, -65504, 0]], np.float16), "c": np.array([True, True, True, False]),
                    "n": np.float16(-np.inf), "lo": np.float16(-65504), "hi": np.float16(65504)}),
    Half(name="sizes", text=f"""g ({X}) => (float16[1,3,16,16] y) {{ s = Shape(x) f = Cast<to=10>(s) g = Mul(f,two)
         z = Cast<to=7>(g) r = Resize(x,"","",z) y = Mul(r,k) }}""",
         constants={"two": np.array([1, 1, 2, 2], np.float16), "k": np.float16(0.3)}, stays=frozenset({"f", "g", "two"})),
    Half(name="a constant shared with sizes", text=f"""g ({X}) => (float16[1,3,16,16] y) {{ s = Shape(x) f = Cast<to=10>(s)
         g = Mul(f,two) z = Cast<to=7>(g) r = Resize(x,"","",z) y = Mul(r,last) last = Slice(two,b,e) }}""",
         constants={"two": np.array([1, 1, 2, 2], np.float16), "b": np.array([3]), "e": np.array([4])},
         stays=frozenset({"f", "g", "two"})),
    Half(name="sequences", text="""g (float16[2] x) => (float16[4] y) { e = SequenceEmpty<dtype=10>()
         t = SequenceInsert(e,x) u = SequenceInsert(t,x) y = ConcatFromSequence<axis=0>(u) }"""),
    Half(name="a contrib operator", text="g (float16[2,3] x) => (float16[2,3] y) { a = com.microsoft.Gelu(x) y = Mul(a,k) }",
         constants={"k": np.float16(0.3)}),
    Half(name="stashed means", text="""g (float16[2,8] x) => (float16[2,8] y) { a = LayerNormalization(x,k,k) y = Neg(a) }""",
         constants={"k": np.ones(8, np.float16)}),
    Half(name="outputs that are read, constant and inputs", text=f"""g ({X}) => ({Y}, float16[1,3,8,8] h, float16[3,3,3,3] w,
         float16[1,3,8,8] x) {{ h = {CONV}(x,w) y = Relu(h) }}""", constants={"w": W.astype(np.float16)}),
    Half(name="CastLike", text=f"g ({X}, int64[8] i) => ({Y}) {{ a = CastLike(i,x) y = Mul(x,a) }}"),
)  # fmt: skip


def in_order(model: onnx.ModelProto) -> onnx.ModelProto:
    from fts_converters.normalise.node_order import sort_nodes

    sort_nodes(model)
    return model


@pytest.mark.parametrize("half", HALF, ids=lambda h: h.name)
def test_half_becomes_float32_inside_and_stays_half_at_the_border(half):
    model = in_order(net(half.text, half.opset, **half.constants))
    before = model.SerializeToString(deterministic=True)
    widened = widen_types(model)
    assert widened.is_changed
    assert model.SerializeToString(deterministic=True) == before
    assert other_floats(widened.model) == half.stays
    onnx.checker.check_model(widened.model, full_check=True)
    assert [v.SerializeToString() for v in (*model.graph.input, *model.graph.output)] == [
        v.SerializeToString() for v in (*widened.model.graph.input, *widened.model.graph.output)
    ]
    assert check_widened(model, widened.model, feeds_of(model), what="net") == ""
    assert not widen_types(widened.model).is_changed


def test_weights_are_widened_exactly():
    model = net(f"g ({X}) => ({Y}) {{ y = {CONV}(x,w) }}", w=W.astype(np.float16))
    (weight,) = widen_types(model).model.graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(weight), W.astype(np.float16).astype(np.float32))


def test_casts_of_an_autocast_export_vanish(tmp_path):
    text = f"g (float[1,3,8,8] x) => (float[1,3,8,8] y) {{ a = Cast<to=10>(x) h = {CONV}(a,w) b = Cast<to=1>(h) y = Sigmoid(b) }}"
    path = tmp_path / "net.onnx"
    path.write_bytes(net(text, w=W.astype(np.float16)).SerializeToString())
    model = load_model(str(path))
    clean(model)
    assert [n.op for n in model.graph.nodes] == ["Conv", "Sigmoid"]


def test_bfloat16_is_widened():
    model = net("g (float[2,4] x) => (float[2,3] y) { a = Cast<to=16>(x) k = Cast<to=16>(w) b = MatMul(a,k) y = Cast<to=1>(b) }",
                w=W.reshape(-1)[:12].reshape(4, 3).astype(np.float32))  # fmt: skip
    widened = widen_types(model)
    assert other_floats(widened.model) == set()
    assert [a.i for n in widened.model.graph.node if n.op_type == "Cast" for a in n.attribute] == [1, 1, 1]


def double(text: str, **constants: np.ndarray) -> onnx.ModelProto:
    return net(text, **{n: np.asarray(v, np.float64) for n, v in constants.items()})


def test_a_double_net_with_layers_is_narrowed():
    model = double(f"g (double[1,3,8,8] x) => (double[1,3,8,8] y) {{ h = {CONV}(x,w) y = Add(h,k) }}", w=W, k=0.1)
    widened = widen_types(model)
    assert other_floats(widened.model) == set()
    (y,) = run_plain(widened.model, feeds_of(model))
    assert y.dtype == np.float64


@pytest.mark.parametrize(
    ("number", "words"),
    [(1e300, "1e+300, beyond float32"), (-1e39, "1e+39, beyond"), (1e-60, "1e-60, which is 0 in float32")],
)
def test_a_constant_that_float32_cannot_hold_keeps_the_net_in_doubles(number, words):
    model = double(f"g (double[1,3,8,8] x) => (double[1,3,8,8] y) {{ h = {CONV}(x,w) y = Mul(h,k) }}", w=W, k=number)
    widened = widen_types(model)
    assert not widened.is_changed
    (reason,) = widened.left_alone
    assert reason.startswith("Conv 'h' stays in float64: constant 'k' of Mul 'y' holds")
    assert words in reason


@pytest.mark.parametrize("number", [np.inf, -np.inf, 0.0, -0.0])
def test_infinity_and_zero_are_the_same_in_float32(number):
    model = double(f"g (double[1,3,8,8] x) => (double[1,3,8,8] y) {{ h = {CONV}(x,w) y = Max(h,k) }}", w=W, k=number)
    assert widen_types(model).is_changed


def test_a_range_of_doubles_is_narrowed_with_what_it_is_added_to():
    text = "g (double[4,3] x) => (double[4,4] y) { r = Range(f,t,u) a = MatMul(x,w) y = Add(a,r) }"
    model = double(text, f=0, t=4, u=1, w=W.reshape(-1)[:12].reshape(3, 4))
    widened = widen_types(model).model
    assert other_floats(widened) == set()
    (y,), (expected,) = run_plain(widened, feeds_of(model)), run_plain(model, feeds_of(model))
    np.testing.assert_allclose(y, expected, rtol=0, atol=4 * np.spacing(np.abs(expected).max().astype(np.float32)))


def test_doubles_without_a_layer_stay():
    text = f"""g (float[1,3,8,8] x) => (float[1,3,8,8] y) {{
        h = {CONV}(x,w) a = Cast<to=11>(h) b = Mul(a,k) y = Cast<to=1>(b) }}"""
    model = net(text, w=W.astype(np.float32), k=np.float64(0.1))
    assert widen_types(model).model is model


def test_a_float32_net_is_left_untouched():
    model = net(f"g (float[1,3,8,8] x) => (float[1,3,8,8] y) {{ y = {CONV}(x,w) }}", w=W.astype(np.float32))
    assert widen_types(model).model is model


def check_half(seeds: range) -> int:
    """Number of graphs that were cases."""
    cases = 0
    for seed in seeds:
        case = retyped(seed, TensorProto.FLOAT16)
        if case is None:
            continue
        model = loaded_model(case)
        assert model.is_widened
        assert check_widened(model.original.whole("net"), model.to_proto(), case.feeds, what=f"seed {seed}") == ""
        cases += 1
    return cases


def check_double(seeds: range) -> int:
    """onnxruntime has few kernels for doubles: a narrowed net is compared with the float32 net it was made of."""
    cases = 0
    for seed in seeds:
        case = retyped(seed, TensorProto.DOUBLE, has_to_run=False)
        if case is None:
            continue
        widened = widen_types(model_of(case).to_proto())
        if other_floats(widened.model) or not widened.is_changed:
            continue
        source = random_graph(seed)
        for a, b in zip(run_plain(source.model, source.feeds), run_plain(widened.model, case.feeds), strict=True):
            if a.dtype.kind == "f":
                np.testing.assert_allclose(
                    b, a, rtol=0, atol=FLOAT64_ISLANDS * np.abs(a).max(initial=0.0), err_msg=str(seed)
                )
            else:
                np.testing.assert_array_equal(b, a, err_msg=str(seed))
        cases += 1
    return cases


def test_random_graphs_in_half_agree_with_themselves_in_float32():
    assert check_half(range(60)) >= 50


def test_random_graphs_in_double_become_the_float32_graphs_they_were_made_of():
    assert check_double(range(150)) >= 12


@pytest.mark.slow
def test_many_random_graphs_in_half_agree_with_themselves_in_float32():
    assert check_half(range(60, 1000)) >= 850


@pytest.mark.slow
def test_many_random_graphs_in_double_become_the_float32_graphs_they_were_made_of():
    assert check_double(range(150, 1000)) >= 70


def test_a_type_that_only_a_newer_opset_takes_is_widened_before_the_opset_is_lowered(tmp_path):
    """Conv takes bfloat16 since opset 22."""
    body = f"a = Cast<to=16>(x) k = Cast<to=16>(w) b = {CONV}(a,k) y = Cast<to=1>(b)"
    text = f"g (float[1,3,8,8] x) => (float[1,3,8,8] y) {{ {body} }}"
    model = net(text, opset=22, w=W.astype(np.float32))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    loaded = load_model(str(tmp_path / "net.onnx"))
    assert (loaded.opset, other_floats(loaded.to_proto())) == (21, set())
    assert loaded.original is not None

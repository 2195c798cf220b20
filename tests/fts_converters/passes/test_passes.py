from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from fts_converters.passes import DEFAULT_PASSES, clean
from fts_converters.passes.fold_constants import fold_constants
from fts_converters.passes.name_nodes import name_nodes
from fts_converters.passes.remove_dead_code import remove_dead_code

SHAPE = [2, 3, 4]
UNARY = ("Neg", "Abs", "Relu", "Sigmoid", "Identity", "Tanh")
BINARY = ("Add", "Mul", "Sub", "Max")


@st.composite
def nets(draw: st.DrawFn) -> onnx.ModelProto:
    """Chains, branches, dead ends and constant subgraphs over tensors of one shape."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    constants = [
        numpy_helper.from_array(rng.normal(size=s).astype(np.float32), f"k{i}")
        for i, s in enumerate((SHAPE, [1], [4], []))
    ]
    nodes, live, fixed = [], ["x", "z"], [t.name for t in constants]
    for step in range(draw(st.integers(1, 12))):
        name, source = f"t{step}", live + fixed
        kind = draw(st.sampled_from(["unary", "binary", "constant", "shape", "node"]))
        if kind == "unary":
            inputs, op_type, bucket = [draw(st.sampled_from(live))], draw(st.sampled_from(UNARY)), live
        elif kind == "binary":
            inputs = [draw(st.sampled_from(live)), draw(st.sampled_from(source))]
            op_type, bucket = draw(st.sampled_from(BINARY)), live
        elif kind == "constant":
            inputs = [draw(st.sampled_from(fixed)), draw(st.sampled_from(fixed))]
            op_type, bucket = draw(st.sampled_from(BINARY)), fixed
        elif kind == "shape":
            nodes.append(helper.make_node("Shape", [draw(st.sampled_from(live))], [f"{name}_shape"]))
            nodes.append(helper.make_node("Cast", [f"{name}_shape"], [f"{name}_cast"], to=TensorProto.FLOAT))
            nodes.append(helper.make_node("ReduceMax", [f"{name}_cast"], [name], keepdims=0))
            fixed.append(name)
            continue
        else:
            value = numpy_helper.from_array(rng.normal(size=[1]).astype(np.float32))
            nodes.append(helper.make_node("Constant", [], [name], value=value))
            fixed.append(name)
            continue
        node_name = draw(st.sampled_from(["", "same", name]))
        nodes.append(helper.make_node(op_type, inputs, [name], name=node_name))
        bucket.append(name)
    made = [n for n in live if n not in ("x", "z")]
    outputs = list(dict.fromkeys([*made[-1:], *([draw(st.sampled_from(made))] if made else [])])) or ["w"]
    if outputs == ["w"]:
        nodes.append(helper.make_node("Neg", ["x"], ["w"]))
    graph = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in ("x", "z")],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in outputs],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def unique_names(net: onnx.ModelProto) -> onnx.ModelProto:
    """onnxruntime loads no graph with two nodes of one name."""
    copy = onnx.ModelProto()
    copy.CopyFrom(net)
    for position, node in enumerate(copy.graph.node):
        node.name = f"n{position}"
    return copy


def signature(values) -> list[tuple[str, int, list[int]]]:
    return [(v.name, v.type.tensor_type.elem_type, [d.dim_value for d in v.type.tensor_type.shape.dim]) for v in values]


# Folding computes the same float32 operations in the same order; onnxruntime's own fusions of what is left may contract
# a multiplication and an addition: one rounding, 2^-24 relative, per operation and at most 12 of them over values whose
# intermediate magnitudes reach the k-th power of the inputs.
FOLDING_RTOL = 12 * 2.0**-24


@given(net=nets())
@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_cleaning_keeps_the_function_the_borders_and_does_nothing_twice(bench, net):
    model = bench.model(net)
    clean(model)
    after = model.to_proto()
    assert signature(after.graph.input) == signature(net.graph.input)
    assert signature(after.graph.output) == signature(net.graph.output)
    feed = {n: bench.noise(*SHAPE, seed=s) for s, n in enumerate(("x", "z"))}
    for a, b in zip(bench.run(unique_names(net), feed), bench.run(after, feed), strict=True):
        np.testing.assert_allclose(b, a, rtol=FOLDING_RTOL, atol=FOLDING_RTOL * np.abs(a).max())
    names = [n.name for n in after.graph.node]
    assert all(names)
    assert len(set(names)) == len(names)
    before_second = after.SerializeToString(deterministic=True)
    assert clean(model) == ()
    assert model.to_proto().SerializeToString(deterministic=True) == before_second


def test_the_order_of_the_passes_is_the_one_that_is_documented():
    assert [name for name, _ in DEFAULT_PASSES] == [
        "remove_dead_code",
        "fold_constants",
        "remove_dead_code",
        "name_nodes",
    ]


def test_dead_nodes_go_and_unread_inputs_stay(bench):
    model = bench.model(bench.net("g (float[2] x, float[2] unread) => (float[2] y) { dead = Neg(x) y = Abs(x) }"))
    assert remove_dead_code(model)
    assert [n.op for n in model.graph.nodes] == ["Abs"]
    assert [i.name for i in model.graph.inputs] == ["x", "unread"]
    assert not remove_dead_code(model)


def test_what_a_subgraph_reads_is_not_dead(bench):
    text = """g (float[2] x, bool c) => (float[2] y) { h = Neg(x) k2 = Add(k,k)
        y = If(c) <then_branch = t () => (float[2] a) { a = Mul(h,k2) }, else_branch = e () => (float[2] b) { b = Abs(h) }> }"""
    net = bench.net(text, k=np.ones(2, np.float32))
    model = bench.model(net)
    clean(model)
    feed = {"x": np.array([1, -2], np.float32), "c": np.array(True)}
    np.testing.assert_array_equal(bench.run(model.to_proto(), feed)[0], bench.run(net, feed)[0])


@pytest.mark.parametrize(
    ("body", "constants"),
    [("s = Shape(x)", {}), ("s = Add(k,k)", {"k": np.array([1, 2])}), ("s = Identity(k)", {"k": np.array([3])})],
)
def test_outputs_that_are_constant_stay_outputs(bench, body, constants):
    net = bench.net(f"g (float[2,3] x) => (float[2,3] y, int64[N] s) {{ y = Neg(x) {body} }}", **constants)
    model = bench.model(net)
    clean(model)
    feed = {"x": np.ones((2, 3), np.float32)}
    expected = bench.run(net, feed)
    for a, b in zip(expected, bench.run(model.to_proto(), feed), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [o.name for o in model.to_proto().graph.output] == ["y", "s"]


def test_shape_arithmetic_becomes_numbers(bench):
    text = "g (float[1,3,4,5] x) => (float[1,12,5] y) { s = Shape(x) a = Gather(s,i) t = Concat<axis=0>(o,m,a) y = Reshape(x,t) }"
    model = bench.model(bench.net(text, i=np.array([3]), o=np.array([1]), m=np.array([-1])))
    assert fold_constants(model)
    assert [n.op for n in model.graph.nodes] == ["Reshape"]
    assert not fold_constants(model)


def test_a_large_value_stays_computed(bench):
    text = "g (float[1,3,4,5] x) => (float[N,3,4,5] y) { e = Expand(k,s) y = Add(x,e) }"
    model = bench.model(bench.net(text, k=np.ones(1, np.float32), s=np.array([100_000, 3, 4, 5])))
    fold_constants(model)
    assert [n.op for n in model.graph.nodes] == ["Expand", "Add"]


def test_names_are_given_where_they_lack_and_changed_where_they_clash(bench):
    model = bench.model(bench.net("g (float[2] x) => (float[2] y) { a = Neg(x) b = Neg(a) c = Neg(b) y = Neg(c) }"))
    for node, name in zip(model.graph.nodes, ("", "same", "same", "same#2"), strict=True):
        node.name = name
    assert name_nodes(model)
    assert [n.name for n in model.graph.nodes] == ["Neg:a", "same", "same#3", "same#2"]
    assert not name_nodes(model)

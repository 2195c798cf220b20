from __future__ import annotations

import numpy as np
import pytest

from fts_converters.macs import macs_of
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.plan_nodes import plan_only, tensors_to_calibrate
from fts_converters.quantize.units import find_candidates
from fts_devices.profiles import load_profile

BLOCK = """g (float[1,8,4,4] x) => (float[1,8,4,4] y)
    { h = Conv(x,w) s = Sigmoid(h) m = Mul(h,s) t = Transpose<perm=[0,1,3,2]>(m) y = Conv(t,w) }"""


@pytest.fixture
def block(bench):
    return bench.net(BLOCK, w=bench.noise(8, 8, 1, 1))


def test_bridges_are_int8_between_integer_neighbours_only(bench, block):
    whole = bench.trial(block)
    assert {n.precision for n in whole.plan.nodes} == {"int8"}
    cut = bench.trial(block, kept_float={"Conv_0": "pinned"})
    assert {n.name for n in cut.plan.nodes if n.precision == "int8"} == {"Conv_4"}
    assert cut.reason("Conv_0") == "pinned"
    assert "between float neighbours" in cut.reason("Mul_2")


def test_one_float_bridge_takes_those_along_that_hang_on_it(bench, block):
    trial = bench.trial(block, kept_float={"Mul_2": "for the budget"})
    assert trial.precision("Sigmoid_1") == trial.precision("Transpose_3") == "fp32"
    assert trial.precision("Conv_0") == trial.precision("Conv_4") == "int8"


def test_alone_means_one_unit_with_what_is_folded_into_it(bench):
    net = bench.net(
        "g (float[1,8,4,4] x) => (float[1,8,4,4] y) { h = Conv(x,w) r = Relu(h) y = Conv(r,w) }",
        w=bench.noise(8, 8, 1, 1),
    )
    index, profile = GraphIndex(bench.model(net).to_proto()), load_profile("cpu-int8")
    plan = plan_only(index, find_candidates(index, profile), profile, profile.dialects["any"], "Conv_0")
    assert {n.name: n.precision for n in plan.nodes} == {"Conv_0": "int8", "Relu_1": "int8", "Conv_2": "fp32"}
    assert plan.by_name()["Relu_1"].reason == "folded into Conv 'Conv_0'"
    assert all(n.reason for n in plan.nodes)


@pytest.mark.parametrize("extra", ["float[1,8,4,4] h", "float[1,8,4,4] z"])
def test_an_activation_is_not_folded_where_its_input_is_wanted(bench, extra):
    other = "z = Neg(h)" if "z" in extra else ""
    text = f"g (float[1,8,4,4] x) => (float[1,8,4,4] y, {extra}) {{ h = Conv(x,w) y = Relu(h) {other} }}"
    net = bench.net(text, w=bench.noise(8, 8, 1, 1))
    index = GraphIndex(bench.model(net).to_proto())
    assert find_candidates(index, load_profile("cpu-int8")).units["Conv_0"].nodes == ("Conv_0",)


def test_calibrated_tensors_are_sorted_and_hold_no_constant(bench, block):
    index = GraphIndex(bench.model(block).to_proto())
    units = find_candidates(index, load_profile("cpu-int8")).units.values()
    tensors = tensors_to_calibrate(units, index, ["y", "extra"])
    assert tensors == tuple(sorted({"x", "h", "s", "m", "t", "y", "extra"}))


@pytest.mark.parametrize(
    ("op_type", "inputs", "output", "attributes", "macs"),
    [
        ("Conv", [(1, 3, 8, 8), (16, 3, 3, 3)], (1, 16, 6, 6), {}, 16 * 36 * 27),
        ("Conv", [(1, 16, 8, 8), (16, 1, 3, 3)], (1, 16, 6, 6), {"group": 16}, 16 * 36 * 9),
        ("ConvTranspose", [(1, 16, 4, 4), (16, 3, 2, 2)], (1, 3, 8, 8), {}, 16 * 16 * 3 * 4),
        ("Gemm", [(2, 8), (8, 5)], (2, 5), {}, 80),
        ("Gemm", [(8, 2), (8, 5)], (2, 5), {"transA": 1}, 80),
        ("MatMul", [(2, 3, 8), (8, 5)], (2, 3, 5), {}, 240),
        ("MatMul", [(8,), (8,)], (), {}, 8),
        ("Add", [(2, 3), (2, 3)], (2, 3), {}, 0),
    ],
)
def test_macs_by_hand(op_type, inputs, output, attributes, macs):
    assert macs_of(op_type, inputs, output, attributes) == macs


def test_names_of_an_index_hold_those_inside_subgraphs(bench):
    text = """g (float[2] x, bool c) => (float[2] y) { h = Neg(x)
        y = If(c) <then_branch = t () => (float[2] a) { inner = Abs(h) a = Neg(inner) },
                   else_branch = e () => (float[2] b) { b = Abs(k) }> }"""
    index = GraphIndex(bench.net(text, k=np.ones(2, np.float32)))
    assert {"inner", "a", "b", "h", "k", "x", "y", "c"} <= index.names
    assert {"h", "k"} <= index.captured
    assert index.only_reader("x") is not None
    assert index.only_reader("h") is None

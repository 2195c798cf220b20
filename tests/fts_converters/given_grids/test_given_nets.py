"""Scales that come with a net are taken over as they are, and nothing is quantized that was not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.fts_converters.given_grids.conftest import Taken, TakeOver, activation_scales, constants
from tests.fts_converters.given_grids.quantized_nets import (
    STYLES,
    QdqNet,
    asymmetric,
    foreign_bias_scale,
    four_bit_blocks,
    half_a_condition,
    integer_ends,
    joined_in_float,
    one_pair_before_pooling,
    partly,
    sixteen_bit,
    tensorrt,
    zero_point_a_channel,
)
from tests.generators.run_plain import run_plain

from fts_converters.check_equivalent import CleaningChangedTheNet
from fts_converters.given_grids import clean_given
from fts_converters.given_grids.take_over import take_over as take_over_net

# Sums of products in float32, in another order: of the output's range.
FLOAT_ROUNDING = 1e-5
# A value between two steps falls to either; its neighbour's step is the most that one such fall costs.
ONE_STEP = 1.01


def step_of(taken: Taken) -> float:
    """The coarsest step in the net: an output that is off by less fell to a neighbouring step, or reads one that did."""
    return max(activation_scales(taken.source), default=0.0)


@pytest.mark.parametrize("dialect", ["any", "vnni"])
@pytest.mark.parametrize("style", STYLES)
def test_computes_what_the_net_computed_as_it_came(taken_style, style: str, dialect: str):
    taken = taken_style(style, dialect)
    for reference, output in zip(taken.references, taken.outputs, strict=True):
        for a, b in zip(reference, output, strict=True):
            step = 1 if a.dtype.kind != "f" else step_of(taken)
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
            assert difference.max() <= ONE_STEP * step
            # only a few elements may lie so close between two steps
            assert (difference > FLOAT_ROUNDING * (float(np.ptp(a)) or 1.0)).mean() < 0.02


@pytest.mark.parametrize("style", STYLES)
def test_runs_in_integers_exactly_what_the_plan_says(taken_style, style: str):
    taken = taken_style(style)
    planned = {n.name for n in taken.plan.nodes if n.precision == "int8" and n.macs}
    assert planned == set(taken.kernels.integer_nodes) != set()
    assert taken.kernels.unmatched == ()
    assert all(n.reason for n in taken.plan.nodes)
    assert not any(n.op_type in ("QuantizeLinear", "DequantizeLinear") for n in taken.plan.nodes)


@pytest.mark.parametrize("style", STYLES)
def test_the_portable_net_is_float_and_the_same_function(taken_style, style: str):
    taken = taken_style(style)
    ops = {n.op_type for n in taken.given.portable.graph.node}
    assert not ops & {"QuantizeLinear", "DequantizeLinear"}
    for sample, reference in zip(taken.samples, taken.references, strict=True):
        for a, b in zip(reference, run_plain(taken.given.portable, sample), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=FLOAT_ROUNDING * float(np.abs(a.astype(np.float64)).max()))


@pytest.mark.parametrize("dialect", ["any", "vnni"])
@pytest.mark.parametrize("style", STYLES)
def test_every_scale_of_the_encoded_graph_came_with_the_net(taken_style, style: str, dialect: str):
    taken = taken_style(style, dialect)
    known, came = constants(taken.encoded), constants(taken.source)
    ends = {
        float(came[n.input[1]])
        for n in taken.source.graph.node
        if n.op_type == "DequantizeLinear" and n.input[0] == "x"
    }
    assert activation_scales(taken.encoded) <= activation_scales(taken.source) | ends
    scales = {came[n.input[1]].tobytes() for n in taken.source.graph.node if n.op_type == "DequantizeLinear"}
    read = [n for n in taken.encoded.graph.node if n.op_type == "DequantizeLinear" and n.input[0] in known]
    weights = [n for n in read if known[n.input[0]].dtype != np.int32]
    assert all(known[n.input[1]].tobytes() in scales for n in weights)


@pytest.mark.parametrize("dialect", ["any", "vnni"])
@pytest.mark.parametrize("style", STYLES)
def test_integer_weights_are_those_of_the_net_bit_by_bit(taken_style, style: str, dialect: str):
    """q - z of every weight that an integer kernel reads is q - z of a weight of the source, its Q computed by onnxruntime."""
    taken = taken_style(style, dialect)
    known = constants(taken.encoded)
    nodes = taken.encoded.graph.node
    read = [(n.input[0], n.input[2], _axis(n)) for n in nodes if n.op_type == "DequantizeLinear" and len(n.input) > 2]
    read += [(n.input[1], n.input[3], 0) for n in nodes if n.op_type == "ConvInteger"]
    kept = [known[q].astype(np.int32) - _spread(known[z], known[q], axis) for q, z, axis in read if q in known]
    given = _given_steps(taken.source)
    given += [g.T for g in given if g.ndim == 2]
    for steps in kept:
        assert any(steps.shape == g.shape and np.array_equal(steps, g) for g in given)
    assert len(kept) >= len([n for n in taken.plan.nodes if n.precision == "int8" and n.op_type in ("Conv", "Gemm")])


def _given_steps(source: onnx.ModelProto) -> list[np.ndarray]:
    known = constants(source)
    result = []
    for node in source.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[0] in known:
            values, scale = known[node.input[0]], _spread(known[node.input[1]], known[node.input[0]], _axis(node))
            q = np.clip(np.rint(values / scale), -128, 127).astype(np.int32)
            result.append(q)
        if node.op_type == "DequantizeLinear" and node.input[0] in known and known[node.input[0]].dtype.itemsize == 1:
            zero = known[node.input[2]] if len(node.input) > 2 else np.int8(0)
            result.append(known[node.input[0]].astype(np.int32) - _spread(zero, known[node.input[0]], _axis(node)))
    return result


def _axis(node: onnx.NodeProto) -> int:
    return next((a.i for a in node.attribute if a.name == "axis"), 1)


def _spread(values: np.ndarray, like: np.ndarray, axis: int) -> np.ndarray:
    values = values.astype(np.float32 if values.dtype.kind == "f" else np.int32)
    return values.reshape([-1 if a == axis else 1 for a in range(like.ndim)]) if values.size > 1 else values.reshape(())


@pytest.mark.parametrize("style", STYLES)
def test_weights_that_would_saturate_are_not_signed_where_the_instructions_are_missing(taken_style, style: str):
    encoded = taken_style(style, "any").encoded
    for values in constants(encoded).values():
        assert values.dtype != np.int8 or np.abs(values.astype(int)).max(initial=0) <= 64


def test_the_nets_of_these_tests_would_saturate():
    """Or the tests above would prove nothing: sums of neighbouring u8*s8 products leave 16 bits by far."""
    q = QdqNet(1).integers(8, 3, 3, 3)
    pairs = 255 * np.abs(q.reshape(8, -1)[:, :26].reshape(8, -1, 2).astype(int).sum(-1))
    assert pairs.max() > 1.5 * 2**15


def test_convolutions_without_an_output_scale_give_floats_from_integers(take_over: TakeOver):
    taken = take_over(tensorrt())
    assert taken.kernels.integer_mac_share == 1.0
    assert taken.kernels.kernels["ConvInteger"] == 3  # two are read by the residual in float, one is the output
    assert {n.op_type for n in taken.plan.nodes if n.precision == "fp32"} == {"Relu", "Add"}
    for reference, output in zip(taken.references, taken.outputs, strict=True):
        np.testing.assert_allclose(reference[0], output[0], atol=1e-5)


@pytest.mark.parametrize("make", [one_pair_before_pooling, joined_in_float])
def test_grids_cross_what_only_moves_values(take_over: TakeOver, make):
    taken = take_over(make())
    assert taken.kernels.kernels["QLinearConv"] == 2
    moved = {n.op_type: n.precision for n in taken.plan.nodes if n.op_type in ("MaxPool", "Concat")}
    assert set(moved.values()) == {"int8"}


@pytest.mark.parametrize("side", ["grid in front", "grid behind"])
@pytest.mark.parametrize("op_type", ["Resize", "Pad", "reflecting Pad", "Slice"])
def test_grids_cross_what_has_no_integer_kernel_but_moves_values(take_over: TakeOver, op_type: str, side: str):
    net = QdqNet(25)
    h = net.op("Relu", [net.conv(net.qdq("x", 1 / 255, np.uint8(0)), 3, 8)])
    h = net.qdq(h, 2 / 255, np.uint8(0)) if side == "grid in front" else h
    if op_type == "Resize":
        h = net.op("Resize", [h, "", net.const(np.array([1, 1, 2, 2], np.float32))], mode="nearest")
    elif op_type == "Slice":
        h = net.op("Slice", [h, *(net.const(np.array([v])) for v in (1, 9, 2))])
    else:
        mode = "reflect" if op_type == "reflecting Pad" else "constant"
        h = net.op("Pad", [h, net.const(np.array([0, 0, 2, 2, 0, 0, 2, 2]))], mode=mode)
    h = net.qdq(h, 2 / 255, np.uint8(0)) if side == "grid behind" else h
    taken = take_over(net.model(net.qdq(net.conv(h, 8, 3), 3 / 255, np.uint8(128))))
    assert taken.kernels.kernels["QLinearConv"] == 2
    for a, b in zip(taken.references, taken.outputs, strict=True):
        assert np.abs(a[0] - b[0]).max() <= ONE_STEP * 3 / 255


@pytest.mark.parametrize("op_type", ["linear Resize", "Pad with ones"])
def test_grids_do_not_cross_what_makes_new_values(take_over: TakeOver, op_type: str):
    net = QdqNet(26)
    h = net.qdq(net.op("Relu", [net.conv(net.qdq("x", 1 / 255, np.uint8(0)), 3, 8)]), 2 / 255, np.uint8(0))
    if op_type == "linear Resize":
        h = net.op("Resize", [h, "", net.const(np.array([1, 1, 2, 2], np.float32))], mode="linear")
    else:
        h = net.op("Pad", [h, net.const(np.array([0, 0, 2, 2, 0, 0, 2, 2])), net.const(np.float32(1))])
    taken = take_over(net.model(net.qdq(net.conv(h, 8, 3), 3 / 255, np.uint8(128))))
    assert [n.precision for n in taken.plan.nodes if n.op_type == "Conv"] == ["int8", "fp32"]
    for a, b in zip(taken.references, taken.outputs, strict=True):
        assert np.abs(a[0] - b[0]).max() <= ONE_STEP * 3 / 255


def test_everything_of_an_integer_net_is_integer(take_over: TakeOver):
    taken = take_over(asymmetric())
    assert {n.precision for n in taken.plan.nodes} == {"int8"}


def test_what_came_in_float_stays_in_float(take_over: TakeOver):
    taken = take_over(partly())
    in_float = {n.op_type: n.reason for n in taken.plan.nodes if n.precision == "fp32"}
    assert {"Conv", "Relu", "InstanceNormalization", "ConvTranspose", "Tanh"} == set(in_float)
    assert "came in float and stays so" in in_float["Conv"]
    assert taken.given.count.activations == 3


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (sixteen_bit, "what it reads came with int16, which no integer kernel reads"),
        (zero_point_a_channel, "a zero point a channel"),
        (foreign_bias_scale, "weight scales lie along axis 1"),
        (four_bit_blocks, "no scale of 8 bits for its operand"),
    ],
)
def test_grids_that_no_kernel_takes_stay_in_float_with_the_reason(take_over: TakeOver, make, reason: str):
    taken = take_over(make())
    assert any(reason in n.reason and n.precision == "fp32" and n.macs for n in taken.plan.nodes)


def test_a_bias_that_overflows_32_bits_keeps_its_convolution_in_float(take_over: TakeOver):
    net = QdqNet(20)
    x = net.qdq("x", 1e-4, np.uint8(0))
    w = net.dequantize(net.const(net.integers(4, 3, 1, 1)), np.full(4, 1e-6), np.zeros(4, np.int8), axis=0)
    y = net.qdq(net.op("Conv", [x, w, net.const(np.array([0, 1, 2, 3], np.float32))]), 4 / 255, np.uint8(0))
    taken = take_over(net.model(net.qdq(net.conv(y, 4, 3), 4 / 255, np.uint8(128))))
    reasons = [n.reason for n in taken.plan.nodes if n.op_type == "Conv"]
    assert "overflows 32 bits" in reasons[0]
    assert "integer" in reasons[1]
    # The net computes in float32 what came in float16: half a step of the grid stays half a step.
    np.testing.assert_allclose(taken.outputs[0][0], taken.references[0][0], atol=np.finfo(np.float16).eps)


def test_integers_at_the_ends_of_a_net_keep_their_type(take_over: TakeOver):
    taken = take_over(integer_ends())
    assert taken.outputs[0][0].dtype == np.uint8
    assert taken.kernels.integer_mac_share == 1.0


def test_q_and_dq_inside_a_condition_are_spelled_in_float(take_over: TakeOver):
    taken = take_over(half_a_condition())
    (branching,) = [n for n in taken.encoded.graph.node if n.op_type == "If"]
    for attribute in branching.attribute:
        assert "Round" in {n.op_type for n in attribute.g.node}
        assert not {"QuantizeLinear", "DequantizeLinear"} & {n.op_type for n in attribute.g.node}


def test_a_scale_computed_from_the_picture_is_spelled_and_stays_in_float(take_over: TakeOver):
    net = QdqNet(21)
    scale = net.op("Div", [net.op("ReduceMax", ["x"], keepdims=0), net.const(np.float32(255))])
    zero = net.const(np.uint8(3))
    x = net.op("DequantizeLinear", [net.op("QuantizeLinear", ["x", scale, zero]), scale, zero])
    y = net.qdq(net.conv(x, 3, 4), 3 / 255, np.uint8(128))
    taken = take_over(net.model(net.qdq(net.conv(y, 4, 3), 3 / 255, np.uint8(128))))
    precisions = [(n.precision, n.reason) for n in taken.plan.nodes if n.op_type == "Conv"]
    assert precisions[0][0] == "fp32"
    assert "computed scales" in precisions[0][1]
    assert precisions[1][0] == "int8"
    for a, b in zip(taken.references, taken.outputs, strict=True):
        assert np.abs(a[0] - b[0]).max() <= ONE_STEP * 3 / 255


def test_activations_with_a_scale_a_channel_stay_in_float(take_over: TakeOver):
    net = QdqNet(22)
    scale, zero = net.const(np.array([0.004, 0.003, 0.002], np.float32)), net.const(np.array([1, 2, 3], np.uint8))
    q = net.op("QuantizeLinear", ["x", scale, zero], axis=1)
    x = net.op("DequantizeLinear", [q, scale, zero], axis=1)
    y = net.qdq(net.conv(x, 3, 4), 3 / 255, np.uint8(128))
    taken = take_over(net.model(net.qdq(net.conv(y, 4, 3), 3 / 255, np.uint8(128))))
    assert [n.precision for n in taken.plan.nodes if n.op_type == "Conv"] == ["fp32", "int8"]
    # The net computes in float32 what came in float16: half a step of the grid stays half a step.
    np.testing.assert_allclose(taken.outputs[0][0], taken.references[0][0], atol=np.finfo(np.float16).eps)


def test_a_clip_between_convolution_and_q_keeps_both_bounds(take_over: TakeOver):
    net = QdqNet(23)
    h = net.conv(net.qdq("x", 1 / 255, np.uint8(0)), 3, 8)
    clipped = net.op("Clip", [h, net.const(np.float32(-0.35)), net.const(np.float32(0.5))])
    y = net.qdq(clipped, 3 / 255, np.uint8(128))
    taken = take_over(net.model(net.qdq(net.conv(y, 8, 3), 3 / 255, np.uint8(128)), y))
    assert taken.kernels.kernels["QLinearConv"] == 2
    assert [n.reason for n in taken.plan.nodes if n.op_type == "Clip"] == ["folded into Conv 'Conv_3'"]
    reference, output = taken.references[0][1], taken.outputs[0][1]
    assert (output.min(), output.max()) == (reference.min(), reference.max())
    assert np.abs(reference - output).max() <= ONE_STEP * 3 / 255


def test_a_tensor_read_in_float_too_is_not_rounded_for_that_reader(take_over: TakeOver):
    """The residual reads what came before the Q: its value does not lie on the grid."""
    taken = take_over(tensorrt())
    q = [
        n
        for n in taken.encoded.graph.node
        if n.op_type == "Add" and len({*n.input} & set(constants(taken.encoded))) == 0
    ]
    assert len(q) == 1
    made = {o: n.op_type for n in taken.encoded.graph.node for o in n.output}
    assert {made[i] for i in q[0].input} <= {"Relu", "Add"}


def test_a_net_is_taken_over_the_same_way_twice(take_over: TakeOver):
    first, second = take_over(asymmetric()), take_over(asymmetric())
    assert first.encoded.SerializeToString(deterministic=True) == second.encoded.SerializeToString(deterministic=True)
    again = take_over_net(first.given.spread, "net.onnx")
    assert len(again.spread.graph.node) == len(first.given.spread.graph.node)


def test_a_spelling_that_changes_the_net_is_a_defect_that_is_caught(take_over: TakeOver, monkeypatch):
    real = clean_given.take_over

    def off_by_one(proto, source):
        given = real(proto, source)
        for node in given.portable.graph.node:
            if node.op_type == "Round":
                node.op_type = "Floor"
        return given

    monkeypatch.setattr(clean_given, "take_over", off_by_one)
    with pytest.raises(CleaningChangedTheNet, match="spelling Q and DQ"):
        take_over(asymmetric())


def test_half_precision_q_and_dq_are_spelled_and_stay_in_float(take_over: TakeOver):
    net = QdqNet(24)
    net.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [1, 3, 12, 12])]
    scale, zero = net.const(np.float16(1 / 255)), net.const(np.uint8(0))
    x = net.op("DequantizeLinear", [net.op("QuantizeLinear", ["x", scale, zero]), scale, zero])
    model = net.model(net.op("Cast", [x], to=TensorProto.FLOAT), opset=19)
    samples = [{"x": np.random.default_rng(s).random((1, 3, 12, 12)).astype(np.float16)} for s in range(2)]
    taken = take_over(model, samples=samples)
    # The net computes in float32 what came in float16: half a step of the grid stays half a step.
    np.testing.assert_allclose(taken.outputs[0][0], taken.references[0][0], atol=np.finfo(np.float16).eps)

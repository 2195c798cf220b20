"""Quantized operators spelled as DQ -> op -> Q compute what they did; what cannot be spelled is refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.fts_converters.given_grids.quantized_nets import QdqNet, feeds
from tests.generators.run_plain import run_plain

from fts.errors import ModelError
from fts_converters.given_grids.integer_operators import spell_integer_operators
from fts_converters.load import QUANTIZED, load_model

MS = {"domain": "com.microsoft"}


def spelled(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return spell_integer_operators(copy, Path("net.onnx"), QUANTIZED.fullmatch)


def integer_net() -> onnx.ModelProto:
    """Every operator with a spelled form, in onnxruntime's QOperator manner; weights of 6 bits, so that no sum saturates."""
    net = QdqNet(3)
    net.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])]

    def grid(scale: float, zero: int, kind: type = np.uint8) -> list[str]:
        return [net.const(np.float32(scale)), net.const(kind(zero))]

    x = grid(1 / 255, 0)
    a = grid(0.01, 100)
    q = net.op("QuantizeLinear", ["x", *x])
    w = net.const(net.rng.integers(-31, 32, (4, 3, 3, 3)).astype(np.int8))
    ws = [net.const(net.rng.uniform(0.001, 0.01, 4).astype(np.float32)), net.const(np.zeros(4, np.int8))]
    bias = net.const(net.rng.integers(-20000, 20000, 4).astype(np.int32))
    conv = net.op("QLinearConv", [q, *x, w, *ws, *a, bias], pads=[1] * 4)
    sigmoid = net.op("QLinearSigmoid", [conv, *a, *grid(1 / 256, 0)], **MS)
    product = net.op("QLinearMul", [conv, *a, sigmoid, *grid(1 / 256, 0), *a], **MS)
    total = net.op("QLinearAdd", [conv, *a, product, *a, *grid(0.02, 110)], **MS)
    leaky = net.op("QLinearLeakyRelu", [total, *grid(0.02, 110), *grid(0.015, 60)], alpha=0.1, **MS)
    joined = net.op("QLinearConcat", [*grid(0.02, 90), leaky, *grid(0.015, 60), conv, *a], axis=1, **MS)
    mean = net.op(
        "QLinearAveragePool", [joined, *grid(0.02, 90), *grid(0.02, 90)], kernel_shape=[2, 2], strides=[2, 2], **MS
    )
    pooled = net.op("QLinearGlobalAveragePool", [mean, *grid(0.02, 90), *grid(0.02, 90)], channels_last=0, **MS)
    flat = net.op("Reshape", [pooled, net.const(np.array([1, 8]))])
    w2 = net.const(net.rng.integers(-31, 32, (8, 4)).astype(np.int8))
    ws2 = [net.const(net.rng.uniform(0.01, 0.05, 4).astype(np.float32)), net.const(np.zeros(4, np.int8))]
    product2 = net.op("QLinearMatMul", [flat, *grid(0.02, 90), w2, *ws2, *grid(0.03, 128)])
    bias2 = net.const(net.rng.integers(-200, 200, 3).astype(np.int32))
    w3 = net.const(net.rng.integers(-31, 32, (3, 4)).astype(np.int8))
    ws3 = [net.const(np.float32(0.01)), net.const(np.int8(0))]
    gemm = net.op("QGemm", [product2, *grid(0.03, 128), w3, *ws3, bias2, *grid(0.02, 128)], transB=1, **MS)
    soft = net.op("QLinearSoftmax", [gemm, *grid(0.02, 128), *grid(1 / 256, 0)], axis=1, opset=13, **MS)
    y = net.op("DequantizeLinear", [soft, *grid(1 / 256, 0)])
    z = net.op("DequantizeLinear", [mean, *grid(0.02, 90)])
    v = net.op("DequantizeLinear", [gemm, *grid(0.02, 128)])
    model = net.model(y, z, v)
    for value, shape in zip(model.graph.output, ([1, 3], [1, 8, 3, 3], [1, 3]), strict=True):
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, shape))
    return model


def test_every_operator_with_a_spelled_form_keeps_its_result_to_a_step():
    net = integer_net()
    known = {n.op_type for n in net.graph.node}
    result = spelled(net)
    onnx.checker.check_model(result, full_check=True)
    left = {n.op_type for n in result.graph.node if QUANTIZED.fullmatch(n.op_type)}
    assert left == {"QuantizeLinear", "DequantizeLinear"}
    assert len([o for o in known if o.startswith("Q")]) == 12
    for feed in feeds(net, 4):
        for step, before, after in zip(
            (1 / 256, 0.02, 0.02), run_plain(net, feed), run_plain(result, feed), strict=True
        ):
            assert before.std() > 2 * step or step == 1 / 256
            assert np.abs(before - after).max() <= 1.01 * step


def test_names_of_nodes_and_outputs_stay():
    before = integer_net()
    after = spelled(before)
    assert {n.name for n in before.graph.node} <= {n.name for n in after.graph.node}
    assert len({n.name for n in after.graph.node}) == len(after.graph.node)
    assert [o.name for o in after.graph.output] == [o.name for o in before.graph.output]


@pytest.mark.parametrize(
    ("op_type", "domain"),
    [
        ("DynamicQuantizeLinear", ""), ("MatMulInteger", ""), ("ConvInteger", ""), ("MatMulNBits", "com.microsoft"),
        ("DynamicQuantizeMatMul", "com.microsoft"), ("QAttention", "com.microsoft"),
    ],
)  # fmt: skip
def test_an_operator_without_fixed_scales_is_refused_by_name(op_type, domain):
    net = QdqNet()
    model = net.model(net.op("Relu", ["x"]))
    model.graph.node.append(helper.make_node(op_type, ["x"], ["k"], name="q7", domain=domain))
    said = rf"node 'q7': the net is already quantized \({op_type}\), and its scales cannot"
    with pytest.raises(ModelError, match=said):
        spelled(model)


def test_a_computed_scale_of_an_integer_operator_is_refused():
    net = QdqNet()
    scale = net.op("ReduceMax", ["x"], keepdims=0)
    zero = net.const(np.uint8(0))
    q = net.op("QuantizeLinear", ["x", scale, zero])
    w = net.const(np.ones((1, 3, 1, 1), np.int8))
    one = [net.const(np.float32(1)), net.const(np.int8(0))]
    y = net.op("QLinearConv", [q, scale, zero, w, *one, net.const(np.float32(1)), zero])
    with pytest.raises(ModelError, match=f"its scale {scale!r} is computed"):
        spelled(net.model(y, dtype=TensorProto.UINT8))


def test_channels_last_is_refused():
    net = QdqNet()
    g = [net.const(np.float32(1)), net.const(np.uint8(0))]
    y = net.op("QLinearGlobalAveragePool", [net.op("QuantizeLinear", ["x", *g]), *g, *g], channels_last=1, **MS)
    with pytest.raises(ModelError, match="channels last"):
        spelled(net.model(y, dtype=TensorProto.UINT8))


@pytest.mark.parametrize("kind", ["float8", "computed_blocks", "four_bit_activations"])
def test_grids_that_no_float_operator_spells_are_refused(kind):
    net = QdqNet(channels=4)
    if kind == "float8":
        zero = helper.make_tensor("z8", TensorProto.FLOAT8E4M3FN, [], [0.0])
        net.constants.append(zero)
        net.op(
            "DequantizeLinear",
            [net.op("QuantizeLinear", ["x", net.const(np.float32(1)), "z8"]), net.const(np.float32(1)), "z8"],
            "y",
        )
    elif kind == "computed_blocks":
        scale = net.const(np.ones((1, 2, 12, 12), np.float32))
        net.op(
            "DequantizeLinear",
            [net.op("QuantizeLinear", ["x", scale], axis=1, block_size=2), scale],
            "y",
            axis=1,
            block_size=2,
        )
    else:
        net.constants.append(helper.make_tensor("z4", TensorProto.INT4, [], [0]))
        net.op(
            "DequantizeLinear",
            [net.op("QuantizeLinear", ["x", net.const(np.float32(1)), "z4"]), net.const(np.float32(1)), "z4"],
            "y",
        )
    reason = "one scale a block" if kind == "computed_blocks" else "expected 8 or 16 bits"
    with pytest.raises(ModelError, match=reason):
        spelled(net.model("y", opset=21))


def test_q_and_dq_of_the_contributed_domain_become_standard(tmp_path):
    net = QdqNet(2)
    y = net.qdq(net.conv(net.qdq("x", 1 / 255, np.uint8(0), **MS), 3, 4), 1 / 1000, np.uint16(0), **MS)
    model = net.model(y, shape=[1, 4, 12, 12])
    onnx.save(model, tmp_path / "net.onnx")
    loaded = load_model(str(tmp_path / "net.onnx"))
    assert loaded.opset == 21  # 16 bits exist in the standard from there on
    assert {n.domain or "" for n in loaded.graph.nodes} == {""}
    for feed in feeds(model):
        np.testing.assert_array_equal(run_plain(model, feed)[0], run_plain(loaded.to_proto(), feed)[0])


def test_blocks_of_constants_become_float_constants_exactly():
    net = QdqNet(5)
    q = net.rng.integers(0, 16, (6, 4))
    net.constants.append(helper.make_tensor("w4", TensorProto.UINT4, [6, 4], q.reshape(-1).tolist()))
    zero = net.rng.integers(0, 16, (3, 4))
    net.constants.append(helper.make_tensor("z4", TensorProto.UINT4, [3, 4], zero.reshape(-1).tolist()))
    scale = net.rng.uniform(0.01, 0.02, (3, 4)).astype(np.float32)
    net.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6])]
    w = net.op("DequantizeLinear", ["w4", net.const(scale), "z4"], axis=0, block_size=2)
    result = spelled(net.model(net.op("MatMul", ["x", w]), opset=21))
    expected = (q - np.repeat(zero, 2, axis=0)).astype(np.float32) * np.repeat(scale, 2, axis=0)
    values = [numpy_helper.to_array(t) for t in result.graph.initializer if t.data_type == TensorProto.FLOAT]
    assert any(np.array_equal(v, expected) for v in values)
    assert not any(n.op_type == "DequantizeLinear" for n in result.graph.node)

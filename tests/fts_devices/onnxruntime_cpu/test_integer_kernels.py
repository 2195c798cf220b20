"""The integer share is what ONNX Runtime executes, not what the file asks for."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

from fts_devices.onnxruntime_cpu.integer_kernels import integer_kernels, kernel_report

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
MACS = {"conv": 8 * 36 * 27}


def qdq_conv(body: str, name: str = "conv", **changed: np.ndarray) -> bytes:
    """A Conv on a quantized input; `body` says how its operands and output look."""
    rng = np.random.default_rng(0)
    constants = {
        "s": np.float32(0.05), "z": np.uint8(128),
        "wq": rng.integers(-63, 64, (8, 3, 3, 3), dtype=np.int8), "ws": np.full(8, 0.01, np.float32), "wz": np.zeros(8, np.int8),
        "bq": np.arange(8, dtype=np.int32), "bs": np.full(8, np.float32(0.05) * np.float32(0.01), np.float32),
        "w": rng.normal(size=(8, 3, 3, 3)).astype(np.float32), "b": rng.normal(size=8).astype(np.float32), **changed,
    }  # fmt: skip
    model = parser.parse_model(f"{HEADER} g (float[1,3,8,8] x) => (float[1,8,6,6] y) {{ {body} }}")
    read = {i for n in model.graph.node for i in n.input}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items() if k in read)
    for node in model.graph.node:
        node.name = name if node.op_type == "Conv" else node.output[0]
    return model.SerializeToString()


INPUT = "xq = QuantizeLinear(x,s,z) xd = DequantizeLinear(xq,s,z)"
WEIGHT = "wd = DequantizeLinear<axis=0>(wq,ws,wz)"
BIAS = "bd = DequantizeLinear<axis=0>(bq,bs)"
OUTPUT = "yq = QuantizeLinear(h,s,z) y = DequantizeLinear(yq,s,z)"


def test_a_whole_group_counts():
    report = integer_kernels(qdq_conv(f"{INPUT} {WEIGHT} {BIAS} h = Conv(xd,wd,bd) {OUTPUT}"), MACS)
    assert report.integer_mac_share == 1.0
    assert report.integer_nodes == ("conv",)
    assert report.kernels["QLinearConv"] == 1


@pytest.mark.parametrize(
    "body",
    [
        f"{INPUT} y = Conv(xd,w,b)",
        f"{INPUT} {WEIGHT} {BIAS} y = Conv(xd,wd,bd)",
        f"{WEIGHT} {BIAS} h = Conv(x,wd,bd) {OUTPUT}",
        f"{INPUT} {WEIGHT} {BIAS} k = Conv(xd,wd,bd) h = Tanh(k) {OUTPUT}",
        f"{INPUT} {WEIGHT} m = ReduceMean<keepdims=0>(x) n = Add(b,m) h = Conv(xd,wd,n) {OUTPUT}",
    ],
    ids=["no Q behind, float weight", "no Q behind", "no Q in front", "Tanh in front of Q", "computed bias"],
)
def test_a_qdq_file_that_executes_in_float_scores_zero(body):
    model = qdq_conv(body)
    assert "DequantizeLinear" in {n.op_type for n in onnx.load_model_from_string(model).graph.node}
    report = integer_kernels(model, MACS)
    assert report.integer_mac_share == 0.0
    assert report.float_nodes == ("conv",)
    assert report.integer_nodes == ()


def test_the_share_is_of_multiply_accumulates_not_of_nodes():
    report = integer_kernels(
        qdq_conv(f"{INPUT} {WEIGHT} {BIAS} h = Conv(xd,wd,bd) {OUTPUT}"), {"conv": 1000, "elsewhere": 3000}
    )
    assert report.integer_mac_share == 0.25
    assert report.float_nodes == ("elsewhere",)


def test_a_net_without_macs_has_share_zero():
    assert integer_kernels(qdq_conv(f"{INPUT} y = Conv(xd,w,b)"), {}).integer_mac_share == 0.0


@pytest.mark.parametrize("name", ["x_token_1", "a_nhwc", "a_token_1_token_2", "über/conv:0", "source[0]"])
def test_a_node_really_called_like_a_renamed_one_is_found(name):
    model = qdq_conv(f"{INPUT} {WEIGHT} {BIAS} h = Conv(xd,wd,bd) {OUTPUT}", name)
    report = integer_kernels(model, {name: 7, "x": 5, "a": 5, "a_token_1": 5})
    assert report.integer_nodes == (name,)
    assert report.integer_mac_share == 7 / 22


def test_a_float_node_called_like_a_renamed_integer_one_does_not_count():
    """Conv "c" is moved and becomes "c_token_N"; whatever N is, one of the float nodes below has that name."""
    text = f"{INPUT} {WEIGHT} {BIAS} h = Conv(xd,wd,bd) {OUTPUT}"
    model = onnx.load_model_from_string(qdq_conv(text, "c"))
    lookalikes = [f"c_token_{n}" for n in range(20)]
    for name in lookalikes:
        model.graph.node.append(helper.make_node("Conv", ["x", "w"], [f"{name}_out"], name=name))
        model.graph.output.append(helper.make_tensor_value_info(f"{name}_out", onnx.TensorProto.FLOAT, None))
    model.graph.initializer.append(numpy_helper.from_array(np.ones((8, 3, 3, 3), np.float32), "w"))
    report = integer_kernels(model.SerializeToString(), {"c": 1, **{n: 1 for n in lookalikes}})
    assert report.integer_nodes == ("c",)
    assert report.integer_mac_share == 1 / 21


def graph(*nodes: tuple[str, str]) -> onnx.ModelProto:
    made = [helper.make_node(op, ["x"], [f"o{i}"], name=name) for i, (op, name) in enumerate(nodes)]
    return helper.make_model(helper.make_graph(made, "g", [], []))


@pytest.mark.parametrize(
    "name", ["c", "c_token_7", "c_nhwc", "c_token_1_token_12", "c_NhwcTransformed_3", "c/MatMulAddFusion"]
)
def test_renamed_kernels_are_matched(name):
    assert kernel_report(graph(("QLinearConv", name)), {"c": 1}).integer_nodes == ("c",)


def test_the_longest_name_wins():
    report = kernel_report(graph(("QLinearConv", "c_token_1_token_2")), {"c": 1, "c_token_1": 1})
    assert report.integer_nodes == ("c_token_1",)


@pytest.mark.parametrize("name", ["", "d", "c_token_", "c_token_x", "ctoken_1", "token_1"])
def test_unmatched_kernels_count_for_nothing(name):
    report = kernel_report(graph(("QLinearConv", name)), {"c": 1})
    assert report.unmatched == (name,)
    assert report.integer_mac_share == 0.0
    assert report.float_nodes == ("c",)


def test_a_node_of_which_one_kernel_is_float_does_not_count():
    report = kernel_report(graph(("QLinearConv", "c"), ("FusedConv", "c_token_1")), {"c": 1})
    assert report.integer_mac_share == 0.0
    assert report.float_nodes == ("c",)


def test_two_integer_kernels_of_one_node_count_once():
    assert kernel_report(graph(("MatMulInteger", "c"), ("QLinearMatMul", "c")), {"c": 4}).integer_mac_share == 1.0


def test_kernels_are_counted_by_type():
    report = kernel_report(graph(("QLinearConv", "c"), ("QLinearConv", "d"), ("Relu", "r")), {"c": 1, "d": 1})
    assert dict(report.kernels) == {"QLinearConv": 2, "Relu": 1}

"""A narrow Conv as a wide one: the same values for every kernel, stride and pad, and left alone where it gains nothing."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tests.generators.run_plain import run_plain

from fts_converters.lower.widen_narrow_conv import widen_narrow_conv
from fts_converters.model import Model, model_from_proto

# Sums of at most 6 * 7 * 7 products of values below 5, in another order.
ROUNDING = 2e-4


def conv_net(
    *,
    outputs: int,
    inputs: int,
    kernel: list[int],
    size: list[int],
    behind: str = "",
    seed: int = 0,
    **attributes: object,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    weights = {
        "w": rng.normal(size=(outputs, inputs // int(attributes.get("group", 1)), *kernel)).astype(np.float32),  # type: ignore[call-overload]
        "b": rng.normal(size=outputs).astype(np.float32),
        "low": np.float32(-0.5),
        "high": np.float32(0.75),
    }
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c" if behind else "y"], name="narrow", **attributes)]
    if behind:
        operands = ["c", "low", "high"] if behind == "Clip" else ["c"]
        nodes.append(helper.make_node(behind, operands, ["y"], name="behind"))
    shape = [1, inputs, *size]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    net = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnx.shape_inference.infer_shapes(net), {"x": rng.normal(size=shape).astype(np.float32)}


def imported(net: onnx.ModelProto) -> Model:
    return model_from_proto(net, source="net", source_sha256="")


@st.composite
def narrow_convs(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    def pair(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=2, max_size=2))

    kernel, strides, size, begin, end = pair(1, 7), pair(1, 3), pair(4, 17), pair(0, 3), pair(0, 3)
    assume(all(n + b + e >= k for n, b, e, k in zip(size, begin, end, kernel, strict=True)))
    return conv_net(
        outputs=draw(st.integers(1, 4)),
        inputs=draw(st.integers(1, 6)),
        kernel=kernel,
        size=size,
        behind=draw(st.sampled_from(["", "Relu", "Clip", "Tanh"])),
        seed=draw(st.integers(0, 2**32 - 1)),
        strides=strides,
        pads=begin + end,
    )


@given(case=narrow_convs())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_it_is_exact_and_keeps_the_name(case: tuple[onnx.ModelProto, dict[str, np.ndarray]]) -> None:
    net, feeds = case
    model = imported(net)
    is_changed = widen_narrow_conv(model).is_changed
    after = model.to_proto()
    onnx.checker.check_model(after, full_check=True)
    assert "narrow" in [n.name for n in after.graph.node if n.op_type == "Conv"]
    assert is_changed == ("DepthToSpace" in [n.op_type for n in after.graph.node])
    (a,), (b,) = run_plain(net, feeds), run_plain(after, feeds)
    assert a.shape == b.shape
    assert float(np.abs(a - b).max()) <= ROUNDING
    assert not widen_narrow_conv(model).is_changed


@pytest.mark.parametrize("size", [[16, 16], [13, 18]])
@pytest.mark.parametrize("behind", ["Relu", "Clip"])
def test_an_activation_stays_with_the_conv(behind: str, size: list[int]) -> None:
    net, feeds = conv_net(outputs=3, inputs=8, kernel=[7, 7], size=size, behind=behind, pads=[3, 3, 3, 3])
    model = imported(net)
    assert widen_narrow_conv(model).is_changed
    operators = [n.op for n in model.graph.nodes]
    assert operators[:3] == ["Conv", behind, "DepthToSpace"]
    np.testing.assert_allclose(run_plain(model.to_proto(), feeds)[0], run_plain(net, feeds)[0], atol=ROUNDING)


@pytest.mark.parametrize(
    "kind",
    [
        {"outputs": 64, "inputs": 8, "kernel": [7, 7]},
        {"outputs": 3, "inputs": 8, "kernel": [3, 3], "dilations": [2, 2]},
        {"outputs": 2, "inputs": 4, "kernel": [7, 7], "group": 2},
        {"outputs": 3, "inputs": 8, "kernel": [7, 7], "auto_pad": "SAME_UPPER"},
    ],
)
def test_others_stay(kind: dict[str, object]) -> None:
    net, _ = conv_net(size=[24, 24], **kind)  # type: ignore[arg-type]
    assert not widen_narrow_conv(imported(net)).is_changed


def test_a_conv_named_like_its_output_leaves_no_two_nodes_of_one_name() -> None:
    net, feeds = conv_net(outputs=3, inputs=8, kernel=[7, 7], size=[13, 18], pads=[3, 3, 3, 3])
    net.graph.node[0].name = net.graph.node[0].output[0]
    model = imported(net)
    assert widen_narrow_conv(model).is_changed
    names = [n.name for n in model.graph.nodes]
    assert len(set(names)) == len(names)
    np.testing.assert_allclose(run_plain(model.to_proto(), feeds)[0], run_plain(net, feeds)[0], atol=ROUNDING)

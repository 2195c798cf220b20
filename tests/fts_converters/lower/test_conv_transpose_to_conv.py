"""ConvTranspose as Conv and DepthToSpace: exact for every kernel, stride, pad, dilation, group and output padding."""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tests.generators.run_plain import run_plain

from fts_converters.lower.conv_transpose_to_conv import conv_transpose_to_conv
from fts_converters.model import model_from_proto

# Sums of at most 3 * 5 * 5 products of values below 5, in another order.
ROUNDING = 1e-4


@st.composite
def nets(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    axes = draw(st.integers(1, 3))
    groups, per_group_in, per_group_out = (draw(st.integers(1, 3)) for _ in range(3))

    def sizes(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes))

    kernel, strides, dilations, size = (
        sizes(1, 5 if axes < 3 else 3),
        sizes(1, 4 if axes < 3 else 2),
        sizes(1, 2),
        sizes(2, 6),
    )
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    begin, end = ([draw(st.integers(0, r)) for r in reach] for _ in range(2))
    extra = [draw(st.integers(0, s - 1)) for s in strides]
    out = [
        (n - 1) * s + r + 1 - b - e + x
        for n, s, r, b, e, x in zip(size, strides, reach, begin, end, extra, strict=True)
    ]
    assume(min(out) >= 1)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = {
        "w": rng.normal(size=(groups * per_group_in, per_group_out, *kernel)).astype(np.float32),
        "b": rng.normal(size=groups * per_group_out).astype(np.float32),
    }
    node = helper.make_node(
        "ConvTranspose", ["x", "w", "b"], ["y"], name="up", strides=strides, pads=begin + end, output_padding=extra,
        dilations=dilations, group=groups, kernel_shape=kernel,
    )  # fmt: skip
    shape = [1, groups * per_group_in, *size]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, groups * per_group_out, *out])],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return model, {"x": rng.normal(size=shape).astype(np.float32)}


@given(case=nets())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_it_is_exact_and_keeps_the_name(case: tuple[onnx.ModelProto, dict[str, np.ndarray]]) -> None:
    net, feeds = case
    model = model_from_proto(net, source="net", source_sha256="")
    result = conv_transpose_to_conv(model)
    assert result.refusals == ()
    after = model.to_proto()
    onnx.checker.check_model(after, full_check=True)
    assert "ConvTranspose" not in [n.op_type for n in after.graph.node]
    assert "up" in [n.name for n in after.graph.node if n.op_type == "Conv"]
    (a,), (b,) = run_plain(net, feeds), run_plain(after, feeds)
    assert a.shape == b.shape
    assert float(np.abs(a - b).max()) <= ROUNDING


def test_computed_weights_stay_with_the_reason() -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="up")
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 1, 3, 3]) for n in ("x", "w")]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 5, 5])]
    net = helper.make_model(helper.make_graph([node], "g", values, out), opset_imports=[helper.make_opsetid("", 13)])
    model = model_from_proto(net, source="net", source_sha256="")
    result = conv_transpose_to_conv(model)
    assert not result.is_changed
    assert [(r.node, r.reason) for r in result.refusals] == [("up", "its weights are computed")]


def test_a_node_named_like_its_output_leaves_no_two_of_one_name() -> None:
    weight = numpy_helper.from_array(np.ones((1, 2, 3, 3), np.float32), "w")
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="y", strides=[2, 2])
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 3, 3])]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 7, 7])]
    graph = helper.make_graph([node], "g", values, out, [weight])
    model = model_from_proto(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), source="net", source_sha256=""
    )
    assert conv_transpose_to_conv(model).is_changed
    names = [n.name for n in model.graph.nodes]
    assert len(set(names)) == len(names)

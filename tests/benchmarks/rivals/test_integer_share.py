"""The share is of the cleaned net's work, counted in what ONNX Runtime executes, whatever the tool named its nodes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from rivals.integer_share import integer_share

MACS = 8 * 36 * 27
BODY = (
    "xq = QuantizeLinear(x,s,z) xd = DequantizeLinear(xq,s,z) wd = DequantizeLinear<axis=0>(wq,ws,wz) "
    "h = Conv(xd,wd) hq = QuantizeLinear(h,s,z) hd = DequantizeLinear(hq,s,z) y = Conv(hd,v)"
)


def half_integer(value_info: str = "") -> onnx.ModelProto:
    """Two convolutions: one whole group, and one that stays float."""
    rng = np.random.default_rng(0)
    text = (
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,8,8] x) => (float[1,4,4,4] y) {value_info} {{ {BODY} }}'
    )
    model = parser.parse_model(text)
    constants = {
        "s": np.float32(0.05), "z": np.uint8(128), "wq": rng.integers(-63, 64, (8, 3, 3, 3), dtype=np.int8),
        "ws": np.full(8, 0.01, np.float32), "wz": np.zeros(8, np.int8),
        "v": rng.normal(size=(4, 8, 3, 3)).astype(np.float32),
    }  # fmt: skip
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())
    return model


SECOND_MACS = 4 * 16 * 72


def test_unnamed_and_equally_named_nodes_are_told_apart():
    model = half_integer()
    for node in model.graph.node:
        node.name = "same" if node.op_type == "Conv" else ""
    found = integer_share(model, MACS + SECOND_MACS)
    assert found.share == pytest.approx(MACS / (MACS + SECOND_MACS))
    assert (found.nodes, found.of_nodes) == (1, 2)
    assert found.counted == pytest.approx(1.0)


def test_a_stale_stored_shape_of_another_tensor_s_name_does_not_stop_the_count():
    assert integer_share(half_integer("<float[1,8,6,6] s>"), MACS + SECOND_MACS).nodes == 1


def test_work_that_is_not_in_the_tool_s_graph_shows():
    assert integer_share(half_integer(), 2 * (MACS + SECOND_MACS)).counted == pytest.approx(0.5)


def test_operators_that_are_integer_in_the_file_count_too():
    """As fts writes them where sums stay unrounded: 100 %, by the same work."""
    rng = np.random.default_rng(0)
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,8,8] x) => (float[1,8,6,6] y) {
        xq = QuantizeLinear(x,s,z) n = ConvInteger(xq,w,z,z) y = DequantizeLinear<axis=1>(n,k) }"""
    model = parser.parse_model(text)
    constants = {
        "s": np.float32(0.05), "z": np.uint8(128), "w": rng.integers(1, 256, (8, 3, 3, 3)).astype(np.uint8),
        "k": np.full(8, 0.01, np.float32),
    }  # fmt: skip
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())
    found = integer_share(model, MACS)
    assert (found.share, found.nodes, found.of_nodes, found.counted) == (1.0, 1, 1, 1.0)

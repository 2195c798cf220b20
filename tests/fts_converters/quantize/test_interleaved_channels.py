"""Channels that become neighbouring pixels are found by what DepthToSpace does with them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.generators.run_plain import run_plain

from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.interleaved_channels import interleaved_channels


@pytest.mark.parametrize("mode", ["CRD", "DCR"])
@pytest.mark.parametrize("block", [2, 3])
def test_groups_are_what_the_operator_puts_together(mode: str, block: int) -> None:
    channels = 2 * block * block
    node = helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=block, mode=mode)
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, 1, 1])]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    net = helper.make_model(
        helper.make_graph([node], "g", values, results), opset_imports=[helper.make_opsetid("", 13)]
    )
    x = np.arange(channels, dtype=np.float32).reshape(1, channels, 1, 1)
    (y,) = run_plain(net, {"x": x})
    found = interleaved_channels("x", channels, GraphIndex(net))
    assert [sorted(g.tolist()) for g in found] == [sorted(plane.reshape(-1).astype(int).tolist()) for plane in y[0]]


def test_others_have_none() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4, 1, 1]) for n in ("x", "y")]
    net = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]))
    assert interleaved_channels("x", 4, GraphIndex(net)) == []

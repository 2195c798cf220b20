"""Pooling over one spatial axis becomes pooling over two: (N, C, L) -> (N, C, 1, L), with a window of 1 along the new one."""

from __future__ import annotations

from typing import Any

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_reading import static_shape


def pool_1d_to_2d(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted MaxPool and AveragePool of one spatial axis."""
    return lower_each(
        model,
        ("MaxPool", "AveragePool"),
        _replace,
        choice.where(lambda n: len(static_shape(n.inputs[0]) or ()) == 3),
    )


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    batch, channels, length = nodes.shape(node.inputs[0])
    flat = nodes.reshape(node.inputs[0], [batch, channels, 1, length])
    attrs: dict[str, Any] = {k: v for k, v in node.attrs.items() if k in ("auto_pad", "ceil_mode", "count_include_pad")}
    for name in ("kernel_shape", "strides", "dilations"):
        if name in node.attrs:
            attrs[name] = [1, *node.attrs[name]]
    if "pads" in node.attrs:
        begin, end = node.attrs["pads"]
        attrs["pads"] = [0, begin, 0, end]
    result = nodes.shape(node.outputs[0])
    value = nodes.add(node.op, [flat], [batch, channels, 1, result[2]], **attrs)
    return nodes.reshape(value, result)

"""Gemm becomes MatMul and Add: y = alpha A' B' + beta C; factors go into constants where B or C is one."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_reading import constant


def gemm_to_matmul(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted Gemm."""
    return lower_each(model, ("Gemm",), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    if nodes.dtype.kind != "f":
        return f"it multiplies {nodes.dtype.name}"
    left, right = node.inputs[:2]
    if node.attrs.get("transA"):
        left = nodes.transpose(left, [1, 0])
    if node.attrs.get("transB"):
        right = nodes.transpose(right, [1, 0])
    value = nodes.matmul(left, _times(nodes, right, float(node.attrs.get("alpha", 1.0))))
    beta = float(node.attrs.get("beta", 1.0))
    if len(node.inputs) < 3 or not node.inputs[2].name or beta == 0:
        return value
    return nodes.binary("Add", value, _times(nodes, node.inputs[2], beta))


def _times(nodes: NewNodes, x: gs.Tensor, factor: float) -> gs.Tensor:
    """x * factor, done here when x is a constant."""
    known = constant(x)
    if known is None or factor == 1:
        return nodes.scaled(x, factor)
    return nodes.constant("scaled", np.asarray(known, np.float64) * factor)

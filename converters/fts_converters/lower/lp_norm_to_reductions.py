"""LpNormalization becomes x / ReduceSum(|x|) or x / Sqrt(ReduceSum(x x))."""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult


def lp_norm_to_reductions(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted LpNormalization."""
    return lower_each(model, ("LpNormalization",), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    axis = int(node.attrs.get("axis", -1)) % len(nodes.shape(x))
    if int(node.attrs.get("p", 2)) == 1:
        return nodes.binary("Div", x, nodes.reduce("ReduceSum", nodes.unary("Abs", x), [axis]))
    squares = nodes.reduce("ReduceSum", nodes.binary("Mul", x, x), [axis])
    return nodes.binary("Div", x, nodes.unary("Sqrt", squares))

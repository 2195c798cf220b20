"""Reductions that an engine has no operator for, by ReduceSum and arithmetic.

    ReduceL1 = sum |x|        ReduceSumSquare = sum x x       ReduceL2 = sqrt(sum x x)
    ReduceLogSum = log(sum x)     ReduceLogSumExp = max + log(sum(exp(x - max)))
    ReduceProd: x_1 x_2 … by slices, up to MOST_FACTORS

Refused: computed axes, products of more factors.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_reading import reduce_axes

MOST_FACTORS = 16
OPS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd", "ReduceSumSquare")


def spell_reductions(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted reduction of `OPS`."""
    return lower_each(model, OPS, _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    axes = reduce_axes(node, nodes.opset)
    if axes is None:
        return "its axes are computed"
    value = _reduced(nodes, node.op, x, axes)
    return value if isinstance(value, str) else nodes.reshape(value, nodes.shape(node.outputs[0]))


def _reduced(nodes: NewNodes, op: str, x: gs.Tensor, axes: tuple[int, ...]) -> gs.Tensor | str:
    """With the reduced axes kept as 1."""
    if op == "ReduceL1":
        return nodes.reduce("ReduceSum", nodes.unary("Abs", x), axes)
    if op in ("ReduceSumSquare", "ReduceL2"):
        squares = nodes.reduce("ReduceSum", nodes.binary("Mul", x, x), axes)
        return squares if op == "ReduceSumSquare" else nodes.unary("Sqrt", squares)
    if op == "ReduceLogSum":
        return nodes.unary("Log", nodes.reduce("ReduceSum", x, axes))
    if op == "ReduceLogSumExp":
        largest = nodes.reduce("ReduceMax", x, axes)
        total = nodes.reduce("ReduceSum", nodes.unary("Exp", nodes.binary("Sub", x, largest)), axes)
        return nodes.binary("Add", largest, nodes.unary("Log", total))
    for axis in axes:
        n = nodes.shape(x)[axis]
        if n > MOST_FACTORS:
            return f"it multiplies {n} factors; up to {MOST_FACTORS} are written out"
        product = nodes.slice(x, axis, 0, 1)
        for i in range(1, n):
            product = nodes.binary("Mul", product, nodes.slice(x, axis, i, i + 1))
        x = product
    return x

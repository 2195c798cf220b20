"""Read a limitation of values, however it is written: Clip, Relu, Max and Min with a number, or two of them in a row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_graphsurgeon as gs

from fts_converters.passes.graph_reading import constant, only_reader, rank, scalar


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clamp:
    """min(max(source, low), high), or the other way round, which is the same for low <= high.

    Attributes:
        source: What is limited.
        low: Least value, -inf without one.
        high: Greatest value, inf without one.
        nodes: The nodes that do it, the last one first.
    """

    source: gs.Tensor
    low: float
    high: float
    nodes: tuple[gs.Node, ...]


def find_clamp(graph: gs.Graph, tensor: gs.Tensor) -> Clamp | None:
    """How a tensor is limited; a value between two limiting nodes is read by the second alone."""
    last = _one(tensor)
    if last is None:
        return None
    first = _one(last.source) if only_reader(graph, last.source) is not None else None
    if first is None:
        return last
    low, high = max(first.low, last.low), min(first.high, last.high)
    if low > high:
        return last
    return Clamp(source=first.source, low=low, high=high, nodes=(*last.nodes, *first.nodes))


def _one(tensor: gs.Tensor) -> Clamp | None:
    node = tensor.inputs[0] if len(tensor.inputs) == 1 else None
    if node is None or node.domain:
        return None
    if node.op == "Relu":
        return Clamp(source=node.inputs[0], low=0.0, high=math.inf, nodes=(node,))
    if node.op == "Clip":
        low, high = _bound(node, 1, "min", -math.inf), _bound(node, 2, "max", math.inf)
        if low is None or high is None or low > high:
            return None
        return Clamp(source=node.inputs[0], low=low, high=high, nodes=(node,))
    if node.op in ("Max", "Min") and len(node.inputs) == 2:
        for source, other in (node.inputs, node.inputs[::-1]):
            number, value = scalar(other), constant(other)
            if number is None or value is None or constant(source) is not None or value.ndim > (rank(source) or 0):
                continue
            low, high = (number, math.inf) if node.op == "Max" else (-math.inf, number)
            return Clamp(source=source, low=low, high=high, nodes=(node,))
    return None


def _bound(node: gs.Node, position: int, attribute: str, default: float) -> float | None:
    """A bound of a Clip, an attribute before opset 11; None when it is computed."""
    if attribute in node.attrs:
        return float(node.attrs[attribute])
    if len(node.inputs) <= position or not node.inputs[position].name:
        return default
    return scalar(node.inputs[position])

"""Find a normalisation that is spelled out in elementary operators, whatever its axes.

    m = ReduceMean(x);  d = Sub(x, m);  v = ReduceMean(Pow(d, 2) | Mul(d, d));  s = Sqrt(Add(v, eps))
    y = Div(d, s) | Mul(d, Reciprocal(s)) | Mul(d, Div(1, s)),   then y * gamma + beta, each optional

Finds only; `recognise_instance_norm` and `recognise_layer_norm` decide by the axes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_graphsurgeon as gs

from fts_converters.passes.graph_reading import is_only_read_by, only_reader, producer, reduce_axes, scalar


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpelledNorm:
    """A match.

    Attributes:
        data: x.
        axes: Normalised axes, not negative, rising.
        epsilon: Added to the variance.
        last: Node that makes y.
    """

    data: gs.Tensor
    axes: tuple[int, ...]
    epsilon: float
    last: gs.Node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Affine:
    """What follows a norm: y * scale + bias.

    Attributes:
        scale: gamma, or None.
        bias: beta, or None.
        last: The node that makes the final value.
    """

    scale: gs.Tensor | None
    bias: gs.Tensor | None
    last: gs.Node


def find_spelled_norm(graph: gs.Graph, node: gs.Node, opset: int) -> SpelledNorm | None:
    """Match with `node` as the one that makes y; None when it does not fit."""
    if node.domain or node.op not in ("Div", "Mul") or len(node.inputs) != 2:
        return None
    for centred, other in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
        if node.op == "Div" and centred is not node.inputs[0]:
            continue
        deviation = other if node.op == "Div" else _reciprocal_of(other)
        found = None if deviation is None else _match(graph, node, centred, deviation, other, opset)
        if found is not None:
            return found
    return None


def _reciprocal_of(tensor: gs.Tensor) -> gs.Tensor | None:
    """s when the tensor is 1 / s."""
    node = producer(tensor, "Reciprocal")
    if node is not None:
        return node.inputs[0]
    node = producer(tensor, "Div")
    if node is not None and scalar(node.inputs[0]) == 1.0:
        return node.inputs[1]
    return None


def _match(
    graph: gs.Graph, last: gs.Node, centred: gs.Tensor, deviation: gs.Tensor, factor: gs.Tensor, opset: int
) -> SpelledNorm | None:
    root = producer(deviation, "Sqrt")
    plus = producer(root.inputs[0], "Add") if root is not None else None
    if root is None or plus is None:
        return None
    variance, epsilon = plus.inputs[0], scalar(plus.inputs[1])
    if epsilon is None:
        variance, epsilon = plus.inputs[1], scalar(plus.inputs[0])
    mean_square = producer(variance, "ReduceMean")
    minus = producer(centred, "Sub")
    if epsilon is None or mean_square is None or minus is None:
        return None
    square = _square_of(mean_square.inputs[0], centred)
    mean = producer(minus.inputs[1], "ReduceMean")
    if square is None or mean is None or mean.inputs[0] is not minus.inputs[0]:
        return None
    axes = reduce_axes(mean, opset)
    keeps = mean.attrs.get("keepdims", 1) and mean_square.attrs.get("keepdims", 1)
    if not axes or not keeps or axes != reduce_axes(mean_square, opset):
        return None
    inner = [last, square, mean_square, plus, root, minus, mean]
    inner += [n for n in (factor.inputs[0] if factor is not deviation and factor.inputs else None,) if n is not None]
    hidden = [minus.inputs[1], centred, mean_square.inputs[0], variance, root.inputs[0], deviation, factor]
    if not all(is_only_read_by(graph, t, inner) for t in hidden):
        return None
    return SpelledNorm(data=minus.inputs[0], axes=axes, epsilon=epsilon, last=last)


def _square_of(tensor: gs.Tensor, base: gs.Tensor) -> gs.Node | None:
    """The node that makes base * base or base ** 2."""
    node = producer(tensor, "Mul")
    if node is not None and node.inputs[0] is base and node.inputs[1] is base:
        return node
    node = producer(tensor, "Pow")
    if node is not None and node.inputs[0] is base and scalar(node.inputs[1]) == 2.0:
        return node
    return None


def find_affine(graph: gs.Graph, last: gs.Node, is_parameter: Callable[[gs.Tensor], bool]) -> Affine:
    """The Mul and the Add behind a norm, as far as they are there and their other operand is a parameter."""
    scale, last = _operand(graph, last, "Mul", is_parameter)
    bias, last = _operand(graph, last, "Add", is_parameter)
    return Affine(scale=scale, bias=bias, last=last)


def _operand(
    graph: gs.Graph, last: gs.Node, op: str, is_parameter: Callable[[gs.Tensor], bool]
) -> tuple[gs.Tensor | None, gs.Node]:
    value = last.outputs[0]
    reader = only_reader(graph, value)
    if reader is None or reader.op != op or reader.domain or len(reader.inputs) != 2:
        return None, last
    other = reader.inputs[1] if reader.inputs[0] is value else reader.inputs[0]
    return (other, reader) if is_parameter(other) else (None, last)

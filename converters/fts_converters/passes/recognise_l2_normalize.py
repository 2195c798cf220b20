"""Division by an L2 norm, however it is spelled, becomes ReduceL2 -> (Max or Clip) -> Div, or LpNormalization where exact.

    x / max(||x||, eps)     Sqrt(ReduceSum(x x)) -> ReduceL2;  x * (1 / n) -> x / n;  an Expand of the norm goes
    x / sqrt(sum x^2 + eps) ReduceSum(x x) -> ReduceSumSquare, else as it came

LpNormalization(p=2) has no eps: 0 < ||x|| < eps gives x / ||x|| there and x / eps here, and at x = 0 it gives 0 where a
quotient without eps gives NaN. So it is written only where x is known to stay away from 0: behind a Softmax along the
axis, a limit from below, or a positive number added to what is not negative. Everywhere else the spelling is brought to
the shortest exact form, and reported. Requires: one spelling's inner values read by nobody else.

Source: ONNX operator specification, LpNormalization and ReduceL2; torch.nn.functional.normalize (eps as a limit).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.each_node import until_stable
from fts_converters.passes.graph_editing import TensorNames, finish, replace_by
from fts_converters.passes.graph_reading import label, producer, rank, reduce_axes, scalar, static_shape
from fts_converters.passes.polynomial import are_inner
from fts_converters.passes.spelled_norm import read_means, square_base
from fts_converters.passes.value_clamp import find_clamp

NOT_NEGATIVE = ("Relu", "Abs", "Sigmoid", "Softplus", "Softmax", "Exp", "HardSigmoid", "ReduceL2", "Sqrt")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Division:
    """x over its norm.

    Attributes:
        data: x.
        norm: The norm as a tensor with kept axes, limits included, without an Expand.
        root: The node that makes the bare norm or sum: ReduceL2, or a root; None where eps stands below the root.
        total: The node that sums the squares, where it is not ReduceL2.
        axes: Of x.
        least: Limit of the norm from below; 0 without one; None with eps below the root.
        is_short: Nothing is left to bring to the form above.
        nodes: The nodes between, the last one included.
    """

    data: gs.Tensor
    norm: gs.Tensor
    root: gs.Node | None
    total: gs.Node | None
    axes: tuple[int, ...]
    least: float | None
    is_short: bool
    nodes: tuple[gs.Node, ...]


def recognise_l2_normalize(model: Model) -> PassResult:
    """Shortens each spelling."""
    return until_stable(_recognise, model)


def _recognise(model: Model) -> PassResult:
    graph = model.graph
    names = TensorNames(graph)
    refusals = []
    is_changed = False
    for node in list(graph.nodes):
        found = _match(graph, node, model.opset)
        if found is None:
            continue
        if found.least is not None and len(found.axes) == 1 and _stays_above(graph, found):
            axis = found.axes[0]
            replace_by(graph, node, "LpNormalization", [found.data], {"axis": axis, "p": 2})
            is_changed = True
        elif found.is_short:
            reason = (
                "an L2 normalisation: LpNormalization has no epsilon and another value at 0, so it stays "
                f"{'ReduceL2' if found.root is not None else 'a root of ReduceSumSquare'} and Div"
            )
            refusals.append(Refusal(node=label(node), reason=reason))
        else:
            _shorten(graph, node, found, names, model.opset)
            is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _match(graph: gs.Graph, last: gs.Node, opset: int) -> Division | None:
    if last.domain or last.op not in ("Div", "Mul") or len(last.inputs) != 2:
        return None
    if last.op == "Div":
        return _division(graph, last, last.inputs[0], last.inputs[1], (last,), opset)
    for data, other in (last.inputs, last.inputs[::-1]):
        inverse = producer(other, "Reciprocal")
        if inverse is None:
            inverse = producer(other, "Div")
            if inverse is None or scalar(inverse.inputs[0]) != 1.0:
                continue
        found = _division(graph, last, data, inverse.inputs[-1], (last, inverse), opset)
        if found is not None:
            return found
    return None


def _division(
    graph: gs.Graph, last: gs.Node, data: gs.Tensor, divisor: gs.Tensor, above: tuple[gs.Node, ...], opset: int
) -> Division | None:
    nodes = list(above)
    norm = divisor
    expand = producer(norm, "Expand")
    if expand is not None:
        nodes.append(expand)
        norm = expand.inputs[0]
    if static_shape(last.outputs[0]) is None or static_shape(last.outputs[0]) != static_shape(data):
        return None  # without the Expand it would be another shape, or the shape is not known
    least, value = 0.0, norm
    clamp = find_clamp(graph, value)
    if clamp is not None and clamp.high == math.inf and clamp.low >= 0:
        least, value = clamp.low, clamp.source
        nodes += clamp.nodes
    direct = producer(value, "ReduceL2")
    if direct is not None:
        axes = _axes(direct, opset)
        nodes.append(direct)
        if direct.inputs[0] is not data or not axes or not are_inner(graph, last, nodes):
            return None
        is_short = last.op == "Div" and expand is None
        return Division(
            data=data, norm=norm, root=direct, total=None, axes=axes, least=least, is_short=is_short, nodes=tuple(nodes)
        )
    return _by_root(graph, last, data, norm, value, least, nodes, opset)


def _by_root(
    graph: gs.Graph,
    last: gs.Node,
    data: gs.Tensor,
    norm: gs.Tensor,
    value: gs.Tensor,
    least: float,
    nodes: list[gs.Node],
    opset: int,
) -> Division | None:
    root = producer(value, "Sqrt")
    if root is None:
        root = producer(value, "Pow")
        if root is None or scalar(root.inputs[1]) != 0.5:
            return None
    nodes.append(root)
    value = root.inputs[0]
    is_bare = True
    plus = producer(value, "Add")
    clamp = find_clamp(graph, value)
    if plus is not None and any(scalar(t) is not None for t in plus.inputs):
        value = plus.inputs[0] if scalar(plus.inputs[1]) is not None else plus.inputs[1]
        nodes.append(plus)
        is_bare = False
    elif clamp is not None and clamp.high == math.inf:
        value = clamp.source
        nodes += clamp.nodes
        is_bare = False
    for op in ("ReduceSum", "ReduceSumSquare"):
        total = producer(value, op)
        axes = _axes(total, opset) if total is not None else None
        if total is None or not axes:
            continue
        square = _square(total, opset)
        if square is None or square[0] is not data or not are_inner(graph, last, (*nodes, total, *square[1])):
            return None
        is_short = not is_bare and op == "ReduceSumSquare" and last.op == "Div" and norm is last.inputs[1]
        return Division(
            data=data,
            norm=norm,
            root=root if is_bare else None,
            total=total,
            axes=axes,
            least=least if is_bare else None,
            is_short=is_short,
            nodes=(*nodes, total, *square[1]),
        )
    return None


def _axes(node: gs.Node, opset: int) -> tuple[int, ...] | None:
    """Those of a reduction that keeps its axes."""
    return reduce_axes(node, opset) if node.attrs.get("keepdims", 1) else None


def _square(total: gs.Node, opset: int) -> tuple[gs.Tensor, tuple[gs.Node, ...]] | None:
    for mean in read_means(total.outputs[0], opset):
        return square_base(mean)
    return None


def _shorten(graph: gs.Graph, last: gs.Node, found: Division, names: TensorNames, opset: int) -> None:
    norm = found.norm
    if found.total is not None:
        op, node = ("ReduceL2", found.root) if found.root is not None else ("ReduceSumSquare", found.total)
        if node is not None and (node.op, len(node.inputs)) != (op, 1):
            _reduce(graph, node, op, found, names, opset)
    replace_by(graph, last, "Div", [found.data, norm])


def _reduce(graph: gs.Graph, node: gs.Node, op: str, found: Division, names: TensorNames, opset: int) -> None:
    """Put a reduction of x in the place of a node."""
    inputs: list[gs.Tensor] = [found.data]
    attrs: dict[str, object] = {"keepdims": 1}
    if opset >= 18:
        inputs.append(names.constant(f"{node.outputs[0].name}_axes", np.array(found.axes, np.int64)))
    else:
        attrs["axes"] = list(found.axes)
    replace_by(graph, node, op, inputs, attrs)


def _stays_above(graph: gs.Graph, found: Division) -> bool:
    """Whether the norm of x is known to be above 0 and its limit."""
    shape = static_shape(found.data)
    bound = _least_element(graph, found.data)
    if shape is None:
        return False
    size = shape[found.axes[0]]
    softmax = producer(found.data, "Softmax")
    least = bound * math.sqrt(size)
    if softmax is not None and int(softmax.attrs.get("axis", -1)) % len(shape) == found.axes[0]:
        least = max(least, 1 / math.sqrt(size))  # the elements add up to 1
    # Half of it: the spelling computes its norm in float32.
    return least > 0 and found.least is not None and found.least <= 0.5 * least


def _least_element(graph: gs.Graph, tensor: gs.Tensor) -> float:
    """A bound from below of every element that is above 0; 0 where none is known."""
    clamp = find_clamp(graph, tensor)
    if clamp is not None:
        return max(clamp.low, 0.0)
    plus = producer(tensor, "Add")
    for value, number in (plus.inputs, plus.inputs[::-1]) if plus is not None else ():
        bound = scalar(number)
        is_small = rank(number) is not None and len(number.shape) <= (rank(value) or 0)
        if bound is not None and is_small and any(producer(value, op) is not None for op in NOT_NEGATIVE):
            return max(bound, 0.0)
    return 0.0

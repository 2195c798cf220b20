"""A constant factor or summand per channel behind a convolution goes into its weights.

    Mul(Conv(x; W, b), s) = Conv(x; W * s, b * s),   Add(Conv(x; W, b), t) = Conv(x; W, b + t),  Sub and Div likewise

Requires: Conv, ConvTranspose or Gemm with constants, read by that node alone; the operand is one number or one value a
channel. Does *not* fold a division by zero or a constant minus the convolution's result of another rank.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.fold_batchnorm import scaled
from fts_converters.passes.graph_editing import TensorNames, finish
from fts_converters.passes.graph_reading import constant, only_reader, own_nodes, rank
from fts_converters.passes.linear_weights import linear_weights, write_linear_weights

FOLDABLE = frozenset({"Mul", "Div", "Add", "Sub"})


def fold_scale_and_shift(model: Model) -> PassResult:
    """Folds chains of them from the convolution on."""
    graph = model.graph
    names, own = TensorNames(graph), own_nodes(graph)
    is_changed = False
    for node in list(graph.nodes):
        while (reader := _foldable_reader(graph, node, own)) is not None and _fold(node, reader, names):
            is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed)


def _foldable_reader(graph: gs.Graph, node: gs.Node, own: frozenset[int]) -> gs.Node | None:
    if node.domain or node.op not in ("Conv", "ConvTranspose", "Gemm") or len(node.outputs) != 1:
        return None
    reader = only_reader(graph, node.outputs[0])
    if reader is None or reader.domain or reader.op not in FOLDABLE or id(reader) not in own:
        return None
    return reader


def _fold(node: gs.Node, reader: gs.Node, names: TensorNames) -> bool:
    is_first = reader.inputs[0] is node.outputs[0]
    operand = constant(reader.inputs[1] if is_first else reader.inputs[0])
    weights = linear_weights(node)
    axes = rank(node.outputs[0])
    if operand is None or isinstance(weights, str) or axes is None:
        return False
    values = _per_channel(operand, axes, weights.channels)
    if values is None or not np.isfinite(values).all():
        return False
    ones, zeros = np.ones(weights.channels), np.zeros(weights.channels)
    if reader.op == "Mul":
        factor, shift = values, zeros
    elif reader.op == "Div":
        if not is_first or (values == 0).any():
            return False
        factor, shift = 1.0 / values, zeros
    elif reader.op == "Add":
        factor, shift = ones, values
    else:
        factor, shift = (ones, -values) if is_first else (-ones, values)
    write_linear_weights(node, scaled(weights, factor, shift), names)
    output = reader.outputs[0]
    reader.outputs.clear()
    reader.inputs.clear()
    node.outputs[0] = output
    return True


def _per_channel(operand: npt.NDArray[np.generic], axes: int, channels: int) -> npt.NDArray[np.float64] | None:
    """(C,) when the operand is one number, or one value a channel along axis 1 of a tensor of `axes` axes."""
    if operand.dtype not in (np.float32, np.float64) or operand.ndim > axes:
        return None
    if operand.size == 1:
        return np.full(channels, float(operand.reshape(()).item()))
    shape = (1,) * (axes - operand.ndim) + operand.shape
    wanted = tuple(channels if a == 1 else 1 for a in range(axes))
    return operand.reshape(-1).astype(np.float64) if shape == wanted else None

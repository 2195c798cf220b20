"""Operators through which a positive factor a channel passes: f(s x) = s f(x), and sums, bounds and products of such.

A constant operand of a sum, a maximum or a choice is scaled with it, so that any bound will do; a bound that is an
attribute or one number for all channels (Clip) has to be 0 or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.equalize.ties import Ids
from fts_converters.equalize.trace import Shape, Trace, is_float_constant, is_present
from fts_converters.equalize.weighted_rules import Rule
from fts_converters.passes.graph_reading import constant, reduce_axes, scalar

GREATEST = float(np.finfo(np.float32).max)


def _same(trace: Trace, node: gs.Node) -> str:
    channels = trace.channels[node.inputs[0].name]
    trace.set(node.outputs[0], channels.axis, channels.ids)
    return ""


def _pool(trace: Trace, node: gs.Node) -> str:
    """Windows run over all axes but the first two."""
    if len(node.outputs) > 1:
        return "its second output is read"
    trace.set(node.outputs[0], 1, trace.along(node.inputs[0], 1))
    return ""


def _dropout(trace: Trace, node: gs.Node) -> str:
    is_training = is_present(node, 2) and scalar(node.inputs[2]) != 0
    return (
        "it runs in training mode, or its mask is read" if is_training or len(node.outputs) > 1 else _same(trace, node)
    )


def _prelu(trace: Trace, node: gs.Node) -> str:
    """max(x, 0) + slope * min(x, 0); a slope that is computed keeps its scale."""
    if node.inputs[0].name not in trace.channels:
        return "its first operand is a constant"
    if node.inputs[1].name in trace.channels:
        trace.block(node.inputs[1], node, "it is the slope of a PRelu")
    return _same(trace, node)


def _clip(trace: Trace, node: gs.Node) -> str:
    bounds = [node.attrs.get("min"), node.attrs.get("max")]
    for i in (0, 1):
        if is_present(node, i + 1):
            bounds[i] = scalar(node.inputs[i + 1])
            if bounds[i] is None:
                return "its bounds are computed"
    low = -np.inf if bounds[0] is None or bounds[0] <= -GREATEST else bounds[0]
    high = np.inf if bounds[1] is None or bounds[1] >= GREATEST else bounds[1]
    if low in (0.0, -np.inf) and high in (0.0, np.inf):
        return _same(trace, node)
    return f"Clip to {low:g} … {high:g} is not homogeneous: only bounds of 0 are"


def _resize(trace: Trace, node: gs.Node) -> str:
    """Nearest, linear and cubic are linear in the values."""
    channels = trace.channels[node.inputs[0].name]
    if trace.shape(node.outputs[0])[channels.axis] != len(channels.ids):
        return "it resizes the channels"
    if node.attrs.get("extrapolation_value", 0.0) != 0.0:
        return "it fills with a value other than 0"
    return _same(trace, node)


def _pad(trace: Trace, node: gs.Node) -> str:
    channels = trace.channels[node.inputs[0].name]
    if trace.shape(node.outputs[0])[channels.axis] != len(channels.ids):
        return "it pads the channels"
    value = node.attrs.get("value", 0.0)
    if is_present(node, 2):
        value = scalar(node.inputs[2])
    if node.attrs.get("mode", "constant") == "constant" and value != 0.0:
        return "it fills with a value other than 0"
    return _same(trace, node)


def _reduce(trace: Trace, node: gs.Node) -> str:
    """Sums, means and extremes; over the channels they need one factor for all."""
    shape = trace.shape(node.inputs[0])
    axes = reduce_axes(node, trace.opset, len(shape))
    if axes is None:
        return "its axes are computed"
    channels = trace.channels[node.inputs[0].name]
    result = trace.shape(node.outputs[0])
    if channels.axis not in axes:
        gone = 0 if len(result) == len(shape) else sum(a < channels.axis for a in axes)
        trace.set(node.outputs[0], channels.axis - gone, channels.ids)
        return ""
    root = trace.ties.tie_all(channels.ids)
    axis = 1 if len(result) > 1 else 0
    trace.set(node.outputs[0], axis, np.full(result[axis], root))
    return ""


def _sum(trace: Trace, node: gs.Node) -> str:
    return _elementwise(trace, node, range(len(node.inputs)))


def _where(trace: Trace, node: gs.Node) -> str:
    return _elementwise(trace, node, (1, 2))


def _elementwise(trace: Trace, node: gs.Node, positions: Sequence[int]) -> str:
    """All operands share the factors of the result."""
    result = trace.shape(node.outputs[0])
    live = [p for p in positions if node.inputs[p].name in trace.channels]
    if not live or not all(p in live or is_float_constant(node, p) for p in positions):
        return "an operand is a single computed number, or no float32"
    axis = _axis_of_result(trace, [node.inputs[p] for p in live], result)
    ids = trace.spread(node.inputs[live[0]], result, axis)
    for position in live[1:]:
        trace.ties.tie(ids, trace.spread(node.inputs[position], result, axis))
    for position in positions:
        if position not in live:
            trace.absorb(node, position, _upright(ids, result, axis), 1, is_weight=False)
    trace.set(node.outputs[0], axis, ids)
    return ""


def _axis_of_result(trace: Trace, operands: Sequence[gs.Tensor], result: Shape) -> int:
    """The axis along which most factors stay apart."""
    apart = {
        trace.axis_in(t, result): len(set(trace.ties.roots(trace.channels[t.name].ids).tolist()))
        for t in operands
        if len(trace.channels[t.name].ids) == result[trace.axis_in(t, result)]
    }
    return max(apart, key=lambda axis: apart[axis]) if apart else min(1, len(result) - 1)


def _upright(ids: Ids, result: Shape, axis: int) -> Ids:
    """Ids of an axis in a shape that broadcasts with the result's."""
    return ids.reshape(-1, *(1,) * (len(result) - axis - 1))


def _mul(trace: Trace, node: gs.Node) -> str:
    """One operand passes its factors on and the other one keeps its scale; a constant a channel decouples them."""
    live = [p for p in (0, 1) if node.inputs[p].name in trace.channels]
    if len(live) == 2:
        return _gate(trace, node)
    return _times_constant(trace, node, live[0], 1 - live[0], divides=False)


def _div(trace: Trace, node: gs.Node) -> str:
    live = [p for p in (0, 1) if node.inputs[p].name in trace.channels]
    if 0 not in live:
        return "its numerator is a constant"
    if len(live) == 2:
        trace.block(node.inputs[1], node, "it is a denominator")
        return _pass_operand(trace, node, 0)
    return _times_constant(trace, node, 0, 1, divides=True)


def _gate(trace: Trace, node: gs.Node) -> str:
    first, second = node.inputs[:2]
    if first is second:
        return "it multiplies a tensor by itself"
    is_blocked = [trace.ties.is_blocked(trace.channels[t.name].ids) for t in (first, second)]
    sizes = [np.prod(trace.shape(t)) for t in (first, second)]
    passed = is_blocked.index(False) if is_blocked[0] != is_blocked[1] else int(sizes[1] > sizes[0])
    trace.block(node.inputs[1 - passed], node, "it is the factor of a product whose other operand is scaled")
    return _pass_operand(trace, node, passed)


def _pass_operand(trace: Trace, node: gs.Node, position: int) -> str:
    result = trace.shape(node.outputs[0])
    axis = _axis_of_result(trace, [node.inputs[position]], result)
    trace.set(node.outputs[0], axis, trace.spread(node.inputs[position], result, axis))
    return ""


def _times_constant(trace: Trace, node: gs.Node, position: int, other: int, *, divides: bool) -> str:
    factor = constant(node.inputs[other])
    if factor is None or not is_float_constant(node, other):
        return "an operand is a single computed number, or no float32"
    result = trace.shape(node.outputs[0])
    axis = _axis_of_result(trace, [node.inputs[position]], result)
    own = axis - (len(result) - factor.ndim)
    if own < 0 or factor.shape[own] == 1:
        return _pass_operand(trace, node, position)
    read = trace.spread(node.inputs[position], result, axis)
    made = trace.fresh(node.outputs[0], axis)
    sign = -1 if divides else 1
    trace.absorb(node, other, _upright(read, result, axis), -sign, is_weight=not divides)
    trace.absorb(node, other, _upright(made, result, axis), sign, is_weight=not divides)
    return ""


LINK_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Abs", "Identity", "LeakyRelu", "Neg", "Relu"), _same),
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"), _pool),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"), _reduce),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("Add", "Max", "Mean", "Min", "Sub", "Sum"), _sum),
    "Clip": _clip,
    "Div": _div,
    "Dropout": _dropout,
    "Mul": _mul,
    "PRelu": _prelu,
    "Pad": _pad,
    "Where": _where,
}

"""BatchNormalization behind a convolution goes into its weights.

    W' = W * g / sqrt(v + eps),   b' = (b - m) * g / sqrt(v + eps) + beta      (per output channel, in float64)

Requires: Conv, ConvTranspose or Gemm with constant weight and bias, read by the normalisation alone, whose parameters are
constants and which runs in inference mode. Behind a Concat along the channels each branch takes its slice, when all can. A
shared weight is copied, so that its other readers keep theirs. Does *not* fold behind a node with two readers, nor behind a
Concat of which one branch has no weights: there it stays, with the reason.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.each_node import change_each
from fts_converters.passes.graph_editing import TensorNames
from fts_converters.passes.graph_reading import constant, is_output, label, only_reader
from fts_converters.passes.linear_weights import LinearWeights, linear_weights, write_linear_weights


def fold_batchnorm(model: Model) -> PassResult:
    """Folds each one that can be."""
    return change_each(model, "BatchNormalization", _fold)


def _fold(graph: gs.Graph, norm: gs.Node, names: TensorNames) -> str:
    """Returns the reason when it was left alone."""
    parameters = [constant(t) for t in norm.inputs[1:5]]
    if any(p is None for p in parameters):
        return "its parameters are not constants"
    if norm.attrs.get("training_mode") or any(t.outputs or is_output(graph, t) for t in norm.outputs[1:]):
        return "it runs in training mode, or its statistics are read"
    source = norm.inputs[0]
    maker = source.inputs[0] if len(source.inputs) == 1 else None
    if maker is None or not any(maker is n for n in graph.nodes):
        return "nothing in this graph is in front of it"
    if only_reader(graph, source) is not norm:
        return f"{maker.op} {label(maker)!r} in front of it is read by others too"
    branches = _branches(graph, maker)
    if isinstance(branches, str):
        return branches
    scale, bias, mean, variance = (np.asarray(p, np.float64) for p in parameters)
    factor = scale / np.sqrt(variance + float(norm.attrs.get("epsilon", 1e-5)))
    channels = sum(weights.channels for _, weights in branches)
    if len(factor) != channels:
        return f"it has {len(factor)} channels, the {maker.op} in front of it {channels}"
    shift = bias - mean * factor
    begin = 0
    for node, weights in branches:
        part = slice(begin, begin + weights.channels)
        write_linear_weights(node, scaled(weights, factor[part], shift[part]), names)
        begin += weights.channels
    output = norm.outputs[0]
    norm.outputs.clear()
    norm.inputs.clear()
    maker.outputs[0] = output
    return ""


def _branches(graph: gs.Graph, maker: gs.Node) -> list[tuple[gs.Node, LinearWeights]] | str:
    """The node in front of the normalisation, or the nodes that a Concat in front of it joins, with their weights."""
    joined = [maker]
    if maker.op == "Concat" and not maker.domain:
        if int(maker.attrs.get("axis", 0)) != 1:
            return f"the Concat {label(maker)!r} in front of it joins along axis {maker.attrs.get('axis', 0)}, not channels"
        joined = []
        for tensor in maker.inputs:
            node = tensor.inputs[0] if len(tensor.inputs) == 1 else None
            if node is None or not any(node is n for n in graph.nodes):
                return f"the Concat {label(maker)!r} in front of it joins {tensor.name!r} too, which no weights make"
            if only_reader(graph, tensor) is not maker:
                return f"{node.op} {label(node)!r} in front of its Concat is read by others too"
            joined.append(node)
    found = []
    for node in joined:
        weights = linear_weights(node)
        if isinstance(weights, str):
            place = "in front of it" if node is maker else "in front of its Concat"
            return f"{node.op} {label(node)!r} {place}: {weights}"
        found.append((node, weights))
    return found


def _product(weight: npt.NDArray[Any], factor: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Computed in float64 and rounded once, a buffer at a time."""
    result = np.empty(weight.shape, weight.dtype)
    np.multiply(weight, factor, out=result, dtype=np.float64, casting="same_kind")
    return result


def scaled(weights: LinearWeights, factor: npt.NDArray[np.float64], shift: npt.NDArray[np.float64]) -> LinearWeights:
    """Weights of factor * y + shift, channel by channel."""
    shape = [1] * weights.weight.ndim
    shape[weights.axis] = -1
    if weights.groups > 1 and weights.is_transposed:  # (Ci, Co / g, ...): each group's rows have their own channels
        grouped = weights.weight.reshape(weights.groups, -1, *weights.weight.shape[1:])
        spread = factor.reshape(weights.groups, 1, -1, *[1] * (weights.weight.ndim - 2))
        weight = _product(grouped, spread).reshape(weights.weight.shape)
    else:
        weight = _product(weights.weight, factor.reshape(shape))
    return LinearWeights(
        weight=weight,
        bias=weights.bias * factor + shift,
        axis=weights.axis,
        channels=weights.channels,
        groups=weights.groups,
        is_transposed=weights.is_transposed,
        dtype=weights.dtype,
    )

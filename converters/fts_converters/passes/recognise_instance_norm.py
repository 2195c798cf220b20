"""A normalisation over the spatial axes that is spelled out becomes one InstanceNormalization.

    m = mean(x, spatial);  d = x - m;  v = mean(d * d, spatial);  y = d / sqrt(v + eps) * gamma + beta

Engines know the operator and run it in one pass; spelled out it is eight to ten passes over memory, and quantizers put
a grid between each of them. Requires: rank 3 or more, known channel count, gamma and beta one value a channel (constants,
or tensors (C,), (1, C, 1, 1) computed from other inputs). Does *not* touch a norm whose inner values (mean, deviation)
are read by others: they would have to be computed again. Constants per channel behind the operator go into its own.
"""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.each_node import until_stable
from fts_converters.passes.graph_editing import TensorNames, finish, replace_by
from fts_converters.passes.graph_reading import constant, label, only_reader, rank
from fts_converters.passes.norm_parameters import is_along_last_axes, is_per_channel, per_channel_vector
from fts_converters.passes.spelled_norm import Affine, SpelledNorm, find_affine, find_spelled_norm


def recognise_instance_norm(model: Model) -> PassResult:
    """One InstanceNormalization for each spelled-out one."""
    return until_stable(_recognise, model)


def _recognise(model: Model) -> PassResult:
    graph = model.graph
    names = TensorNames(graph)
    refusals = []
    is_changed = False
    for node in list(graph.nodes):
        if node.op == "InstanceNormalization" and not node.domain:
            is_changed |= _absorb(graph, node, names)
            continue
        norm = find_spelled_norm(graph, node, model.opset)
        if norm is None or isinstance(norm, str):
            continue  # `recognise_layer_norm` has said why
        shape = norm.data.shape
        if shape is None or len(shape) < 3 or norm.axes != tuple(range(2, len(shape))):
            continue
        if not isinstance(shape[1], int):
            refusals.append(Refusal(node=label(node), reason="its channel count is not known"))
            continue
        if _is_layer_norm(graph, norm):
            continue
        reason = _replace(graph, norm, int(shape[1]), names)
        if reason:
            refusals.append(Refusal(node=label(node), reason=reason))
        else:
            is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _is_layer_norm(graph: gs.Graph, norm: SpelledNorm) -> bool:
    """Over the last of three axes, with parameters along it: a LayerNormalization, be it of a newer opset."""
    shape = norm.data.shape
    if len(shape) != 3 or not isinstance(shape[2], int):
        return False
    affine = find_affine(graph, norm, lambda t: is_along_last_axes(t, (shape[2],)))
    return not isinstance(affine, str) and (affine.scale is not None or affine.bias is not None)


def _absorb(graph: gs.Graph, node: gs.Node, names: TensorNames) -> bool:
    """Constants per channel behind the operator go into its own."""
    scale, bias = constant(node.inputs[1]), constant(node.inputs[2])
    reader = only_reader(graph, node.outputs[0])
    axes = rank(node.inputs[0])
    if scale is None or bias is None or axes is None or reader is None or reader.op not in ("Mul", "Add"):
        return False
    if reader.domain or scale.dtype != np.float32 or not any(reader is n for n in graph.nodes):
        return False
    other = reader.inputs[1] if reader.inputs[0] is node.outputs[0] else reader.inputs[0]
    value = constant(other)
    if value is None or not is_per_channel(other, axes, scale.size):
        return False
    value = value.reshape(-1)
    if reader.op == "Mul":
        scale, bias = scale * value, bias * value
    else:
        bias = bias + value
    stem = reader.outputs[0].name
    inputs = [node.inputs[0], names.constant(f"{stem}_scale", scale), names.constant(f"{stem}_bias", bias)]
    replace_by(graph, reader, "InstanceNormalization", inputs, node.attrs)
    return True


def _replace(graph: gs.Graph, norm: SpelledNorm, channels: int, names: TensorNames) -> str:
    """Returns the reason when it was left alone."""
    if norm.data.dtype != np.float32:
        return f"its type is {norm.data.dtype}, and InstanceNormalization is recognised in float32 only"
    axes = len(norm.data.shape)
    affine = find_affine(graph, norm, lambda t: is_per_channel(t, axes, channels))
    if isinstance(affine, str):
        return affine
    if norm.gain != 1.0 and affine.scale is not None and constant(affine.scale) is None:
        if norm.scale is not None:
            return "its variance has a factor, and its scale is computed"
        affine = Affine(scale=None, bias=None, last=norm.last)  # they stay behind the norm
    stem = norm.last.outputs[0].name
    if affine.scale is None or norm.gain != 1.0:
        value = constant(affine.scale)
        factors = np.ones(channels) if value is None else np.broadcast_to(value.reshape(-1), (channels,))
        scale = names.constant(f"{stem}_scale", (factors * norm.gain).astype(np.float32))
    else:
        scale = per_channel_vector(affine.scale, channels, names, graph)
    zeros = np.zeros(channels, np.float32)
    bias = (
        names.constant(f"{stem}_bias", zeros)
        if affine.bias is None
        else per_channel_vector(affine.bias, channels, names, graph)
    )
    replace_by(graph, affine.last, "InstanceNormalization", [norm.data, scale, bias], {"epsilon": norm.epsilon})
    return ""

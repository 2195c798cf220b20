"""A normalisation over the spatial axes that is spelled out becomes one InstanceNormalization.

    m = mean(x, spatial);  d = x - m;  v = mean(d * d, spatial);  y = d / sqrt(v + eps) * gamma + beta

Engines know the operator and run it in one pass; spelled out it is eight to ten passes over memory, and quantizers put
a grid between each of them. Requires: rank 3 or more, known channel count, gamma and beta one value a channel (constants,
or tensors (C,), (1, C, 1, 1) computed from other inputs). Does *not* touch a norm whose inner values (mean, deviation)
are read by others: they would have to be computed again.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import TensorNames, finish, replace_by
from fts_converters.passes.graph_reading import constant, label, static_shape
from fts_converters.passes.spelled_norm import Affine, SpelledNorm, find_affine, find_spelled_norm


def recognise_instance_norm(model: Model) -> PassResult:
    """One InstanceNormalization for each spelled-out one."""
    graph = model.graph
    names = TensorNames(graph)
    refusals = []
    is_changed = False
    for node in list(graph.nodes):
        norm = find_spelled_norm(graph, node, model.opset)
        if norm is None or isinstance(norm, str):
            continue  # `recognise_layer_norm` has said why
        shape = norm.data.shape
        if shape is None or len(shape) < 3 or norm.axes != tuple(range(2, len(shape))):
            continue
        if not isinstance(shape[1], int):
            refusals.append(Refusal(node=label(node), reason="its channel count is not known"))
            continue
        reason = _replace(graph, norm, int(shape[1]), names)
        if reason:
            refusals.append(Refusal(node=label(node), reason=reason))
        else:
            is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


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


def is_per_channel(tensor: gs.Tensor, axes: int, channels: int) -> bool:
    """One value a channel when broadcast against (N, C, ...): (1, C, 1, 1), (C, 1, 1), or a single number."""
    shape = static_shape(tensor)
    value = constant(tensor)
    if value is not None:
        shape = value.shape
    if shape is None:
        return False
    if math.prod(shape) == 1:
        return value is not None and len(shape) <= axes
    return shape in ((1, channels, *[1] * (axes - 2)), (channels, *[1] * (axes - 2)))


def per_channel_vector(tensor: gs.Tensor, channels: int, names: TensorNames, graph: gs.Graph) -> gs.Tensor:
    """The tensor as (C,)."""
    value = constant(tensor)
    if value is not None:
        flat = np.broadcast_to(value.reshape(-1), (channels,)) if value.size == 1 else value.reshape(-1)
        return names.constant(f"{tensor.name}_vector", flat.astype(np.float32))
    maker = tensor.inputs[0] if len(tensor.inputs) == 1 else None
    if maker is not None and maker.op == "Reshape" and static_shape(maker.inputs[0]) == (channels,):
        return maker.inputs[0]
    vector = names.variable(f"{tensor.name}_vector", tensor, [channels])
    target = names.constant(f"{tensor.name}_vector_shape", np.array([channels], np.int64))
    graph.nodes.append(gs.Node(op="Reshape", name=vector.name, inputs=[tensor, target], outputs=[vector]))
    return vector

"""A normalisation over the last axes that is spelled out becomes one LayerNormalization.

    y = (x - mean) / sqrt(var + eps) * gamma + beta      over axes k..last

Requires: opset 17 or newer, float32, known sizes of the normalised axes, gamma and beta constants of exactly those sizes.
Does *not* take a norm over other axes, such as the channels of an image: that would take two Transposes. Norms of other
forms that look like one are reported here for all recognisers of norms.
"""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.each_node import until_stable
from fts_converters.passes.graph_editing import TensorNames, finish, replace_by
from fts_converters.passes.graph_reading import constant, label
from fts_converters.passes.norm_parameters import along_last_axes, is_along_last_axes, is_per_channel
from fts_converters.passes.spelled_norm import Affine, SpelledNorm, find_affine, find_spelled_norm

FIRST_OPSET = 17


def recognise_layer_norm(model: Model) -> PassResult:
    """One LayerNormalization for each spelled-out one."""
    return until_stable(_recognise, model)


def _recognise(model: Model) -> PassResult:
    graph = model.graph
    names = TensorNames(graph)
    refusals = []
    is_changed = False
    for node in list(graph.nodes):
        norm = find_spelled_norm(graph, node, model.opset)
        if norm is None:
            continue
        if isinstance(norm, str):
            refusals.append(Refusal(node=label(node), reason=norm))
            continue
        rank = len(norm.data.shape) if norm.data.shape is not None else 0
        is_trailing = bool(rank) and norm.axes == tuple(range(norm.axes[0], rank))
        if rank > 3 and is_trailing and norm.axes[0] == 2:
            continue  # over all spatial axes: an instance norm
        if not is_trailing:
            axes = ", ".join(map(str, norm.axes))
            reason = f"a norm over axis {axes} of {rank or 'unknown'}: LayerNormalization takes the last axes only"
            refusals.append(Refusal(node=label(node), reason=reason))
            continue
        refusal = _replace(graph, norm, names, model.opset, label(node))
        if refusal is not None:
            refusals.append(refusal)
        else:
            is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _replace(graph: gs.Graph, norm: SpelledNorm, names: TensorNames, opset: int, node: str) -> Refusal | None:
    """Returns the reason when it was left alone."""
    if norm.data.dtype != np.float32:
        reason = f"its type is {norm.data.dtype}, and LayerNormalization is recognised in float32 only"
        return Refusal(node=node, reason=reason)
    sizes = norm.data.shape[norm.axes[0] :]
    if not all(isinstance(s, int) for s in sizes):
        return Refusal(node=node, reason="the sizes it normalises over are not known")
    shape = tuple(int(s) for s in sizes)
    affine = find_affine(graph, norm, lambda t: is_along_last_axes(t, shape))
    if isinstance(affine, str):
        return Refusal(node=node, reason=affine)
    if len(norm.data.shape) == 3 and norm.axes == (2,) and affine.scale is None and affine.bias is None:
        reason = "over the last of three axes without parameters along it: left to InstanceNormalization"
        return Refusal(node=node, reason=reason)
    if shape[0] > 1 and norm.axes[0] == 1 and len(shape) > 1 and _is_by_channel(affine, len(shape) + 1, shape[0]):
        reason = "over all axes but the first, with parameters per channel: left to GroupNormalization of one group"
        return Refusal(node=node, reason=reason)
    if opset < FIRST_OPSET:
        reason = f"LayerNormalization exists from opset {FIRST_OPSET} on, the net has {opset}"
        return Refusal(node=node, reason=reason, needs_opset=FIRST_OPSET)
    stem = norm.last.outputs[0].name
    scale = np.ones(shape, np.float32) if affine.scale is None else along_last_axes(affine.scale, shape)
    inputs = [norm.data, names.constant(f"{stem}_scale", (scale * norm.gain).astype(np.float32))]
    if affine.bias is not None:
        inputs.append(names.constant(f"{stem}_bias", along_last_axes(affine.bias, shape)))
    attrs = {"axis": norm.axes[0] - len(norm.data.shape), "epsilon": norm.epsilon}
    replace_by(graph, affine.last, "LayerNormalization", inputs, attrs)
    return None


def _is_by_channel(affine: Affine, axes: int, channels: int) -> bool:
    given = [t for t in (affine.scale, affine.bias) if t is not None]
    sizes = [v.size for t in given if (v := constant(t)) is not None]
    return max(sizes, default=1) > 1 and all(is_per_channel(t, axes, channels) for t in given)

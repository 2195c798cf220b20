"""Reshape -> InstanceNormalization -> Reshape, which is how a group norm is written before opset 18, becomes GroupNormalization.

    (N, C, ...) -> (N, G, L) -> norm of each of the G rows -> (N, C, ...) -> * gamma + beta per channel

The norm may have parameters per group, and gamma and beta may stand before the second Reshape, one per (G, C / G). A
group norm that is spelled out by means is an InstanceNormalization first (`recognise_instance_norm`). With a channel a
group it is an InstanceNormalization of x itself, at any opset; else GroupNormalization-21, whose parameters are one a
channel (those of 18 were one a group, and it is deprecated). Requires: static shapes; parameters that are constants, or
computed ones per channel behind a norm that has none.

onnxruntime has no CPU kernel for GroupNormalization and runs its definition, whose variance is mean(x^2) - mean^2: next to
the exact result it is off by about 2^-24 (mean / deviation)^2 of the deviation, where InstanceNormalization is off by
2^-24 mean / deviation. So the CPU target writes it back (`lower/group_norm_to_instance_norm.py`).

Source: Wu & He 2018, arXiv:1803.08494, section 3; onnx Operators.md, GroupNormalization-21.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.each_node import until_stable
from fts_converters.passes.graph_editing import TensorNames, finish, replace_by
from fts_converters.passes.graph_reading import constant, label, only_reader, producer, static_shape
from fts_converters.passes.norm_parameters import is_per_channel, per_channel_vector
from fts_converters.passes.spelled_norm import SpelledNorm, find_affine, find_spelled_norm

FIRST_OPSET = 21


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupNorm:
    """A match.

    Attributes:
        data: x (N, C, ...).
        groups: G.
        epsilon: Added to the variance.
        factor: Per channel (C,), of what stands inside of the two Reshapes; ones without any.
        shift: Likewise.
        scale: gamma behind the second Reshape, or None.
        bias: beta, likewise.
        last: The node that makes the final value.
    """

    data: gs.Tensor
    groups: int
    epsilon: float
    factor: npt.NDArray[np.float64]
    shift: npt.NDArray[np.float64]
    scale: gs.Tensor | None
    bias: gs.Tensor | None
    last: gs.Node


def recognise_group_norm(model: Model) -> PassResult:
    """One operator for each group of nodes."""
    return until_stable(_recognise, model)


def _recognise(model: Model) -> PassResult:
    graph = model.graph
    names = TensorNames(graph)
    own = {id(node) for node in graph.nodes}
    refusals = []
    is_changed = False
    for node in list(graph.nodes):
        found = _match(graph, node, own) or _match_one_group(graph, node, model.opset)
        if found is None:
            continue
        channels = int(found.data.shape[1])
        if found.groups != channels and model.opset < FIRST_OPSET:
            reason = f"group norm: GroupNormalization exists from opset {FIRST_OPSET} on, the net has {model.opset}"
            refusals.append(Refusal(node=label(found.last), reason=reason, needs_opset=FIRST_OPSET))
            continue
        _replace(graph, found, channels, names)
        is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _match(graph: gs.Graph, norm: gs.Node, own: set[int]) -> GroupNorm | None:
    if norm.op != "InstanceNormalization" or norm.domain or norm.inputs[0].dtype != np.float32:
        return None
    first = producer(norm.inputs[0], "Reshape")
    if first is None or only_reader(graph, first.outputs[0]) is not norm:
        return None
    data = first.inputs[0]
    before, inside = static_shape(data), static_shape(first.outputs[0])
    if before is None or inside is None or len(before) < 3 or 0 in before:
        return None
    groups, channels = inside[1], before[1]
    if inside[0] != before[0] or channels % groups or (inside == before and groups == channels):
        return None
    factor, shift = constant(norm.inputs[1]), constant(norm.inputs[2])
    if factor is None or shift is None:
        return None
    repeats = channels // groups
    factor, shift = (np.repeat(v.reshape(-1).astype(np.float64), repeats) for v in (factor, shift))
    last = norm
    for op in ("Mul", "Add"):
        reader = only_reader(graph, last.outputs[0])
        if reader is None or reader.op != op or reader.domain:
            continue
        other = reader.inputs[1] if reader.inputs[0] is last.outputs[0] else reader.inputs[0]
        inner = _inner_parameter(other, inside, channels)
        if inner is None or static_shape(reader.outputs[0]) != inside:
            return None
        factor, shift = (factor * inner, shift * inner) if op == "Mul" else (factor, shift + inner)
        last = reader
    back = only_reader(graph, last.outputs[0])
    if back is None or back.op != "Reshape" or back.domain or static_shape(back.outputs[0]) != before:
        return None
    if back.inputs[0] is not last.outputs[0] or id(back) not in own:
        return None
    scale, bias, last = _affine(graph, back, own, len(before), channels, can_be_computed=_is_plain(factor, shift))
    return GroupNorm(
        data=data,
        groups=groups,
        epsilon=float(norm.attrs.get("epsilon", 1e-5)),
        factor=factor,
        shift=shift,
        scale=scale,
        bias=bias,
        last=last,
    )


def _match_one_group(graph: gs.Graph, node: gs.Node, opset: int) -> GroupNorm | None:
    """A norm over all axes but the first that is spelled out, with parameters per channel."""
    norm = find_spelled_norm(graph, node, opset)
    shape = static_shape(norm.data) if isinstance(norm, SpelledNorm) else None
    if not isinstance(norm, SpelledNorm) or shape is None or len(shape) < 3 or norm.data.dtype != np.float32:
        return None
    if norm.axes != tuple(range(1, len(shape))) or shape[1] == 1:
        return None
    affine = find_affine(graph, norm, lambda t: constant(t) is not None and is_per_channel(t, len(shape), shape[1]))
    if isinstance(affine, str) or (affine.scale is None and affine.bias is None):
        return None
    return GroupNorm(
        data=norm.data,
        groups=1,
        epsilon=norm.epsilon,
        factor=np.full(shape[1], norm.gain),
        shift=np.zeros(shape[1]),
        scale=affine.scale,
        bias=affine.bias,
        last=affine.last,
    )


def _is_plain(factor: npt.NDArray[np.float64], shift: npt.NDArray[np.float64]) -> bool:
    return bool((factor == 1).all() and (shift == 0).all())


def _inner_parameter(tensor: gs.Tensor, inside: tuple[int, ...], channels: int) -> npt.NDArray[np.float64] | None:
    """(C,) when a constant in the grouped shape has one value a channel: its other axes are 1, or lie within a channel."""
    value = constant(tensor)
    if value is None or value.ndim > len(inside):
        return None
    shape = (1,) * (len(inside) - value.ndim) + value.shape
    groups = inside[1]
    per_group = channels // groups
    flat = value.reshape(-1).astype(np.float64)
    if shape[0] != 1 or shape[1] not in (1, groups):
        return None
    if all(n == 1 for n in shape[2:]):
        return np.repeat(np.broadcast_to(flat, (groups,)), per_group)
    if len(inside) > 3 and inside[2] == per_group == shape[2] and all(n == 1 for n in shape[3:]):
        return np.broadcast_to(flat.reshape(shape[1], per_group), (groups, per_group)).reshape(-1)
    return None


def _affine(
    graph: gs.Graph, last: gs.Node, own: set[int], axes: int, channels: int, *, can_be_computed: bool
) -> tuple[gs.Tensor | None, gs.Tensor | None, gs.Node]:
    found: dict[str, gs.Tensor] = {}
    for op in ("Mul", "Add"):
        reader = only_reader(graph, last.outputs[0])
        if reader is None or reader.op != op or reader.domain or id(reader) not in own:
            continue
        other = reader.inputs[1] if reader.inputs[0] is last.outputs[0] else reader.inputs[0]
        is_constant = constant(other) is not None
        if not is_per_channel(other, axes, channels) or not (is_constant or can_be_computed):
            break
        found[op], last = other, reader
    return found.get("Mul"), found.get("Add"), last


def _replace(graph: gs.Graph, found: GroupNorm, channels: int, names: TensorNames) -> None:
    stem = found.last.outputs[0].name
    factor, shift = found.factor, found.shift
    gamma, beta = constant(found.scale), constant(found.bias)
    if gamma is not None:
        gamma = np.broadcast_to(gamma.reshape(-1), (channels,))
        factor, shift = factor * gamma, shift * gamma
    if beta is not None:
        shift = shift + np.broadcast_to(beta.reshape(-1), (channels,))
    if found.scale is not None and gamma is None:
        scale = per_channel_vector(found.scale, channels, names, graph)
    else:
        scale = names.constant(f"{stem}_scale", factor.astype(np.float32))
    if found.bias is not None and beta is None:
        bias = per_channel_vector(found.bias, channels, names, graph)
    else:
        bias = names.constant(f"{stem}_bias", shift.astype(np.float32))
    if found.groups == channels:
        replace_by(graph, found.last, "InstanceNormalization", [found.data, scale, bias], {"epsilon": found.epsilon})
        return
    attrs = {"num_groups": found.groups, "epsilon": found.epsilon}
    replace_by(graph, found.last, "GroupNormalization", [found.data, scale, bias], attrs)

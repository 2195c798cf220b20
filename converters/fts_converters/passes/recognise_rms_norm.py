"""A root-mean-square norm that is spelled out becomes one RMSNormalization, from opset 23 on.

    y = x / sqrt(mean(x^2) + eps) * gamma      over axes k..last

Requires: float32, known sizes of the normalised axes, gamma a constant of exactly those sizes. An older net keeps the
spelling, and it is reported: no engine of this version reads opset 23, so the net is not raised to it.

Source: Zhang & Sennrich 2019, arXiv:1910.07467, eq. (4).
"""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.each_node import until_stable
from fts_converters.passes.graph_editing import TensorNames, finish, replace_by
from fts_converters.passes.graph_reading import label, static_shape
from fts_converters.passes.norm_parameters import along_last_axes, is_along_last_axes
from fts_converters.passes.polynomial import are_inner
from fts_converters.passes.spelled_norm import (
    ROUNDING,
    SpelledNorm,
    factor_and_parameter,
    find_affine,
    read_centred,
    read_means,
    square_base,
)

FIRST_OPSET = 23


def recognise_rms_norm(model: Model) -> PassResult:
    """One RMSNormalization for each group."""
    return until_stable(_recognise, model)


def _recognise(model: Model) -> PassResult:
    graph = model.graph
    names = TensorNames(graph)
    refusals = []
    is_changed = False
    for node in list(graph.nodes):
        norm = _match(graph, node, model.opset)
        if norm is None:
            continue
        refusal = _replace(graph, norm, names, model.opset)
        if refusal is not None:
            refusals.append(refusal)
        else:
            is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _match(graph: gs.Graph, last: gs.Node, opset: int) -> SpelledNorm | None:
    """x times the inverse root of its mean square, which may hold gamma."""
    if last.domain or last.op not in ("Div", "Mul") or len(last.inputs) != 2:
        return None
    pairs = [(last.inputs[0], last.inputs[1])]
    if last.op == "Mul":
        pairs.append((last.inputs[1], last.inputs[0]))
    for data, other in pairs:
        for root, scale, above in factor_and_parameter(other):
            if root.power != (0.5 if last.op == "Div" else -0.5) or root.is_reshaped:
                continue
            for mean in read_means(root.variance, opset):
                base = square_base(mean)
                if base is None or base[0] is not data or mean.is_reshaped or abs(mean.factor - 1) > ROUNDING:
                    continue
                if any(c.axes == mean.axes for c in read_centred(data, opset)):
                    continue  # the half of another norm, which `recognise_layer_norm` reports
                if not are_inner(graph, last, (last, *above, *root.nodes, *mean.nodes, *base[1])):
                    continue
                return SpelledNorm(
                    data=data,
                    axes=mean.axes,
                    epsilon=root.epsilon,
                    gain=1.0,
                    scale=scale,
                    bias=None,
                    last=last,
                )
    return None


def _replace(graph: gs.Graph, norm: SpelledNorm, names: TensorNames, opset: int) -> Refusal | None:
    """Returns the reason when it was left alone."""
    node = label(norm.last)
    shape = static_shape(norm.data)
    if shape is None or norm.axes != tuple(range(norm.axes[0], len(shape))):
        return Refusal(node=node, reason="a root-mean-square norm, but not over the last axes alone")
    if norm.data.dtype != np.float32:
        reason = f"a root-mean-square norm of type {norm.data.dtype}: it is recognised in float32 only"
        return Refusal(node=node, reason=reason)
    sizes = shape[norm.axes[0] :]
    affine = find_affine(graph, norm, lambda t: is_along_last_axes(t, sizes))
    if isinstance(affine, str):
        return Refusal(node=node, reason=f"a root-mean-square norm: {affine}")
    if opset < FIRST_OPSET:
        reason = f"a root-mean-square norm: RMSNormalization exists from opset {FIRST_OPSET} on, the net has {opset}"
        return Refusal(node=node, reason=reason, needs_opset=FIRST_OPSET)
    # A bias stays behind it: the operator has none.
    last = norm.last if affine.scale is None or norm.scale is not None else norm.last.outputs[0].outputs[0]
    value = np.ones(sizes, np.float32) if affine.scale is None else along_last_axes(affine.scale, sizes)
    scale = names.constant(f"{norm.last.outputs[0].name}_scale", value)
    attrs = {"axis": norm.axes[0] - len(shape), "epsilon": norm.epsilon}
    replace_by(graph, last, "RMSNormalization", [norm.data, scale], attrs)
    return None

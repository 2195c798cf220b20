"""Operators whose constants take factors up: 1 / s of the channels they read, s of those they make.

    W'[o, i] = W[o, i] * s[o] / s[i],   b'[o] = b[o] * s[o]

A rule says "", or why no scale passes; then whatever it tied before does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.equalize.ties import Ids
from fts_converters.equalize.trace import NormInput, Trace, is_float_constant, is_present
from fts_converters.passes.graph_reading import constant, label

Rule = Callable[[Trace, gs.Node], str]
COMPUTED = "its weights are computed, or no float32"


def _conv(trace: Trace, node: gs.Node) -> str:
    weight = constant(node.inputs[1])
    if weight is None or not is_float_constant(node, 1) or not _bias_is_constant(node, 2):
        return COMPUTED
    groups = int(node.attrs.get("group", 1))
    read = trace.along(node.inputs[0], 1)
    made = trace.fresh(node.outputs[0], 1)
    rest = (1,) * (weight.ndim - 2)
    if groups == 1:
        trace.absorb(node, 1, read.reshape(1, -1, *rest), -1, is_weight=True)
    else:  # row o reads the channels of its group
        rows = np.repeat(read.reshape(groups, -1), len(made) // groups, axis=0)
        trace.absorb(node, 1, rows.reshape(*rows.shape, *rest), -1, is_weight=True)
    trace.absorb(node, 1, made.reshape(-1, 1, *rest), 1, is_weight=True)
    if is_present(node, 2):
        trace.absorb(node, 2, made, 1, is_weight=False)
    return ""


def _conv_transpose(trace: Trace, node: gs.Node) -> str:
    weight = constant(node.inputs[1])
    if weight is None or not is_float_constant(node, 1) or not _bias_is_constant(node, 2):
        return COMPUTED
    groups = int(node.attrs.get("group", 1))
    read = trace.along(node.inputs[0], 1)
    made = trace.fresh(node.outputs[0], 1)
    rest = (1,) * (weight.ndim - 2)
    # The weight is (in, out / groups, ...): row i makes the channels of its group.
    columns = np.repeat(made.reshape(groups, -1), len(read) // groups, axis=0)
    trace.absorb(node, 1, read.reshape(-1, 1, *rest), -1, is_weight=True)
    trace.absorb(node, 1, columns.reshape(*columns.shape, *rest), 1, is_weight=True)
    if is_present(node, 2):
        trace.absorb(node, 2, made, 1, is_weight=False)
    return ""


def _gemm(trace: Trace, node: gs.Node) -> str:
    if node.inputs[0].name not in trace.channels:
        return "its first operand is a constant"
    if not is_float_constant(node, 1) or not _bias_is_constant(node, 2):
        return COMPUTED
    read = trace.along(node.inputs[0], 0 if node.attrs.get("transA") else 1)
    made = trace.fresh(node.outputs[0], 1)
    is_transposed = bool(node.attrs.get("transB"))
    trace.absorb(node, 1, read.reshape((1, -1) if is_transposed else (-1, 1)), -1, is_weight=True)
    trace.absorb(node, 1, made.reshape((-1, 1) if is_transposed else (1, -1)), 1, is_weight=True)
    if is_present(node, 2):
        trace.absorb(node, 2, made, 1, is_weight=False)
    return ""


def _matmul(trace: Trace, node: gs.Node) -> str:
    if node.inputs[0].name not in trace.channels or not is_float_constant(node, 1):
        return "it has no constant float32 weights on its right"
    weight = constant(node.inputs[1])
    if weight is None or weight.ndim < 2:
        return "its weights are a vector"
    read = trace.along(node.inputs[0], len(trace.shape(node.inputs[0])) - 1)
    made = trace.fresh(node.outputs[0], len(trace.shape(node.outputs[0])) - 1)
    trace.absorb(node, 1, read.reshape(-1, 1), -1, is_weight=True)
    trace.absorb(node, 1, made, 1, is_weight=True)
    return ""


def _batch_normalization(trace: Trace, node: gs.Node) -> str:
    """y = (x - mean) * scale / sqrt(var + eps) + bias."""
    if not all(is_float_constant(node, p) for p in (1, 2, 3, 4)):
        return "its parameters are computed, or no float32"
    if node.attrs.get("training_mode") or len(node.outputs) > 1:
        return "it runs in training mode"
    read = trace.along(node.inputs[0], 1)
    made = trace.fresh(node.outputs[0], 1)
    trace.absorb(node, 1, read, -1, is_weight=True)
    trace.absorb(node, 1, made, 1, is_weight=True)
    trace.absorb(node, 2, made, 1, is_weight=False)
    trace.absorb(node, 3, read, 1, is_weight=False)
    return ""


def _instance_normalization(trace: Trace, node: gs.Node) -> str:
    if not (is_float_constant(node, 1) and is_float_constant(node, 2)):
        return "its scale or bias is computed, or no float32"
    read = trace.along(node.inputs[0], 1)
    _norm_reads(trace, node, read, trace.shape(node.inputs[0])[0], 1e-5)
    _affine(trace, node, trace.fresh(node.outputs[0], 1))
    return ""


def _group_normalization(trace: Trace, node: gs.Node) -> str:
    if not (is_float_constant(node, 1) and is_float_constant(node, 2)):
        return "its scale or bias is computed, or no float32"
    groups = int(node.attrs["num_groups"])
    read = trace.along(node.inputs[0], 1).reshape(groups, -1)
    roots = np.array([trace.ties.tie_all(group) for group in read])
    _norm_reads(trace, node, roots, trace.shape(node.inputs[0])[0], 1e-5)
    made = trace.fresh(node.outputs[0], 1)
    if len(np.asarray(constant(node.inputs[1]))) == groups != len(made):  # opset 18: one value a group
        made = np.array([trace.ties.tie_all(group) for group in made.reshape(groups, -1)])
    _affine(trace, node, made)
    return ""


def _layer_normalization(trace: Trace, node: gs.Node) -> str:
    """One deviation over all channels: they can only be scaled together."""
    if not is_float_constant(node, 1) or not _bias_is_constant(node, 2):
        return "its scale or bias is computed, or no float32"
    if len([t for t in node.outputs if t.name]) > 1:
        return "its mean or deviation is read"
    shape = trace.shape(node.inputs[0])
    axis = int(node.attrs.get("axis", -1)) % len(shape)
    root = trace.ties.tie_all(trace.channels[node.inputs[0].name].ids)
    _norm_reads(trace, node, np.array([root]), prod(shape[:axis]), 1e-5)
    _affine(trace, node, trace.fresh(node.outputs[0], len(shape) - 1))
    return ""


def _norm_reads(trace: Trace, node: gs.Node, ids: Ids, lead: int, default: float) -> None:
    trace.norms.append(
        NormInput(
            node=label(node),
            tensor=node.inputs[0].name,
            ids=ids,
            view=(lead, len(ids)),
            epsilon=float(node.attrs.get("epsilon", default)),
        )
    )


def _affine(trace: Trace, node: gs.Node, made: Ids) -> None:
    trace.absorb(node, 1, made, 1, is_weight=True)
    if is_present(node, 2):
        trace.absorb(node, 2, made, 1, is_weight=False)


def _bias_is_constant(node: gs.Node, position: int) -> bool:
    return not is_present(node, position) or is_float_constant(node, position)


WEIGHTED_RULES: Mapping[str, Rule] = {
    "BatchNormalization": _batch_normalization,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _instance_normalization,
    "LayerNormalization": _layer_normalization,
    "MatMul": _matmul,
}

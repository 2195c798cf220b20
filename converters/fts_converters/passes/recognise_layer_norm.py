"""A normalisation over the last axes that is spelled out becomes one LayerNormalization.

    y = (x - mean) / sqrt(var + eps) * gamma + beta      over axes k..last

Requires: opset 17 or newer, float32, known sizes of the normalised axes, gamma and beta constants of exactly those sizes.
Does *not* recognise a root-mean-square norm: the operator for it exists from opset 23 on only, which no engine of this
version takes; those are reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import TensorNames, finish, replace_by
from fts_converters.passes.graph_reading import constant, label, producer, reduce_axes, scalar
from fts_converters.passes.spelled_norm import SpelledNorm, find_affine, find_spelled_norm

FIRST_OPSET = 17


def recognise_layer_norm(model: Model) -> PassResult:
    """One LayerNormalization for each spelled-out one."""
    graph = model.graph
    names = TensorNames(graph)
    refusals = []
    is_changed = False
    for node in list(graph.nodes):
        norm = find_spelled_norm(graph, node, model.opset)
        if norm is None:
            if _is_rms_norm(node, model.opset):
                reason = "a root-mean-square norm: its operator needs opset 23, so it stays spelled out"
                refusals.append(Refusal(node=label(node), reason=reason))
            continue
        rank = len(norm.data.shape) if norm.data.shape is not None else 0
        is_trailing = bool(rank) and norm.axes == tuple(range(norm.axes[0], rank))
        if not is_trailing or (rank > 3 and norm.axes[0] == 2):
            continue  # over all spatial axes: an instance norm
        reason = _replace(graph, norm, names, model.opset)
        if reason:
            refusals.append(Refusal(node=label(node), reason=reason))
        else:
            is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _replace(graph: gs.Graph, norm: SpelledNorm, names: TensorNames, opset: int) -> str:
    """Returns the reason when it was left alone."""
    if opset < FIRST_OPSET:
        return f"LayerNormalization exists from opset {FIRST_OPSET} on, the net has {opset}"
    if norm.data.dtype != np.float32:
        return f"its type is {norm.data.dtype}, and LayerNormalization is recognised in float32 only"
    sizes = norm.data.shape[norm.axes[0] :]
    if not all(isinstance(s, int) for s in sizes):
        return "the sizes it normalises over are not known"
    shape = tuple(int(s) for s in sizes)
    affine = find_affine(graph, norm.last, lambda t: _is_parameter(t, shape))
    if len(norm.data.shape) == 3 and norm.axes == (2,) and affine.last is norm.last:
        return "over the last of three axes without parameters along it: left to InstanceNormalization"
    stem = norm.last.outputs[0].name
    scale = np.ones(shape, np.float32) if affine.scale is None else _filled(affine.scale, shape)
    inputs = [norm.data, names.constant(f"{stem}_scale", scale)]
    if affine.bias is not None:
        inputs.append(names.constant(f"{stem}_bias", _filled(affine.bias, shape)))
    attrs = {"axis": norm.axes[0] - len(norm.data.shape), "epsilon": norm.epsilon}
    replace_by(graph, affine.last, "LayerNormalization", inputs, attrs)
    return ""


def _is_parameter(tensor: gs.Tensor, shape: tuple[int, ...]) -> bool:
    """A constant that broadcasts to the normalised axes alone."""
    value = constant(tensor)
    if value is None or value.dtype != np.float32:
        return False
    trimmed = value.shape
    while len(trimmed) > len(shape) and trimmed[0] == 1:
        trimmed = trimmed[1:]
    if len(trimmed) > len(shape):
        return False
    return all(a in (1, b) for a, b in zip(trimmed[::-1], shape[::-1], strict=False))


def _filled(tensor: gs.Tensor, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    value = constant(tensor)
    assert value is not None
    while value.ndim > len(shape):
        value = value[0]
    return np.array(np.broadcast_to(value, shape))


def _is_rms_norm(node: gs.Node, opset: int) -> bool:
    """x / sqrt(mean(x * x) + eps), or x times its reciprocal."""
    if node.domain or node.op not in ("Div", "Mul") or len(node.inputs) != 2:
        return False
    for data, other in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
        inverse = producer(other, "Reciprocal")
        root = producer(other if node.op == "Div" else inverse.inputs[0] if inverse is not None else None, "Sqrt")
        plus = producer(root.inputs[0], "Add") if root is not None else None
        mean = None
        for operand in plus.inputs if plus is not None else []:
            mean = mean or producer(operand, "ReduceMean")
        if plus is None or mean is None or not any(scalar(t) is not None for t in plus.inputs):
            continue
        square = producer(mean.inputs[0], "Pow") or producer(mean.inputs[0], "Mul")
        if square is not None and square.inputs[0] is data and reduce_axes(mean, opset):
            return True
    return False

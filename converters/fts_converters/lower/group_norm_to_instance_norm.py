"""GroupNormalization becomes Reshape -> InstanceNormalization -> Reshape -> Mul -> Add.

    (N, C, ...) -> (N, G, L) -> norm of each row, scale 1 and bias 0 -> (N, C, ...) -> * scale + bias per channel

onnxruntime has no CPU kernel for GroupNormalization-21 and runs its definition in some 20 nodes, whose variance
mean(x^2) - mean^2 cancels; InstanceNormalization has a kernel, which subtracts the mean first. Requires: a static shape,
constant scale and bias.
"""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.each_node import change_each
from fts_converters.passes.graph_editing import TensorNames, replace_by
from fts_converters.passes.graph_reading import constant, static_shape


def group_norm_to_instance_norm(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted GroupNormalization."""
    return change_each(model, "GroupNormalization", _replace, choice.is_wanted)


def _replace(graph: gs.Graph, node: gs.Node, names: TensorNames) -> str:
    data = node.inputs[0]
    shape = static_shape(data)
    scale, bias = constant(node.inputs[1]), constant(node.inputs[2])
    if shape is None or len(shape) < 3:
        return "its shape is not known, or it has no spatial axes"
    if scale is None or bias is None or scale.size != shape[1]:
        return "its scale and bias are computed, or not one a channel"
    if data.dtype != np.float32:
        return f"its type is {data.dtype}"
    groups = int(node.attrs["num_groups"])
    stem = node.outputs[0].name
    rows = _add(graph, "Reshape", [data, _ints(names, stem, (shape[0], groups, -1))], "rows", node, names)
    ones = names.constant(f"{stem}_ones", np.ones(groups, np.float32))
    zeros = names.constant(f"{stem}_zeros", np.zeros(groups, np.float32))
    normed = _add(graph, "InstanceNormalization", [rows, ones, zeros], "normed", node, names)
    normed.inputs[0].attrs["epsilon"] = float(node.attrs.get("epsilon", 1e-5))
    back = _add(graph, "Reshape", [normed, _ints(names, stem, shape)], "back", node, names)
    per_channel = (shape[1], *[1] * (len(shape) - 2))
    factor = names.constant(f"{stem}_factor", scale.reshape(per_channel))
    shift = names.constant(f"{stem}_shift", bias.reshape(per_channel))
    scaled = _add(graph, "Mul", [back, factor], "scaled", node, names)
    replace_by(graph, node, "Add", [scaled, shift])
    return ""


def _ints(names: TensorNames, stem: str, values: tuple[int, ...]) -> gs.Constant:
    return names.constant(f"{stem}_shape", np.array(values, np.int64))


def _add(
    graph: gs.Graph, op: str, inputs: list[gs.Tensor], part: str, node: gs.Node, names: TensorNames
) -> gs.Variable:
    """A new node's output, named after the node that it is a part of."""
    value = names.variable(f"{node.outputs[0].name}_{part}", node.outputs[0])
    graph.nodes.append(gs.Node(op=op, name=value.name, inputs=inputs, outputs=[value]))
    return value

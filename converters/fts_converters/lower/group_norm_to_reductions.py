"""GroupNormalization becomes reductions over (N, groups, rest), and the affine step by channel.

Refused before opset 21: there scale and bias are per group, and the operator is deprecated.
"""

from __future__ import annotations

from math import prod

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.lower.normalize import normalize
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult

FIRST_OPSET = 21
DEFAULT_EPSILON = 1e-5


def group_norm_to_reductions(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted GroupNormalization."""
    return lower_each(model, ("GroupNormalization",), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    if nodes.opset < FIRST_OPSET:
        return f"scale and bias are per channel from opset {FIRST_OPSET} on, the net has {nodes.opset}"
    x, scale, bias = node.inputs
    shape = nodes.shape(x)
    groups = int(node.attrs["num_groups"])
    grouped = nodes.reshape(x, [shape[0], groups, prod(shape[1:]) // groups])
    value = normalize(nodes, grouped, [2], float(node.attrs.get("epsilon", DEFAULT_EPSILON)))
    per_channel = [1, shape[1], *[1] * (len(shape) - 2)]
    value = nodes.binary("Mul", nodes.reshape(value, shape), nodes.reshape(scale, per_channel))
    return nodes.binary("Add", value, nodes.reshape(bias, per_channel))

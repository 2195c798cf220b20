"""InstanceNormalization becomes ReduceMean, Sub, Mul, Sqrt, Div and the affine step.

y = scale (x - mean) / sqrt(var + epsilon) + bias,   mean and var over the spatial axes of each sample and channel
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.lower.normalize import normalize
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult

DEFAULT_EPSILON = 1e-5


def instance_norm_to_reductions(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted InstanceNormalization."""
    return lower_each(model, ("InstanceNormalization",), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x, scale, bias = node.inputs
    shape = nodes.shape(x)
    per_channel = [1, shape[1], *[1] * (len(shape) - 2)]
    value = normalize(nodes, x, range(2, len(shape)), float(node.attrs.get("epsilon", DEFAULT_EPSILON)))
    value = nodes.binary("Mul", value, nodes.reshape(scale, per_channel))
    return nodes.binary("Add", value, nodes.reshape(bias, per_channel))

"""BatchNormalization with constants becomes Mul and Add: y = x s + (bias - mean s), s = scale / sqrt(var + epsilon).

For norms that no convolution took up. Refused where its parameters are computed, or it trains.
"""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_reading import constant

DEFAULT_EPSILON = 1e-5


def batch_norm_to_scale(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted BatchNormalization."""
    return lower_each(model, ("BatchNormalization",), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    if node.attrs.get("training_mode"):
        return "it trains"
    known = [constant(t) for t in node.inputs[1:5]]
    if any(v is None for v in known):
        return "its parameters are computed"
    scale, bias, mean, variance = (np.asarray(v, np.float64) for v in known)
    factor = scale / np.sqrt(variance + float(node.attrs.get("epsilon", DEFAULT_EPSILON)))
    x = node.inputs[0]
    shape = [-1, *[1] * (len(nodes.shape(x)) - 2)] if len(nodes.shape(x)) > 1 else [-1]
    value = nodes.binary("Mul", x, nodes.constant("scale", factor.reshape(shape)))
    return nodes.binary("Add", value, nodes.constant("shift", (bias - mean * factor).reshape(shape)))

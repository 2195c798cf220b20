"""LayerNormalization becomes reductions over its last axes, and the affine step.

Refused where mean or inverse deviation are read too.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.lower.normalize import normalize
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult

DEFAULT_EPSILON = 1e-5


def layer_norm_to_reductions(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted LayerNormalization."""
    return lower_each(model, ("LayerNormalization",), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    rank = len(nodes.shape(x))
    axis = int(node.attrs.get("axis", -1)) % rank
    value = normalize(nodes, x, range(axis, rank), float(node.attrs.get("epsilon", DEFAULT_EPSILON)))
    value = nodes.binary("Mul", value, node.inputs[1])
    return nodes.binary("Add", value, node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2].name else value

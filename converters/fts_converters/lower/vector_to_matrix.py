"""MatMul of a vector becomes MatMul of a matrix of one row or one column, between Reshapes.

(k,) by (…, k, n) = (1, k) by (…, k, n)     (…, m, k) by (k,) = (…, m, k) by (k, 1)
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_reading import static_shape


def vector_to_matrix(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted MatMul with a vector."""
    return lower_each(model, ("MatMul",), _replace, choice.where(_has_vector))


def _has_vector(node: gs.Node) -> bool:
    return any(len(shape) == 1 for t in node.inputs if (shape := static_shape(t)) is not None)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    left, right = node.inputs
    if len(nodes.shape(left)) == 1:
        left = nodes.reshape(left, [1, *nodes.shape(left)])
    if len(nodes.shape(right)) == 1:
        right = nodes.reshape(right, [*nodes.shape(right), 1])
    return nodes.reshape(nodes.matmul(left, right), nodes.shape(node.outputs[0]))

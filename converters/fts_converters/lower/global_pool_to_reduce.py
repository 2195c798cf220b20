"""GlobalAveragePool and GlobalMaxPool become ReduceMean and ReduceMax over the spatial axes."""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult

REDUCTIONS = {"GlobalAveragePool": "ReduceMean", "GlobalMaxPool": "ReduceMax"}


def global_pool_to_reduce(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted global pooling."""
    return lower_each(model, tuple(REDUCTIONS), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    return nodes.reduce(REDUCTIONS[node.op], x, range(2, len(nodes.shape(x))))

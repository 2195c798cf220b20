"""Trilu becomes Where with a constant mask. Refused: a computed diagonal."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_reading import scalar


def trilu_to_where(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted Trilu."""
    return lower_each(model, ("Trilu",), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    has_diagonal = len(node.inputs) > 1 and (node.inputs[1].name or isinstance(node.inputs[1], gs.Constant))
    diagonal = scalar(node.inputs[1]) if has_diagonal else 0.0
    if diagonal is None:
        return "its diagonal is computed"
    shape = nodes.shape(x)
    mask = np.ones(shape[-2:], bool)
    mask = np.triu(mask, int(diagonal)) if node.attrs.get("upper", 1) else np.tril(mask, int(diagonal))
    kept = nodes.constant("kept", mask, np.bool_)
    return nodes.add("Where", [kept, x, nodes.constant("zero", 0)], shape, dtype=x.dtype)

"""Expand by a constant shape becomes Concat of copies along each axis that grows. Refused: more than MOST_COPIES of one.

For engines without Expand and Tile; elementwise readers broadcast by themselves.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult

MOST_COPIES = 8


def expand_to_concat(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted Expand."""
    return lower_each(model, ("Expand",), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    shape, result = nodes.shape(node.inputs[0]), nodes.shape(node.outputs[0])
    value = nodes.reshape(node.inputs[0], [1] * (len(result) - len(shape)) + list(shape))
    for axis, n in enumerate(result):
        have = nodes.shape(value)[axis]
        if n > have and n > MOST_COPIES:
            return f"it makes {n} copies along axis {axis}; up to {MOST_COPIES} are written out"
        if n > have:
            value = nodes.concat([value] * n, axis)
    return value

"""CumSum becomes a product with a triangular matrix of ones: y = T x along the axis, T[i, j] = 1 where j <= i.

`exclusive` leaves the diagonal out, `reverse` takes the other triangle. Float only: integers would be rounded on engines
that multiply in float. Refused: a computed axis, an axis longer than MOST_SIZE.
"""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.lower.along_axis import along_axis
from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_reading import scalar

# A matrix of 4 MB; the product costs as many multiplications for each element as the axis is long.
MOST_SIZE = 1024


def cum_sum_to_matmul(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted CumSum."""
    return lower_each(model, ("CumSum",), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    found = scalar(node.inputs[1])
    if found is None:
        return "its axis is computed"
    if nodes.dtype.kind != "f":
        return f"it sums {nodes.dtype.name}"
    shape = nodes.shape(x)
    axis = int(found) % len(shape)
    n = shape[axis]
    if n > MOST_SIZE:
        return f"its axis has {n} elements; a product with a matrix is done up to {MOST_SIZE}"
    ones = np.tril(np.ones((n, n)), -1 if node.attrs.get("exclusive") else 0)
    if node.attrs.get("reverse"):
        ones = ones.T
    return along_axis(nodes, x, ones, axis)

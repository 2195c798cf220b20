"""A constant matrix applied along one axis of a tensor."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.lower.new_nodes import NewNodes


def along_axis(nodes: NewNodes, x: gs.Tensor, matrix: npt.NDArray[np.floating], axis: int) -> gs.Tensor:
    """matrix (m, n) times x along an axis of n.

    The matrix stands on the right, where engines look for weights, so the axis is brought to the end and back.
    """
    rank = len(nodes.shape(x))
    there = [*(i for i in range(rank) if i != axis), axis]
    value = nodes.matmul(nodes.transpose(x, there), nodes.constant("weights", matrix.T))
    return nodes.transpose(value, [there.index(i) for i in range(rank)])

"""The normalization that several lowerings write out: (x - mean) / sqrt(variance + epsilon), variance of the differences."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_graphsurgeon as gs

from fts_converters.lower.new_nodes import NewNodes


def normalize(nodes: NewNodes, x: gs.Tensor, axes: Sequence[int], epsilon: float) -> gs.Tensor:
    """Zero mean and unit variance over some axes.

    In two passes, because E[x^2] - E[x]^2 loses all digits where the mean is large against the deviation.
    """
    centred = nodes.binary("Sub", x, nodes.reduce("ReduceMean", x, axes))
    variance = nodes.reduce("ReduceMean", nodes.binary("Mul", centred, centred), axes)
    return nodes.binary("Div", centred, nodes.unary("Sqrt", nodes.shifted(variance, epsilon, "epsilon")))

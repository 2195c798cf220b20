"""A mean over spatial axes becomes a chain of AveragePool with small windows.

Each pool takes windows side by side that divide the axis, so the mean of the means is the mean: 40 x 12 = windows 8 x 6,
then 5 x 2. For engines that have small pools and neither global ones nor ReduceMean.

Refused: other axes than spatial ones, and sizes with a prime factor above MOST_WINDOW.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_reading import reduce_axes

# Of NVIDIA's DLA: window in 1..8 (TensorRT developer guide, DLA layer restrictions).
MOST_WINDOW = 8


def spatial_mean_to_pools(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted GlobalAveragePool and ReduceMean over spatial axes of images."""
    return lower_each(model, ("GlobalAveragePool", "ReduceMean"), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    value = node.inputs[0]
    shape = nodes.shape(value)
    axes = reduce_axes(node, nodes.opset) if node.op == "ReduceMean" else tuple(range(2, len(shape)))
    if len(shape) != 4 or axes is None or not axes or min(axes) < 2:
        return "its mean is not over the height and width of an image"
    while any(nodes.shape(value)[a] > 1 for a in axes):
        sizes = nodes.shape(value)
        window = [_divisor(sizes[a]) if a in axes else 1 for a in (2, 3)]
        if window == [1, 1]:
            return f"a size of {shape[2]}x{shape[3]} has a prime factor above {MOST_WINDOW}"
        left = [n // w for n, w in zip(sizes[2:], window, strict=True)]
        value = nodes.add("AveragePool", [value], [*sizes[:2], *left], kernel_shape=window, strides=window)
    return nodes.reshape(value, nodes.shape(node.outputs[0]))


def _divisor(size: int) -> int:
    """The greatest one that a window may have."""
    return max(d for d in range(1, MOST_WINDOW + 1) if size % d == 0)

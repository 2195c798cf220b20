"""Resize to the nearest sample becomes a Gather by constant places along each axis that changes.

Where every sample is repeated the same few times, copies put side by side do it: (A n, 1, B) -> Concat -> (A n, r, B).

Refused where places lie so near the border between two samples that float32 and float64 do not give the same one: there
engines differ among themselves.
"""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.interpolation import nearest_places
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.lower.resize_axes import resize_axes
from fts_converters.lower.resize_to_matmul import extrapolated
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult

MOST_COPIES = 4


def resize_nearest_to_gather(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted Resize to the nearest sample."""
    return lower_each(model, ("Resize",), _replace, choice.where(lambda n: n.attrs.get("mode", "nearest") == "nearest"))


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    axes = resize_axes(nodes, node)
    if isinstance(axes, str):
        return axes
    value: gs.Tensor = node.inputs[0]
    inside = np.ones([1] * len(axes))
    for i in sorted(range(len(axes)), key=lambda i: axes[i].size_out / axes[i].size_in):
        places = nearest_places(axes[i], str(node.attrs.get("nearest_mode", "round_prefer_floor")))
        if places is None:
            return f"along axis {i} samples lie on the border between two, where engines round differently"
        if not np.array_equal(places, np.arange(axes[i].size_in)):
            value = _picked(nodes, value, places, i)
        inside = inside * ~axes[i].outside().reshape([-1 if i == k else 1 for k in range(len(axes))])
    if (inside == 0).any():
        if nodes.dtype.kind != "f":
            return f"it extrapolates {nodes.dtype.name}"
        value = nodes.binary("Mul", value, nodes.constant("inside", inside))
    return extrapolated(nodes, value, axes, float(node.attrs.get("extrapolation_value", 0.0)))


def _picked(nodes: NewNodes, x: gs.Tensor, places: npt.NDArray[np.int64], axis: int) -> gs.Tensor:
    shape = nodes.shape(x)
    n, copies = shape[axis], len(places) // shape[axis]
    if copies > MOST_COPIES or not np.array_equal(places, np.repeat(np.arange(n), copies)):
        return nodes.gather(x, places, axis)
    single = nodes.reshape(x, [prod(shape[: axis + 1]), 1, prod(shape[axis + 1 :])])
    return nodes.reshape(nodes.concat([single] * copies, 1), [*shape[:axis], n * copies, *shape[axis + 1 :]])

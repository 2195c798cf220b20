"""Resize by linear or cubic interpolation becomes a product with a constant matrix along each axis that changes.

    y = ((x M_w^T)^T M_h^T)^T,   M from `interpolation`: any coordinates, antialias, exclude_outside, cubic coefficient

Axes that shrink most go first. Each costs as many multiplications for an output element as the axis is long, so it is
for engines that lack the form, and refused above MOST_ELEMENTS of a matrix. tf_crop_and_resize gets its extrapolation
value by rows of zeros and a constant that is added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.lower.along_axis import along_axis
from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.interpolation import AxisResize, Matrix, cubic_matrix, linear_matrix
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.lower.resize_axes import resize_axes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult

# 1024 x 1024: 4 MB of weights an axis, and 1024 multiply-accumulates for each output element.
MOST_ELEMENTS = 2**20
DEFAULT_CUBIC_COEFFICIENT = -0.75


def resize_to_matmul(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted Resize by linear or cubic interpolation; nearest is the business of another lowering."""
    return lower_each(model, ("Resize",), _replace, choice.where(lambda n: n.attrs.get("mode", "nearest") != "nearest"))


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    if nodes.dtype.kind != "f":
        return f"it resizes {nodes.dtype.name}"
    if node.attrs["mode"] == "linear" and node.attrs.get("exclude_outside"):
        return "exclude_outside belongs to cubic interpolation"
    axes = resize_axes(nodes, node)
    if isinstance(axes, str):
        return axes
    changed = [i for i, a in enumerate(axes) if not a.is_unchanged]
    for i in changed:
        if axes[i].size_in * axes[i].size_out > MOST_ELEMENTS:
            return (
                f"axis {i} goes from {axes[i].size_in} to {axes[i].size_out} samples; a product with a matrix is done "
                f"up to {MOST_ELEMENTS} elements"
            )
    value: gs.Tensor = node.inputs[0]
    for i in sorted(changed, key=lambda i: axes[i].size_out / axes[i].size_in):
        matrix = np.where(axes[i].outside()[:, None], 0.0, _matrix(axes[i], node))
        value = along_axis(nodes, value, matrix, i)
    return extrapolated(nodes, value, axes, float(node.attrs.get("extrapolation_value", 0.0)))


def _matrix(axis: AxisResize, node: gs.Node) -> Matrix:
    antialias = bool(node.attrs.get("antialias", 0))
    if node.attrs["mode"] == "linear":
        return linear_matrix(axis, antialias=antialias)
    return cubic_matrix(
        axis,
        a=float(node.attrs.get("cubic_coeff_a", DEFAULT_CUBIC_COEFFICIENT)),
        antialias=antialias,
        exclude_outside=bool(node.attrs.get("exclude_outside", 0)),
    )


def extrapolated(nodes: NewNodes, x: gs.Tensor, axes: Sequence[AxisResize], number: float) -> gs.Tensor:
    """The extrapolation value added where a sample lies outside along some axis; those of x must be 0."""
    outside = np.zeros([1] * len(axes), bool)
    for i, axis in enumerate(axes):
        outside = outside | axis.outside().reshape([-1 if i == k else 1 for k in range(len(axes))])
    first = next((i for i, n in enumerate(outside.shape) if n > 1), 0)
    if not outside.any() or number == 0:
        return x
    return nodes.binary(
        "Add", x, nodes.constant("extrapolation", np.where(outside, number, 0.0).reshape(outside.shape[first:]))
    )

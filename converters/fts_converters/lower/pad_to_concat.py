"""Pad by reflection, by the edge or around the border becomes slices put together along each axis.

Which sample stands at which place is known: reflect 2 1 | 0 1 2 3 | 2 1, edge 0 0 | 0 1 2 3 | 3 3, wrap 2 3 | 0 1 2 3 | 0 1.
Padding by a constant is left alone: every engine has it. Refused: computed pads, pads that crop.

Source: Pad of the ONNX operator specification, whose modes are those of numpy.pad.
"""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.lower.pieces import pick_rows
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_reading import constant

MODES = ("reflect", "edge", "wrap")
AXES = 3


def pad_to_concat(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted Pad of `MODES`."""
    return lower_each(model, ("Pad",), _replace, choice.where(lambda n: n.attrs.get("mode") in MODES))


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    value = node.inputs[0]
    rank = len(nodes.shape(value))
    pads = constant(node.inputs[1])
    axes = range(rank)
    if len(node.inputs) > AXES:
        named = constant(node.inputs[AXES])
        if named is None:
            return "its axes are computed"
        axes = [int(a) % rank for a in named.reshape(-1)]  # type: ignore[assignment]
    if pads is None:
        return "its pads are computed"
    begin, end = pads.reshape(2, -1).astype(np.int64)
    if pads.min() < 0:
        return "it crops"
    for i, axis in enumerate(axes):
        if begin[i] or end[i]:
            samples = np.arange(nodes.shape(value)[axis])
            places = np.pad(samples, (int(begin[i]), int(end[i])), mode=str(node.attrs["mode"]))  # type: ignore[call-overload]
            value = pick_rows(nodes, value, places, axis)
    return value

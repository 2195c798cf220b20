"""Resize by sizes becomes Resize by scales, for engines that take those alone: scale = size behind / size before.

The coordinates are computed from the scale in both forms, so it must give the same size back: refused where
floor(scale * size before) is another number, and where the aspect ratio is kept or axes are named.
"""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.lower.resize_axes import SIZES
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult


def resize_sizes_to_scales(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Changes every wanted Resize that is given sizes."""
    return lower_each(model, ("Resize",), _replace, choice.where(lambda n: len(n.inputs) > SIZES))


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    if node.attrs.get("axes") or str(node.attrs.get("keep_aspect_ratio_policy", "stretch")) != "stretch":
        return "it names its axes or keeps the aspect ratio"
    before, behind = nodes.shape(node.inputs[0]), nodes.shape(node.outputs[0])
    scales = np.array(behind, np.float32) / np.array(before, np.float32)
    again = [np.floor(scales.astype(t) * np.array(before, t)) for t in (np.float32, np.float64)]
    if not all(np.array_equal(a, behind) for a in again):
        return "no scale gives its sizes exactly"
    inputs = [*node.inputs[:2], nodes.constant("scales", scales, np.float32)]
    return nodes.add("Resize", inputs, behind, **node.attrs)

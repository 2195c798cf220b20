"""A Resize node as one `AxisResize` for each axis, or why it cannot be one."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.lower.interpolation import AxisResize
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.passes.graph_reading import constant

SCALES, SIZES = 2, 3


def resize_axes(nodes: NewNodes, node: gs.Node) -> list[AxisResize] | str:
    """In the order of the data's axes; those that the node does not name stay as they are."""
    shape, result = nodes.shape(node.inputs[0]), nodes.shape(node.outputs[0])
    axes = [int(a) % len(shape) for a in node.attrs.get("axes") or range(len(shape))]
    coordinates = str(node.attrs.get("coordinate_transformation_mode", "half_pixel"))
    given = {
        i: constant(node.inputs[i])
        for i in range(1, len(node.inputs))
        if node.inputs[i].name or constant(node.inputs[i]) is not None
    }
    if any(v is None for v in given.values()):
        return "its sizes or scales are computed"
    roi, scales, sizes = (np.asarray(given.get(i, ())).reshape(-1) for i in (1, SCALES, SIZES))
    factor = dict.fromkeys(range(len(shape)), 1.0)
    region = dict.fromkeys(range(len(shape)), (0.0, 1.0))
    for k, axis in enumerate(axes):
        if scales.size:
            factor[axis] = float(np.float32(scales[k]))
        else:
            factor[axis] = float(np.float32(result[axis]) / np.float32(shape[axis]))
        if roi.size:
            region[axis] = (float(roi[k]), float(roi[k + len(axes)]))
    policy = str(node.attrs.get("keep_aspect_ratio_policy", "stretch"))
    if policy != "stretch" and sizes.size:
        ratios = [np.float32(n) / np.float32(shape[a]) for n, a in zip(sizes, axes, strict=True)]
        common = float(min(ratios) if policy == "not_larger" else max(ratios))
        factor.update(dict.fromkeys(axes, common))
    found = [
        AxisResize(
            size_in=n,
            size_out=m,
            scale=factor[i],
            coordinates=coordinates if i in axes else "asymmetric",
            roi=region[i],
        )
        for i, (n, m) in enumerate(zip(shape, result, strict=True))
    ]
    if any((a.scale == 1 or shape == result) and not a.is_unchanged for a in found):
        # onnxruntime copies an axis of scale 1 and a tensor of unchanged shape, whatever the coordinates say
        return "onnxruntime leaves an axis of the same size as it is, the operator's text does not"
    return found

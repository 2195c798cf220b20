"""The Resize that was an Upsample, or a Resize of opset 10, comes out of the converter with opset 11's default coordinates.

Both map x_out to x_in = x_out / scale (asymmetric). Nearest takes the pixel below on axes that grow and the one above on
axes that shrink. Resize has one rounding for all axes since opset 11, so a node that does both becomes two. The converter
makes no Resize of its own: all are old ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from fts_converters.fresh_names import FreshNames
from fts_converters.tensor_types import Scope


def restore_old_coordinates(scope: Scope, names: FreshNames, opset: int) -> None:
    """Sets mode and rounding of every Resize of a graph, in place."""
    if opset >= 11:
        return
    for position, node in reversed(list(enumerate(scope.graph.node))):
        if node.op_type != "Resize" or node.domain:
            continue
        is_nearest = all(a.s == b"nearest" for a in node.attribute if a.name == "mode")
        scales = _constant_scales(node.input[2], scope)
        grows = scales is None or bool((scales > 1).any())
        shrinks = scales is None or bool((scales < 1).any())
        if is_nearest and grows and shrinks:
            _split(position, scales, scope, names)
        else:
            _set_coordinates(node, "ceil" if shrinks else "floor")


def _split(position: int, scales: npt.NDArray[np.float32] | None, scope: Scope, names: FreshNames) -> None:
    """Grow first, then shrink; each leaves the other's axes alone. Unknown scales are taken apart as the net runs."""
    graph = scope.graph
    node = graph.node[position]
    growing = onnx.NodeProto()
    growing.CopyFrom(node)
    growing.name = names.take(f"{node.name}_growing") if node.name else ""
    growing.output[0] = names.take(f"{node.output[0]}_grown")
    computed = []
    for part, op, rounding in ((growing, "Max", "floor"), (node, "Min", "ceil")):
        own = names.take(f"{node.output[0]}_{rounding}_scales")
        if scales is not None:
            kept = np.maximum(scales, 1) if op == "Max" else np.minimum(scales, 1)
            graph.initializer.append(numpy_helper.from_array(kept.astype(np.float32), own))
        else:
            one = names.take(f"{own}_one")
            graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), one))
            computed.append(helper.make_node(op, [node.input[2], one], [own]))
        part.input[2] = own
        _set_coordinates(part, rounding)
    node.input[0] = growing.output[0]
    for new in (growing, *computed):
        graph.node.insert(position, new)


def _constant_scales(name: str, scope: Scope) -> npt.NDArray[np.float32] | None:
    for place in (scope.graph, *scope.outer):
        for tensor in place.initializer:
            if tensor.name == name:
                return numpy_helper.to_array(tensor)
        for maker in place.node:
            if maker.op_type == "Constant" and maker.output[0] == name:
                return next((numpy_helper.to_array(a.t) for a in maker.attribute if a.name == "value"), None)
    return None


def _set_coordinates(node: onnx.NodeProto, rounding: str) -> None:
    kept = [a for a in node.attribute if a.name not in ("coordinate_transformation_mode", "nearest_mode")]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    node.attribute.append(helper.make_attribute("nearest_mode", rounding))

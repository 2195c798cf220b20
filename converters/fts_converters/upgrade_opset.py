"""Bring a net into the range of opsets that the tool works in, with the same meaning.

onnx's version converter does the work; what it gets wrong is put right here: the Resize that was an Upsample, or a Resize of
opset 10, comes out with the default coordinates of opset 11, which are others.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper, version_converter

from fts.errors import ModelError

# Per-channel DequantizeLinear exists from opset 13 on; above 21 the oldest supported onnxruntime (1.19) cannot load it.
OLDEST_OPSET, NEWEST_OPSET = 13, 21


def opset_of(proto: onnx.ModelProto) -> int:
    """Opset version of the default domain."""
    return next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)


def bring_opset_into_range(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The net itself when its opset is in range, else a converted copy.

    Raises:
        ModelError: An old net that the converter cannot raise. A new one that cannot be lowered is returned as it is:
            `requires.onnxruntime` of the bundle then says from which version on it loads.
    """
    opset = opset_of(proto)
    if OLDEST_OPSET <= opset <= NEWEST_OPSET:
        return proto
    wanted = OLDEST_OPSET if opset < OLDEST_OPSET else NEWEST_OPSET
    try:
        converted = version_converter.convert_version(proto, wanted)
    except (RuntimeError, onnx.checker.ValidationError) as error:
        if opset > NEWEST_OPSET:
            return proto
        lines = " ".join(line.strip() for line in str(error).splitlines() if line.strip())[:400]
        raise ModelError(
            f"model {str(path)!r}: opset {opset} cannot be brought to opset {wanted}, the least that INT8 needs: {lines}. "
            f"Export again with opset {wanted} or newer"
        ) from error
    if opset < 11:
        for graph in _graphs(converted.graph):
            _restore_old_coordinates(graph, converted.graph)
    return converted


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node or inner.output:
                    yield from _graphs(inner)


def _restore_old_coordinates(graph: onnx.GraphProto, main: onnx.GraphProto) -> None:
    """Upsample and Resize-10 map x_out to x_in = x_out / scale (asymmetric).

    Nearest takes the pixel below on axes that grow and the one above on axes that shrink. Resize has one rounding for all
    axes since opset 11, so a node that does both becomes two. The converter makes no Resize of its own: all are old ones.
    """
    for position, node in reversed(list(enumerate(graph.node))):
        if node.op_type != "Resize":
            continue
        scales = _scales(node, graph, main)
        if scales is None or not ((scales < 1).any() and (scales > 1).any()):
            _set_coordinates(node, "ceil" if scales is not None and (scales < 1).any() else "floor")
            continue
        shrinking = scales < 1
        growing = onnx.NodeProto()
        growing.CopyFrom(node)
        growing.name = f"{node.name}_growing" if node.name else ""
        growing.output[0] = f"{node.output[0]}_grown"
        for part, kept, rounding in ((growing, ~shrinking, "floor"), (node, shrinking, "ceil")):
            name = f"{node.output[0]}_{rounding}_scales"
            own = np.where(kept, scales, 1).astype(np.float32)
            graph.initializer.append(numpy_helper.from_array(own, name))
            part.input[2] = name
            _set_coordinates(part, rounding)
        node.input[0] = growing.output[0]
        graph.node.insert(position, growing)


def _scales(node: onnx.NodeProto, graph: onnx.GraphProto, main: onnx.GraphProto) -> npt.NDArray[np.float32] | None:
    """The scales of a Resize, when they are a constant."""
    name = node.input[2] if len(node.input) > 2 else ""
    for place in (graph, main):
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

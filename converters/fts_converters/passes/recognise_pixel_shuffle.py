"""Reshape -> Transpose -> Reshape that interleaves channels into space becomes DepthToSpace.

    (N, C r², H, W) -> (N, C, r, r, H, W) -> perm 0 1 4 2 5 3 -> (N, C, rH, rW)   mode CRD (PyTorch's PixelShuffle)
    (N, C r², H, W) -> (N, r, r, C, H, W) -> perm 0 3 4 1 5 2 -> (N, C, rH, rW)   mode DCR (TensorFlow's depth_to_space)

and the inverses become SpaceToDepth where the operator has the same order (N, r, r, C: perm 0 3 5 1 2 4). Requires: static
shapes, the two values in between read by nobody else.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_editing import finish, replace_by
from fts_converters.passes.graph_reading import only_reader, producer, static_shape


def recognise_pixel_shuffle(model: Model) -> PassResult:
    """One operator for each group of three."""
    graph = model.graph
    is_changed = False
    for node in list(graph.nodes):
        found = _match(graph, node)
        if found is not None:
            op, source, attrs = found
            replace_by(graph, node, op, [source], attrs)
            is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed)


def _match(graph: gs.Graph, last: gs.Node) -> tuple[str, gs.Tensor, dict[str, object]] | None:
    if last.op != "Reshape" or last.domain:
        return None
    turn = producer(last.inputs[0], "Transpose")
    if turn is None:
        return None
    first = producer(turn.inputs[0], "Reshape")
    if first is None:
        return None
    if only_reader(graph, turn.outputs[0]) is not last or only_reader(graph, first.outputs[0]) is not turn:
        return None
    source = first.inputs[0]
    before, split, after = static_shape(source), static_shape(first.outputs[0]), static_shape(last.outputs[0])
    if before is None or split is None or after is None or len(before) != 4 or len(split) != 6 or len(after) != 4:
        return None
    batch, depth, height, width = before
    perm = [int(p) for p in turn.attrs.get("perm", [])]
    for mode, order, block, channels in (
        ("CRD", [0, 1, 4, 2, 5, 3], split[2], split[1]),
        ("DCR", [0, 3, 4, 1, 5, 2], split[1], split[3]),
    ):
        inner = (channels, block, block) if mode == "CRD" else (block, block, channels)
        shape = (batch, *inner, height, width)
        if perm == order and split == shape and after == (batch, channels, height * block, width * block):
            return "DepthToSpace", source, {"blocksize": block, "mode": mode}
    block = split[3]
    if (
        perm == [0, 3, 5, 1, 2, 4]
        and split == (batch, depth, height // block, block, width // block, block)
        and after == (batch, depth * block * block, height // block, width // block)
    ):
        return "SpaceToDepth", source, {"blocksize": block}
    return None

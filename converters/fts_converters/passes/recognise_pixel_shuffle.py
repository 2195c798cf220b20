"""Reshape -> Transpose -> Reshape that moves channels into space, or space into channels, becomes one operator.

    (N, C r^2, H, W) -> (N, C, r, r, H, W) -> perm 0 1 4 2 5 3 -> (N, C, rH, rW)   DepthToSpace CRD (PyTorch's PixelShuffle)
    (N, C r^2, H, W) -> (N, r, r, C, H, W) -> perm 0 3 4 1 5 2 -> (N, C, rH, rW)   DepthToSpace DCR (TensorFlow's)
    (N, C, rH, rW) -> (N, C, H, r, W, r) -> perm 0 3 5 1 2 4 -> (N, C r^2, H, W)   SpaceToDepth
    (N, C, rH, rW) -> (N, C, H, r, W, r) -> perm 0 1 3 5 2 4 -> (N, C r^2, H, W)   PixelUnshuffle: the channels in another order

Axes of size 1 may be missing or added, and axes that stay together may be one: two permutations are compared by what they
move. PixelUnshuffle has no operator: in front of a convolution alone it becomes SpaceToDepth, and the convolution's
weights are reordered; else it is reported, unless C = 1, where both are the same. Requires: static shapes, the two values
in between read by nobody else.

Source: onnx Operators.md, DepthToSpace and SpaceToDepth; Shi et al. 2016, arXiv:1609.05158 (PixelShuffle).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import TensorNames, finish, replace_by
from fts_converters.passes.graph_reading import constant, label, only_reader, producer, static_shape

Move = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shuffle:
    """A match.

    Attributes:
        op: DepthToSpace or SpaceToDepth.
        source: What is reshaped.
        block: r.
        mode: CRD or DCR; None for SpaceToDepth.
        is_channel_first: A PixelUnshuffle: channels stand as (C, r, r), where SpaceToDepth gives (r, r, C).
    """

    op: str
    source: gs.Tensor
    block: int
    mode: str | None = None
    is_channel_first: bool = False


def recognise_pixel_shuffle(model: Model) -> PassResult:
    """One operator for each group of three."""
    graph = model.graph
    names = TensorNames(graph)
    refusals = []
    is_changed = False
    for node in list(graph.nodes):
        found = _match(graph, node)
        if found is None:
            continue
        if found.is_channel_first and not _reorder_weights(graph, node, found, names):
            reason = "PixelUnshuffle: no operator has its order of channels (SpaceToDepth: block first)"
            refusals.append(Refusal(node=label(node), reason=reason))
            continue
        attrs: dict[str, object] = {"blocksize": found.block}
        if found.mode is not None:
            attrs["mode"] = found.mode
        replace_by(graph, node, found.op, [found.source], attrs)
        is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _match(graph: gs.Graph, last: gs.Node) -> Shuffle | None:
    if last.op != "Reshape" or last.domain:
        return None
    turn = producer(last.inputs[0], "Transpose")
    first = producer(turn.inputs[0], "Reshape") if turn is not None else None
    if turn is None or first is None:
        return None
    if only_reader(graph, turn.outputs[0]) is not last or only_reader(graph, first.outputs[0]) is not turn:
        return None
    source = first.inputs[0]
    before, split, after = static_shape(source), static_shape(first.outputs[0]), static_shape(last.outputs[0])
    if before is None or split is None or after is None or len(before) != 4 or len(after) != 4 or 0 in before:
        return None
    perm = turn.attrs.get("perm", range(len(split))[::-1])
    move = _moved(split, [int(p) for p in perm])
    batch, _, height, width = before
    channels, block = after[1], after[2] // height
    if block > 1 and before[1] == channels * block**2 and after == (batch, channels, height * block, width * block):
        for mode, shape, order in (
            ("CRD", (batch, channels, block, block, height, width), (0, 1, 4, 2, 5, 3)),
            ("DCR", (batch, block, block, channels, height, width), (0, 3, 4, 1, 5, 2)),
        ):
            if move == _moved(shape, order):
                return Shuffle(op="DepthToSpace", source=source, block=block, mode=mode)
        return None
    channels, block = before[1], height // after[2] if after[2] else 0
    if block > 1 and after == (batch, channels * block**2, height // block, width // block):
        if height % block or width % block:
            return None
        shape = (batch, channels, after[2], block, after[3], block)
        if move == _moved(shape, (0, 3, 5, 1, 2, 4)):
            return Shuffle(op="SpaceToDepth", source=source, block=block)
        if move == _moved(shape, (0, 1, 3, 5, 2, 4)):
            return Shuffle(op="SpaceToDepth", source=source, block=block, is_channel_first=True)
    return None


def _moved(shape: Sequence[int], perm: Sequence[int]) -> Move:
    """(sizes, permutation) without axes of size 1, and with axes that stay side by side as one."""
    kept = [p for p in perm if shape[p] != 1]
    runs: list[list[int]] = []
    order = sorted(kept)
    for axis in kept:
        if runs and order.index(axis) == order.index(runs[-1][-1]) + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    by_place = sorted(runs)
    sizes = tuple(int(np.prod([shape[a] for a in run])) for run in by_place)
    return sizes, tuple(by_place.index(run) for run in runs)


def _reorder_weights(graph: gs.Graph, last: gs.Node, found: Shuffle, names: TensorNames) -> bool:
    """Let the convolution behind read (r, r, C) for (C, r, r); False when there is none that could."""
    conv = only_reader(graph, last.outputs[0])
    if conv is None or conv.op != "Conv" or conv.domain or conv.inputs[0] is not last.outputs[0]:
        return False
    weight = constant(conv.inputs[1])
    if weight is None or int(conv.attrs.get("group", 1)) != 1:
        return False
    out, depth, *kernel = weight.shape
    count = found.block**2
    turned = weight.reshape(out, depth // count, count, *kernel).swapaxes(1, 2).reshape(weight.shape)
    conv.inputs[1] = names.constant(f"{conv.inputs[1].name}_block_first", turned)
    return True

"""Operators that move elements, and their channels with them."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, lcm, prod

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.equalize.ties import Ids, Ties
from fts_converters.equalize.trace import Shape, Trace, is_float_constant, is_present
from fts_converters.equalize.weighted_rules import Rule
from fts_converters.passes.graph_reading import constant

# Steps of a reshape's pattern that are looked at one by one; a longer one lets all channels share one factor.
MOST_STEPS = 2**22


def _reshape(trace: Trace, node: gs.Node) -> str:
    """Any operator that keeps the elements in row-major order."""
    channels = trace.channels[node.inputs[0].name]
    before, after = trace.shape(node.inputs[0]), trace.shape(node.outputs[0])
    best: tuple[int, int, npt.NDArray[np.int64]] | None = None
    for axis in range(len(after)):
        pairs = _meetings(before, channels.axis, after, axis)
        if pairs is None:
            continue
        apart = _count_apart(trace.ties.roots(channels.ids)[pairs[:, 0]], pairs[:, 1], after[axis])
        if best is None or apart > best[0] or (apart == best[0] and after[axis] == len(channels.ids) != after[best[1]]):
            best = (apart, axis, pairs)
    if best is None:
        axis = min(1, len(after) - 1)
        trace.set(node.outputs[0], axis, np.full(after[axis], trace.ties.tie_all(channels.ids)))
        return ""
    _, axis, pairs = best
    ids = np.zeros(after[axis], np.int64)
    ids[pairs[:, 1]] = channels.ids[pairs[:, 0]]
    trace.ties.tie(ids[pairs[:, 1]], channels.ids[pairs[:, 0]])
    trace.set(node.outputs[0], axis, ids)
    return ""


def _meetings(before: Shape, axis: int, after: Shape, target: int) -> npt.NDArray[np.int64] | None:
    """(n, 2) pairs (index along `axis` before, index along `target` after) that some element has; None when too many.

    Element e of the row-major order has index (e // inner) % size along an axis, where inner is the product of the sizes
    behind it: both indices repeat with the least common multiple of their periods, and change at multiples of the greatest
    common divisor of their inner sizes.
    """
    inner, other = prod(before[axis + 1 :]), prod(after[target + 1 :])
    step = gcd(inner, other)
    count = min(prod(before), lcm(before[axis] * inner, after[target] * other)) // step
    if count > MOST_STEPS:
        return None
    starts = np.arange(count, dtype=np.int64) * step
    first, second = starts // inner % before[axis], starts // other % after[target]
    codes = np.unique(first * after[target] + second)
    return np.stack([codes // after[target], codes % after[target]], axis=1)


def _count_apart(roots: Ids, targets: npt.NDArray[np.int64], size: int) -> int:
    """How many channels stay apart when all that meet at a target become one."""
    names, numbers = np.unique(roots, return_inverse=True)
    trial = Ties()
    trial.fresh(size + len(names))
    trial.tie(targets, numbers.reshape(-1) + size)
    return len(set(trial.roots(np.arange(size)).tolist()))


def _transpose(trace: Trace, node: gs.Node) -> str:
    channels = trace.channels[node.inputs[0].name]
    rank = len(trace.shape(node.inputs[0]))
    perm = [int(p) for p in node.attrs.get("perm", range(rank)[::-1])]
    trace.set(node.outputs[0], perm.index(channels.axis), channels.ids)
    return ""


def _concat(trace: Trace, node: gs.Node) -> str:
    live = [t for t in node.inputs if t.name in trace.channels]
    if not live or not all(t.name in trace.channels or is_float_constant(node, p) for p, t in enumerate(node.inputs)):
        return "an operand is no float32"
    rank = len(trace.shape(node.outputs[0]))
    joined = int(node.attrs["axis"]) % rank
    axis = trace.channels[live[0].name].axis
    parts: list[Ids] = []
    for position, tensor in enumerate(node.inputs):
        if tensor.name in trace.channels:
            parts.append(trace.along(tensor, axis))
            continue
        ids = trace.ties.fresh(np.asarray(constant(tensor)).shape[axis])
        trace.absorb(node, position, ids.reshape(-1, *(1,) * (rank - axis - 1)), 1, is_weight=False)
        parts.append(ids)
    if joined == axis:
        trace.set(node.outputs[0], axis, np.concatenate(parts))
        return ""
    for part in parts[1:]:
        trace.ties.tie(parts[0], part)
    trace.set(node.outputs[0], axis, parts[0])
    return ""


def _split(trace: Trace, node: gs.Node) -> str:
    channels = trace.channels[node.inputs[0].name]
    along = int(node.attrs.get("axis", 0)) % len(trace.shape(node.inputs[0]))
    first = 0
    for output in node.outputs:
        size = trace.shape(output)[along]
        ids = channels.ids if along != channels.axis else channels.ids[first : first + size]
        trace.set(output, channels.axis, ids)
        first += size
    return ""


def _slice(trace: Trace, node: gs.Node) -> str:
    channels = trace.channels[node.inputs[0].name]
    rank = len(trace.shape(node.inputs[0]))
    axes = _numbers(node, 3, "axes")
    starts, ends, steps = _numbers(node, 1, "starts"), _numbers(node, 2, "ends"), _numbers(node, 4, "steps")
    if axes is None and is_present(node, 3):
        return "its axes are computed"
    if axes is None:
        axes = list(range(rank)) if starts is None else list(range(len(starts)))
    axes = [a % rank for a in axes]
    ids = channels.ids
    if channels.axis in axes:
        if starts is None or ends is None or (steps is None and is_present(node, 4)):
            return "its bounds are computed"
        at = axes.index(channels.axis)
        ids = ids[starts[at] : ends[at] : steps[at] if steps else 1]
    trace.set(node.outputs[0], channels.axis, ids)
    return ""


def _numbers(node: gs.Node, position: int, attribute: str) -> list[int] | None:
    """Of an attribute (Slice before opset 10) or a constant input; None when absent or computed."""
    if attribute in node.attrs:
        return [int(n) for n in node.attrs[attribute]]
    value = constant(node.inputs[position]) if is_present(node, position) else None
    return None if value is None else [int(n) for n in value.reshape(-1)]


def _gather(trace: Trace, node: gs.Node) -> str:
    if node.inputs[0].name not in trace.channels:
        return "it gathers from a constant"
    channels = trace.channels[node.inputs[0].name]
    shape, result = trace.shape(node.inputs[0]), trace.shape(node.outputs[0])
    along = int(node.attrs.get("axis", 0)) % len(shape)
    grown = len(result) - len(shape)
    if along != channels.axis:
        trace.set(node.outputs[0], channels.axis + (grown if channels.axis > along else 0), channels.ids)
        return ""
    indices = constant(node.inputs[1])
    if indices is None or indices.ndim != 1:
        root = trace.ties.tie_all(channels.ids)
        axis = min(1, len(result) - 1)
        trace.set(node.outputs[0], axis, np.full(result[axis], root))
        return ""
    trace.set(node.outputs[0], along, channels.ids[indices])
    return ""


def _expand(trace: Trace, node: gs.Node) -> str:
    result = trace.shape(node.outputs[0])
    axis = trace.axis_in(node.inputs[0], result)
    trace.set(node.outputs[0], axis, trace.spread(node.inputs[0], result, axis))
    return ""


def _tile(trace: Trace, node: gs.Node) -> str:
    channels = trace.channels[node.inputs[0].name]
    times = trace.shape(node.outputs[0])[channels.axis] // len(channels.ids)
    trace.set(node.outputs[0], channels.axis, np.tile(channels.ids, times))
    return ""


def _depth_to_space(trace: Trace, node: gs.Node) -> str:
    """The channels that become neighbours in space become one."""
    ids = trace.along(node.inputs[0], 1)
    square = int(node.attrs["blocksize"]) ** 2
    is_crd = node.attrs.get("mode", "DCR") == "CRD"
    table = ids.reshape(-1, square) if is_crd else ids.reshape(square, -1).T
    trace.set(node.outputs[0], 1, np.array([trace.ties.tie_all(row) for row in table]))
    return ""


def _space_to_depth(trace: Trace, node: gs.Node) -> str:
    ids = trace.along(node.inputs[0], 1)
    trace.set(node.outputs[0], 1, np.tile(ids, int(node.attrs["blocksize"]) ** 2))
    return ""


MOVEMENT_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _reshape),
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Gather": _gather,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Tile": _tile,
    "Transpose": _transpose,
}

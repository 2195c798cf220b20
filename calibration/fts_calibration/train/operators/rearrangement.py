"""Operators that move elements and compute none.

Source: ONNX specification, the operator's own page.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fts_calibration.train.operators.node import Node, Run


def _concat(node: Node) -> Run:
    axis = node.integer("axis", 1)
    return lambda *tensors: torch.cat(tensors, dim=axis)


def _split(node: Node) -> Run:
    axis, given = node.integer("axis", 0), node.integers("split")
    node.ignore("num_outputs")  # the node has as many
    count = len(node.outputs)

    def run(x: Tensor, sizes: Tensor | None = None) -> tuple[Tensor, ...]:
        chosen = given if sizes is None else sizes.tolist()
        if chosen is None:
            each = -(-x.shape[axis] // count)  # the last is smaller where it does not divide
            chosen = [max(min(each, x.shape[axis] - i * each), 0) for i in range(count)]
        parts: tuple[Tensor, ...] = torch.split(x, list(chosen), dim=axis)
        return parts

    return run


def _slice(node: Node) -> Run:
    if node.opset < 10:
        starts, ends, axes = node.integers("starts") or (), node.integers("ends") or (), node.integers("axes")
        return lambda x: _sliced(x, starts, ends, axes or range(len(starts)), [1] * len(starts))

    def run(x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None) -> Tensor:
        count = starts.numel()
        chosen = range(count) if axes is None else axes.tolist()
        return _sliced(x, starts.tolist(), ends.tolist(), chosen, [1] * count if steps is None else steps.tolist())

    return run


def _sliced(x: Tensor, *bounds: object) -> Tensor:
    for start, end, axis, step in zip(*bounds, strict=True):  # type: ignore[call-overload]
        places = range(x.shape[axis])[start:end:step]
        if step > 0:
            x = x[(slice(None),) * (axis % x.dim()) + (slice(places.start, max(places.stop, places.start), step),)]
        else:  # torch has no negative steps
            x = x.index_select(axis, torch.tensor(list(places), dtype=torch.int64, device=x.device))
    return x


def _reshape(node: Node) -> Run:
    is_zero_kept = bool(node.integer("allowzero", 0))

    def run(x: Tensor, shape: Tensor) -> Tensor:
        wanted = [x.shape[i] if s == 0 and not is_zero_kept else s for i, s in enumerate(shape.tolist())]
        return x.reshape(wanted)

    return run


def _flatten(node: Node) -> Run:
    axis = node.integer("axis", 1)

    def run(x: Tensor) -> Tensor:
        start = axis + x.dim() if axis < 0 else axis
        return x.reshape(x.shape[:start].numel(), x.shape[start:].numel())

    return run


def _squeeze(node: Node) -> Run:
    given = node.integers("axes")

    def run(x: Tensor, axes: Tensor | None = None) -> Tensor:
        chosen = given if axes is None else tuple(axes.tolist())
        return x.squeeze() if chosen is None else x.squeeze(chosen)

    return run


def _unsqueeze(node: Node) -> Run:
    given = node.integers("axes")

    def run(x: Tensor, axes: Tensor | None = None) -> Tensor:
        chosen = (given or ()) if axes is None else axes.tolist()
        rank = x.dim() + len(chosen)
        for axis in sorted(a % rank for a in chosen):
            x = x.unsqueeze(axis)
        return x

    return run


def _transpose(node: Node) -> Run:
    order = node.integers("perm")
    return lambda x: x.permute(order if order is not None else tuple(range(x.dim()))[::-1])


def _expand(node: Node) -> Run:
    """Both ways: the wanted shape may itself have ones."""

    def run(x: Tensor, shape: Tensor) -> Tensor:
        wanted = shape.tolist()
        own = [1] * (len(wanted) - x.dim()) + list(x.shape)
        wanted = [1] * (len(own) - len(wanted)) + wanted
        return x.expand([size if size != 1 else other for size, other in zip(own, wanted, strict=True)])

    return run


def _tile(node: Node) -> Run:
    return lambda x, repeats: x.repeat(repeats.tolist())


def _depth_to_space(node: Node) -> Run:
    b = node.integer("blocksize", 1)
    mode = node.choice("mode", "DCR", ("DCR", "CRD"))

    def run(x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        if mode == "DCR":  # channels are (b, b, C)
            y = x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2)
        else:  # channels are (C, b, b)
            y = x.reshape(n, c // b**2, b, b, h, w).permute(0, 1, 4, 2, 5, 3)
        return y.reshape(n, c // b**2, h * b, w * b)

    return run


def _space_to_depth(node: Node) -> Run:
    """To channels (b, b, C): what DepthToSpace DCR undoes. The standard operator has no mode before opset 27."""
    b = node.integer("blocksize", 1)

    def run(x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b**2, h // b, w // b)

    return run


def _identity(node: Node) -> Run:
    return lambda x: x


def _dropout(node: Node) -> Run:
    """Of inference: nothing is dropped."""
    node.ignore("ratio", "seed")
    node.refuse_outputs_after(1)
    if len(node.inputs) > 2 and node.inputs[2]:
        raise node.refusal("an input training_mode", "none")
    return lambda x, ratio=None: x


OPERATORS: dict[str, Callable[[Node], Run]] = {
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Expand": _expand,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Identity": _identity,
    "Dropout": _dropout,
}

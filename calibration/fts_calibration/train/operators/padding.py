"""Pad of any axes; what is not constant takes elements by index, axis by axis.

Source: ONNX specification, Pad-2, Pad-11, Pad-18, Pad-19 (wrap).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fts_calibration.train.operators.node import Node, Run
from fts_calibration.train.operators.window import Pads, padded

MODES = ("constant", "reflect", "edge", "wrap")


def _pad(node: Node) -> Run:
    mode = node.choice("mode", "constant", MODES)
    if node.opset < 11:
        pads, value = node.integers("pads") or (), node.number("value", 0.0)
        return lambda x: _padded(x, pads, range(x.dim()), mode, value)

    def run(x: Tensor, pads: Tensor, value: Tensor | None = None, axes: Tensor | None = None) -> Tensor:
        chosen = range(x.dim()) if axes is None else [a % x.dim() for a in axes.tolist()]
        return _padded(x, pads.tolist(), chosen, mode, 0.0 if value is None else value.item())

    return run


def _padded(x: Tensor, pads: Sequence[int], axes: Sequence[int], mode: str, value: float) -> Tensor:
    by_axis: Pads = [(0, 0)] * x.dim()
    for i, axis in enumerate(axes):
        by_axis[axis] = (pads[i], pads[i + len(axes)])
    if mode == "constant":
        return padded(x, by_axis, value)
    for axis, (begin, end) in enumerate(by_axis):
        cut_begin, cut_end = max(-begin, 0), max(-end, 0)
        x = x.narrow(axis, cut_begin, x.shape[axis] - cut_begin - cut_end) if cut_begin or cut_end else x
        if begin > 0 or end > 0:
            places = torch.arange(-max(begin, 0), x.shape[axis] + max(end, 0), device=x.device)
            x = x.index_select(axis, _source(places, x.shape[axis], mode))
    return x


def _source(places: Tensor, size: int, mode: str) -> Tensor:
    """Index of the element that stands at a place outside [0, size)."""
    if mode == "edge" or size == 1:
        return places.clamp(0, size - 1)
    if mode == "wrap":
        return places.remainder(size)
    period = 2 * (size - 1)
    folded = places.remainder(period)
    return torch.minimum(folded, period - folded)


OPERATORS = {"Pad": _pad}

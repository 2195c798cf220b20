"""Elements chosen by index tensors; negative indices count from the end.

Source: ONNX specification, Gather-13, GatherElements-13, Trilu-14.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fts_calibration.train.operators.node import Node, Run


def _gather(node: Node) -> Run:
    axis = node.integer("axis", 0)

    def run(x: Tensor, indices: Tensor) -> Tensor:
        dim = axis % x.dim()
        places = indices.to(torch.int64).remainder(x.shape[dim])
        picked = x.index_select(dim, places.reshape(-1))
        return picked.reshape(x.shape[:dim] + indices.shape + x.shape[dim + 1 :])

    return run


def _gather_elements(node: Node) -> Run:
    axis = node.integer("axis", 0)
    return lambda x, indices: torch.gather(x, axis, indices.to(torch.int64).remainder(x.shape[axis]))


def _trilu(node: Node) -> Run:
    triangle = torch.triu if node.integer("upper", 1) else torch.tril
    return lambda x, k=None: triangle(x, 0 if k is None else int(k.item()))


OPERATORS: dict[str, Callable[[Node], Run]] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Trilu": _trilu,
}

"""Reductions over axes; axes are an attribute in old opsets and an input since 13 (ReduceSum) and 18 (all others).

Source: ONNX specification, ReduceSum-13, ReduceMean-18 and their siblings, ArgMax-13, CumSum-14.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fts_calibration.train.operators.node import Node, Run

Reduce = Callable[[Tensor, tuple[int, ...], bool], Tensor]


def _reduction(function: Reduce) -> Callable[[Node], Run]:
    def build(node: Node) -> Run:
        is_kept = bool(node.integer("keepdims", 1))
        given = node.integers("axes")
        is_noop = bool(node.integer("noop_with_empty_axes", 0))

        def run(x: Tensor, axes: Tensor | None = None) -> Tensor:
            chosen = given if axes is None else tuple(axes.tolist())
            if not chosen:
                if is_noop:
                    return function(x.unsqueeze(0), (0,), False)  # the operator's function of each element alone
                chosen = tuple(range(x.dim()))
            return function(x, chosen, is_kept) if x.dim() else function(x.reshape(1), (0,), False)

        return run

    return build


def _prod(x: Tensor, axes: tuple[int, ...], is_kept: bool) -> Tensor:
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = torch.prod(x, dim=axis, keepdim=is_kept, dtype=x.dtype)
    return x


def _sum(x: Tensor, axes: tuple[int, ...], is_kept: bool) -> Tensor:
    return torch.sum(x, dim=axes, keepdim=is_kept, dtype=x.dtype)


def _mean(x: Tensor, axes: tuple[int, ...], is_kept: bool) -> Tensor:
    if x.is_floating_point():
        return torch.mean(x, dim=axes, keepdim=is_kept)
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return torch.div(_sum(x, axes, is_kept), count, rounding_mode="trunc")


def _l2(x: Tensor, axes: tuple[int, ...], is_kept: bool) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(x, dim=axes, keepdim=is_kept)
    return norm


def _arg(function: Callable[..., Tensor]) -> Callable[[Node], Run]:
    def build(node: Node) -> Run:
        axis, is_kept = node.integer("axis", 0), bool(node.integer("keepdims", 1))
        is_last = bool(node.integer("select_last_index", 0))

        def run(x: Tensor) -> Tensor:
            if is_last:
                return x.shape[axis] - 1 - function(x.flip(axis), dim=axis, keepdim=is_kept)
            return function(x, dim=axis, keepdim=is_kept)

        return run

    return build


def _cum_sum(node: Node) -> Run:
    is_exclusive, is_reversed = bool(node.integer("exclusive", 0)), bool(node.integer("reverse", 0))

    def run(x: Tensor, axis: Tensor) -> Tensor:
        dim = int(axis.item())
        x = x.flip(dim) if is_reversed else x
        y = torch.cumsum(x, dim, dtype=x.dtype)
        y = y - x if is_exclusive else y
        return y.flip(dim) if is_reversed else y

    return run


OPERATORS: dict[str, Callable[[Node], Run]] = {
    "ReduceSum": _reduction(_sum),
    "ReduceMean": _reduction(_mean),
    "ReduceMax": _reduction(lambda x, axes, keep: torch.amax(x, axes, keep)),
    "ReduceMin": _reduction(lambda x, axes, keep: torch.amin(x, axes, keep)),
    "ReduceProd": _reduction(_prod),
    "ReduceL1": _reduction(lambda x, axes, keep: _sum(torch.abs(x), axes, keep)),
    "ReduceL2": _reduction(_l2),
    "ReduceSumSquare": _reduction(lambda x, axes, keep: _sum(x * x, axes, keep)),
    "ReduceLogSum": _reduction(lambda x, axes, keep: torch.log(_sum(x, axes, keep))),
    "ReduceLogSumExp": _reduction(lambda x, axes, keep: torch.logsumexp(x, axes, keep)),
    "ArgMax": _arg(torch.argmax),
    "ArgMin": _arg(torch.argmin),
    "CumSum": _cum_sum,
}

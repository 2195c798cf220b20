"""Pools over one to three spatial axes.

The input is padded out to what the windows cover and torch pools it without padding of its own, so that every rule of
the specification (asymmetric pads, ceil_mode, which places an average counts) is written here and not inherited.

Source: ONNX specification, MaxPool-12, AveragePool-19, GlobalAveragePool-1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fts_calibration.train.operators.node import Node, Run
from fts_calibration.train.operators.window import Pads, Window, padded, window_of

MAX_POOLS: Mapping[int, Callable[..., Tensor]] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGE_POOLS: Mapping[int, Callable[..., Tensor]] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pool:
    """Attributes of a pool; one number a spatial axis."""

    kernel: tuple[int, ...]
    window: Window
    is_ceil: bool

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def pads(self, sizes: Sequence[int]) -> Pads:
        return self.window.padding(sizes, self.kernel)

    def spans(self) -> list[int]:
        """Places from the first tap of a window to behind its last."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.window.distances(self.rank), strict=True)]

    def output_sizes(self, sizes: Sequence[int], pads: Pads) -> list[int]:
        """No window begins behind the input and its beginning pad."""
        found = []
        for size, (begin, end), span, step in zip(sizes, pads, self.spans(), self.window.steps(self.rank), strict=True):
            room = size + begin + end - span
            count = (-(-room // step) if self.is_ceil else room // step) + 1
            if self.is_ceil and (count - 1) * step >= size + begin:
                count -= 1
            found.append(count)
        return found

    def covering(self, sizes: Sequence[int], pads: Pads) -> Pads:
        """Pads with which the windows end where the input ends; negative where it is cut."""
        steps = self.window.steps(self.rank)
        counts = self.output_sizes(sizes, pads)
        return [
            (begin, (count - 1) * step + span - size - begin)
            for size, (begin, _), span, step, count in zip(sizes, pads, self.spans(), steps, counts, strict=True)
        ]


def _pool_of(node: Node) -> _Pool:
    kernel = node.integers("kernel_shape") or ()
    if len(kernel) not in MAX_POOLS:
        raise node.refusal(f"{len(kernel)} spatial axes", "1 to 3")
    return _Pool(kernel=kernel, window=window_of(node), is_ceil=bool(node.integer("ceil_mode", 0)))


def _max_pool(node: Node) -> Run:
    pool = _pool_of(node)
    node.ignore("storage_order")  # orders the indices alone
    node.refuse_outputs_after(1)
    steps, distances = pool.window.steps(pool.rank), pool.window.distances(pool.rank)

    def run(x: Tensor) -> Tensor:
        sizes = x.shape[2:]
        x = padded(x, pool.covering(sizes, pool.pads(sizes)), float("-inf"))
        return MAX_POOLS[pool.rank](x, pool.kernel, steps, dilation=distances)

    return run


def _average_pool(node: Node) -> Run:
    pool = _pool_of(node)
    is_pad_counted = bool(node.integer("count_include_pad", 0))
    if any(d != 1 for d in pool.window.distances(pool.rank)):
        raise node.refusal(f"dilations={list(pool.window.distances(pool.rank))}", "1 on every axis")
    steps = pool.window.steps(pool.rank)

    def run(x: Tensor) -> Tensor:
        sizes = x.shape[2:]
        pads = pool.pads(sizes)
        covering = pool.covering(sizes, pads)
        y = AVERAGE_POOLS[pool.rank](padded(x, covering), pool.kernel, steps)
        for axis, (size, (begin, end)) in enumerate(zip(sizes, pads, strict=True)):
            low, high = (-begin, size + end) if is_pad_counted else (0, size)
            counts = _counts(y.shape[axis + 2], steps[axis], pool.kernel[axis], begin, low, high)
            if any(count != pool.kernel[axis] for count in counts):
                correction = torch.tensor(
                    [pool.kernel[axis] / count for count in counts], dtype=x.dtype, device=x.device
                )
                y = y * correction.reshape(-1, *[1] * (pool.rank - 1 - axis))
        return y

    return run


def _counts(windows: int, step: int, taps: int, begin: int, low: int, high: int) -> list[int]:
    """How many taps of each window lie in [low, high) of the input."""
    starts = [i * step - begin for i in range(windows)]
    return [min(start + taps, high) - max(start, low) for start in starts]


def _global_average_pool(node: Node) -> Run:
    return lambda x: x.mean(dim=tuple(range(2, x.dim())), keepdim=True)


def _global_max_pool(node: Node) -> Run:
    return lambda x: x.amax(dim=tuple(range(2, x.dim())), keepdim=True)


OPERATORS: dict[str, Callable[[Node], Run]] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_average_pool,
    "GlobalMaxPool": _global_max_pool,
}

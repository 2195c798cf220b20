"""Rounding to a grid that gradients pass: what quantization does to a tensor, as a torch function."""

from __future__ import annotations

import torch
from torch import Tensor

from fts.vocabulary.quantization import QuantParams


def round_through(values: Tensor) -> Tensor:
    """Round to whole numbers, ties to even; the gradient passes as if nothing were done.

    Source: Bengio et al. 2013, arXiv:1308.3432 (straight-through estimator).
    """
    return values + (torch.round(values) - values).detach()


class FakeQuantize:
    """real -> nearest value on a grid, in float. The gradient passes inside the grid's range and is 0 outside."""

    def __init__(self, grid: QuantParams, rank: int) -> None:
        """Take the grid of a tensor of so many axes."""
        shape = [1] * rank
        if grid.axis is not None:
            shape[grid.axis] = -1
        self._scale = torch.from_numpy(grid.scale.copy()).reshape(shape)
        self._zero_point = torch.from_numpy(grid.zero_point.copy()).reshape(shape)
        self._least, self._greatest = grid.scheme.qmin, grid.scheme.qmax

    def __call__(self, values: Tensor) -> Tensor:
        steps = round_through(values / self._scale) + self._zero_point
        return (torch.clamp(steps, self._least, self._greatest) - self._zero_point) * self._scale

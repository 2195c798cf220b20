"""Strides, dilations and padding of a sliding window, for convolutions and pools.

Source: ONNX specification, Conv and AveragePool: `auto_pad`, `pads`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from fts_calibration.train.operators.node import Node

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
Pads = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One number a spatial axis; None where the node leaves it to the default.

    Attributes:
        strides: Steps.
        dilations: Distance of two taps.
        pads: All beginnings, then all ends.
        auto_pad: Rule that replaces `pads`.
    """

    strides: tuple[int, ...] | None
    dilations: tuple[int, ...] | None
    pads: tuple[int, ...] | None
    auto_pad: str

    def steps(self, rank: int) -> tuple[int, ...]:
        return self.strides or (1,) * rank

    def distances(self, rank: int) -> tuple[int, ...]:
        return self.dilations or (1,) * rank

    def given_pads(self, rank: int) -> Pads:
        """(beginning, end) of each axis as the attribute says it."""
        pads = self.pads or (0,) * (2 * rank)
        return list(zip(pads[:rank], pads[rank:], strict=True))

    def padding(self, sizes: Sequence[int], kernel: Sequence[int]) -> Pads:
        """(beginning, end) of each axis of an input of these sizes."""
        rank = len(kernel)
        if self.auto_pad == "NOTSET":
            return self.given_pads(rank)
        if self.auto_pad == "VALID":
            return [(0, 0)] * rank
        pads = []
        for size, taps, stride, dilation in zip(sizes, kernel, self.steps(rank), self.distances(rank), strict=True):
            total = max((-(-size // stride) - 1) * stride + dilation * (taps - 1) + 1 - size, 0)
            pads.append(halves(total, is_more_at_end=self.auto_pad == "SAME_UPPER"))
        return pads


def window_of(node: Node) -> Window:
    """Read the attributes."""
    return Window(
        strides=node.integers("strides"),
        dilations=node.integers("dilations"),
        pads=node.integers("pads"),
        auto_pad=node.choice("auto_pad", "NOTSET", AUTO_PADS),
    )


def halves(total: int, *, is_more_at_end: bool) -> tuple[int, int]:
    """Split a padding over both ends."""
    less = total // 2
    return (less, total - less) if is_more_at_end else (total - less, less)


def padded(x: Tensor, pads: Pads, value: float = 0.0) -> Tensor:
    """A tensor with its last axes padded by a constant, cropped where a number is negative."""
    if all(begin == end == 0 for begin, end in pads):
        return x
    last_axis_first = [amount for pair in reversed(pads) for amount in pair]
    return F.pad(x, last_axis_first, value=value)

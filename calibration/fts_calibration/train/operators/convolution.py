"""Conv and ConvTranspose over one to three spatial axes.

Source: ONNX specification, Conv-11 and ConvTranspose-11.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from fts_calibration.train.operators.node import Node, Run
from fts_calibration.train.operators.window import Pads, Window, halves, padded, window_of

CONVOLUTIONS: Mapping[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED: Mapping[int, Callable[..., Tensor]] = {
    1: F.conv_transpose1d,
    2: F.conv_transpose2d,
    3: F.conv_transpose3d,
}


def _function(node: Node, functions: Mapping[int, Callable[..., Tensor]], weight: Tensor) -> Callable[..., Tensor]:
    rank = weight.dim() - 2
    if rank not in functions:
        raise node.refusal(f"{rank} spatial axes", "1 to 3")
    return functions[rank]


def _conv(node: Node) -> Run:
    group = node.integer("group", 1)
    window = window_of(node)
    node.ignore("kernel_shape")

    def run(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        function = _function(node, CONVOLUTIONS, weight)
        rank = weight.dim() - 2
        pads = window.padding(x.shape[2:], weight.shape[2:])
        symmetric = [begin for begin, end in pads if begin == end >= 0]
        if len(symmetric) < rank:
            x, symmetric = padded(x, pads), [0] * rank
        return function(x, weight, bias, window.steps(rank), symmetric, window.distances(rank), group)

    return run


def _conv_transpose(node: Node) -> Run:
    group = node.integer("group", 1)
    window = window_of(node)
    output_shape = node.integers("output_shape")
    output_padding = node.integers("output_padding")
    node.ignore("kernel_shape")

    def run(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        function = _function(node, TRANSPOSED, weight)
        rank = weight.dim() - 2
        added = output_padding or (0,) * rank
        options: dict[str, Any] = {"stride": window.steps(rank), "dilation": window.distances(rank), "groups": group}
        full = function(x, weight, **options)
        pads = _crops(window, x.shape[2:], full.shape[2:], added, output_shape)
        # Places that only the output padding makes hold the bias alone, so the bias comes last.
        y = padded(full, [(-begin, more - end) for (begin, end), more in zip(pads, added, strict=True)])
        return y if bias is None else y + bias.reshape(-1, *[1] * rank)

    return run


def _crops(
    window: Window,
    sizes: Sequence[int],
    full: Sequence[int],
    added: Sequence[int],
    output_shape: Sequence[int] | None,
) -> Pads:
    """What is cut off the full result: total = full + output padding - wanted size."""
    rank = len(sizes)
    if output_shape is not None:
        wanted: Sequence[int] = output_shape[-rank:]
    elif window.auto_pad.startswith("SAME"):
        wanted = [size * stride for size, stride in zip(sizes, window.steps(rank), strict=True)]
    else:
        return [(0, 0)] * rank if window.auto_pad == "VALID" else window.given_pads(rank)
    is_upper = window.auto_pad == "SAME_UPPER"
    return [halves(f + a - w, is_more_at_end=is_upper) for f, a, w in zip(full, added, wanted, strict=True)]


OPERATORS = {"Conv": _conv, "ConvTranspose": _conv_transpose}

"""Functions of one tensor with attributes: the ReLU family, sigmoids, softmax.

Source: ONNX specification, the operator's own page; defaults are those of the specification, not torch's.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from fts_calibration.train.operators.node import Node, Run


def _plain(function: Callable[[Tensor], Tensor]) -> Callable[[Node], Run]:
    return lambda node: function


def _leaky_relu(node: Node) -> Run:
    alpha = node.number("alpha", 0.01)
    return lambda x: F.leaky_relu(x, alpha)


def _prelu(node: Node) -> Run:
    """The slope broadcasts from the last axis, as numpy does: a slope of each channel is (C, 1, 1)."""
    return lambda x, slope: torch.where(x < 0, x * slope, x)


def _clip(node: Node) -> Run:
    if node.opset < 11:
        low, high = node.number("min", float("-inf")), node.number("max", float("inf"))
        return lambda x: torch.clamp(x, low, high)

    def run(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
        # One after the other: where low > high the specification gives high.
        x = x if low is None else torch.maximum(x, low)
        return x if high is None else torch.minimum(x, high)

    return run


def _hard_sigmoid(node: Node) -> Run:
    alpha, beta = node.number("alpha", 0.2), node.number("beta", 0.5)
    return lambda x: torch.clamp(alpha * x + beta, 0.0, 1.0)


def _elu(node: Node) -> Run:
    alpha = node.number("alpha", 1.0)
    return lambda x: F.elu(x, alpha)


def _celu(node: Node) -> Run:
    alpha = node.number("alpha", 1.0)
    return lambda x: F.celu(x, alpha)


def _selu(node: Node) -> Run:
    alpha, gamma = node.number("alpha", 1.6732632423543772), node.number("gamma", 1.0507009873554805)
    return lambda x: gamma * F.elu(x, alpha)


def _thresholded_relu(node: Node) -> Run:
    alpha = node.number("alpha", 1.0)
    return lambda x: torch.where(x > alpha, x, torch.zeros_like(x))


def _gelu(node: Node) -> Run:
    approximate = node.choice("approximate", "none", ("none", "tanh"))
    return lambda x: F.gelu(x, approximate=approximate)


def _over_axis(function: Callable[..., Tensor]) -> Callable[[Node], Run]:
    """Before opset 13 all axes from `axis` on are one."""

    def build(node: Node) -> Run:
        if node.opset >= 13:
            axis = node.integer("axis", -1)
            return lambda x: function(x, dim=axis)
        first = node.integer("axis", 1)

        def run(x: Tensor) -> Tensor:
            start = first % x.dim() if first < 0 else first
            rows = x.shape[:start].numel()
            return function(x.reshape(rows, -1), dim=1).reshape(x.shape)

        return run

    return build


def _softplus(x: Tensor) -> Tensor:
    return torch.logaddexp(x, torch.zeros_like(x))


OPERATORS: dict[str, Callable[[Node], Run]] = {
    "Relu": _plain(F.relu),
    "LeakyRelu": _leaky_relu,
    "PRelu": _prelu,
    "ThresholdedRelu": _thresholded_relu,
    "Clip": _clip,
    "Sigmoid": _plain(torch.sigmoid),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _plain(F.hardswish),
    "Gelu": _gelu,
    "Elu": _elu,
    "Celu": _celu,
    "Selu": _selu,
    "Mish": _plain(F.mish),
    "Softplus": _plain(_softplus),
    "Softsign": _plain(F.softsign),
    "Tanh": _plain(torch.tanh),
    "Softmax": _over_axis(F.softmax),
    "LogSoftmax": _over_axis(F.log_softmax),
}

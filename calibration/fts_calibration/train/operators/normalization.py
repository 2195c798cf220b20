"""Norms, by their definition: population variance, epsilon inside the root.

Source: ONNX specification, BatchNormalization-15, InstanceNormalization-6, LayerNormalization-17, GroupNormalization-18
and -21, RMSNormalization-23, LRN-13, LpNormalization-1, MeanVarianceNormalization-13.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fts_calibration.train.operators.node import Node, Run
from fts_calibration.train.operators.window import padded

STASH_FLOAT32 = 1  # onnx.TensorProto.FLOAT


def _along_channels(values: Tensor, rank: int) -> Tensor:
    """(C,) as (C, 1, ..) against (N, C, ..)."""
    return values.reshape(-1, *[1] * (rank - 2))


def _standardized(x: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    variance, mean = torch.var_mean(x, dim=tuple(axes), correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + epsilon)


def _batch_norm(node: Node) -> Run:
    epsilon = node.number("epsilon", 1e-5)
    node.ignore("momentum")
    node.only("training_mode", 0)
    node.only("spatial", 1)
    node.refuse_outputs_after(1)

    def run(x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        factor = scale * torch.rsqrt(variance + epsilon)
        rank = max(x.dim(), 2)
        return (x - _along_channels(mean, rank)) * _along_channels(factor, rank) + _along_channels(shift, rank)

    return run


def _instance_norm(node: Node) -> Run:
    epsilon = node.number("epsilon", 1e-5)

    def run(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        y = _standardized(x, range(2, x.dim()), epsilon)
        return y * _along_channels(scale, x.dim()) + _along_channels(shift, x.dim())

    return run


def _layer_norm(node: Node) -> Run:
    axis, epsilon = node.integer("axis", -1), node.number("epsilon", 1e-5)
    node.only("stash_type", STASH_FLOAT32)
    node.refuse_outputs_after(1)

    def run(x: Tensor, scale: Tensor, shift: Tensor | None = None) -> Tensor:
        y = _standardized(x, range(axis % x.dim(), x.dim()), epsilon) * scale
        return y if shift is None else y + shift

    return run


def _group_norm(node: Node) -> Run:
    epsilon, groups = node.number("epsilon", 1e-5), node.integer("num_groups", 1)
    is_per_group = node.opset < 21  # scale and bias are (groups,) in version 18, (C,) since
    node.only("stash_type", STASH_FLOAT32)

    def run(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        grouped = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
        y = _standardized(grouped, range(2, grouped.dim()), epsilon)
        if is_per_group:
            y = y * _along_channels(scale, grouped.dim()) + _along_channels(shift, grouped.dim())
            return y.reshape(x.shape)
        return y.reshape(x.shape) * _along_channels(scale, x.dim()) + _along_channels(shift, x.dim())

    return run


def _rms_norm(node: Node) -> Run:
    axis, epsilon = node.integer("axis", -1), node.number("epsilon", 1e-5)
    node.only("stash_type", STASH_FLOAT32)

    def run(x: Tensor, scale: Tensor) -> Tensor:
        axes = tuple(range(axis % x.dim(), x.dim()))
        return x * torch.rsqrt((x * x).mean(dim=axes, keepdim=True) + epsilon) * scale

    return run


def _local_response_norm(node: Node) -> Run:
    """y = x / (bias + alpha / size * sum of squares over `size` channels around) ** beta; an even size has one more behind."""
    size = node.integer("size", 1)
    alpha, beta, bias = node.number("alpha", 1e-4), node.number("beta", 0.75), node.number("bias", 1.0)

    def run(x: Tensor) -> Tensor:
        channels = x.shape[1]
        around = [(0, 0)] * (x.dim() - 1)
        around[0] = ((size - 1) // 2, size // 2)
        squares = padded(x * x, around)
        total = squares.narrow(1, 0, channels)
        for i in range(1, size):
            total = total + squares.narrow(1, i, channels)
        return x / (bias + alpha / size * total) ** beta

    return run


def _lp_norm(node: Node) -> Run:
    axis, p = node.integer("axis", -1), node.integer("p", 2)

    def run(x: Tensor) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(x, ord=p, dim=axis, keepdim=True)
        return x / norm

    return run


def _mean_variance_norm(node: Node) -> Run:
    axes = node.integers("axes") or (0, 2, 3)
    epsilon = 1e-9  # added to the standard deviation, not to the variance: the operator's function body

    def run(x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x, dim=axes, correction=0, keepdim=True)
        return (x - mean) / (torch.sqrt(variance) + epsilon)

    return run


OPERATORS = {
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "GroupNormalization": _group_norm,
    "RMSNormalization": _rms_norm,
    "LRN": _local_response_norm,
    "LpNormalization": _lp_norm,
    "MeanVarianceNormalization": _mean_variance_norm,
}

"""Weights of Conv, ConvTranspose and Gemm as numbers that can be scaled per output channel, and back into the node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.passes.graph_editing import TensorNames
from fts_converters.passes.graph_reading import constant


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearWeights:
    """A node's weight and bias.

    Attributes:
        weight: As the node stores it, in its own type: a copy in float64 would be the largest thing in memory.
        bias: float64 (C,), zeros when the node has none.
        axis: Axis of the output channels in `weight` (within a group for a grouped ConvTranspose).
        channels: C.
        groups: Groups of a convolution.
        is_transposed: ConvTranspose.
        dtype: Type to write back.
    """

    weight: npt.NDArray[np.floating[Any]]
    bias: npt.NDArray[np.float64]
    axis: int
    channels: int
    groups: int
    is_transposed: bool
    dtype: np.dtype[Any]


def linear_weights(node: gs.Node) -> LinearWeights | str:
    """Read them; a string says why it cannot be done."""
    if node.domain or node.op not in ("Conv", "ConvTranspose", "Gemm"):
        return "it has no weights that could be scaled"
    weight = constant(node.inputs[1])
    if weight is None:
        return "its weights are computed"
    if weight.dtype not in (np.float32, np.float64):
        return f"its weights are {weight.dtype}"
    if node.op == "Gemm":
        if node.attrs.get("alpha", 1.0) != 1.0 or node.attrs.get("beta", 1.0) != 1.0:
            return "it has an alpha or beta"
        axis, groups = (0 if node.attrs.get("transB") else 1), 1
        channels = weight.shape[axis]
    else:
        groups = int(node.attrs.get("group", 1))
        axis = 1 if node.op == "ConvTranspose" else 0
        channels = weight.shape[axis] * (groups if node.op == "ConvTranspose" else 1)
    bias = np.zeros(channels)
    if len(node.inputs) > 2 and node.inputs[2].name:
        stored = constant(node.inputs[2])
        if stored is None:
            return "its bias is computed"
        if stored.size not in (1, channels) or (stored.ndim == 2 and stored.shape[0] != 1):
            return f"its bias has shape {stored.shape}"
        bias = np.broadcast_to(stored.reshape(-1), (channels,)).astype(np.float64)
    return LinearWeights(
        weight=weight,
        bias=bias,
        axis=axis,
        channels=channels,
        groups=groups,
        is_transposed=node.op == "ConvTranspose",
        dtype=weight.dtype,
    )


def write_linear_weights(node: gs.Node, weights: LinearWeights, names: TensorNames) -> None:
    """Give the node new constants; the old ones stay with their other readers."""
    stem = node.inputs[1].name or node.name
    weight = names.constant(f"{stem}_folded", weights.weight.astype(weights.dtype, copy=False))
    bias = names.constant(f"{stem}_folded_bias", weights.bias.astype(weights.dtype))
    node.inputs = [node.inputs[0], weight, bias]

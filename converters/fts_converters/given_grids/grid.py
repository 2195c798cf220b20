"""The grid that a QuantizeLinear or DequantizeLinear node holds, and its arithmetic on constants.

    real = scale * (q - zero_point)

in float32, with the roundings of the operators themselves, so that integers and reals are those of the net as it came.

Source: ONNX operator specification, QuantizeLinear-13 (round half to even, then saturate) and DequantizeLinear-13.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs
from onnx import helper

from fts_converters.passes.graph_reading import constant, rank

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """An integer grid as it was given.

    Attributes:
        scale: float32 (C,); C = 1 per tensor.
        zero_point: int32 (C,).
        dtype: Type of the integers.
        real: Type of the real numbers, float32 or float16.
        axis: Axis that C runs along, not negative; None per tensor.
    """

    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int32]
    dtype: np.dtype[Any]
    real: np.dtype[Any]
    axis: int | None

    @property
    def least(self) -> int:
        """Least integer of the type."""
        return int(np.iinfo(self.dtype).min)

    @property
    def greatest(self) -> int:
        """Greatest integer of the type."""
        return int(np.iinfo(self.dtype).max)

    @property
    def is_8_bit_tensor(self) -> bool:
        """One scale for the tensor, integers of 8 bits, reals of 32: what integer kernels take."""
        return self.axis is None and self.dtype in (np.int8, np.uint8) and self.real == np.float32

    def is_same(self, other: Grid) -> bool:
        """Equal in every bit."""
        return (
            (self.dtype, self.real, self.axis) == (other.dtype, other.real, other.axis)
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )

    def quantized(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Integers of real numbers of any shape that the axis exists in."""
        steps = np.rint(values.astype(np.float32) / self.along(self.scale, values.ndim))
        q = steps.astype(np.float64) + self.along(self.zero_point, values.ndim)
        return np.asarray(np.clip(q, self.least, self.greatest)).astype(self.dtype)

    def dequantized(self, integers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Real numbers of integers."""
        steps = integers.astype(np.int64) - self.along(self.zero_point, integers.ndim)
        real = steps.astype(np.float32) * self.along(self.scale, integers.ndim)
        return np.asarray(real.astype(self.real))

    def along(self, values: npt.NDArray[Any], axes: int) -> npt.NDArray[Any]:
        """(C,) shaped so that it broadcasts against a tensor of so many axes."""
        if self.axis is None:
            return values.reshape(())
        return values.reshape([-1 if a == self.axis else 1 for a in range(axes)])


def grid_of(node: gs.Node) -> Grid | None:
    """The grid of a Q or DQ node; None when it is computed, in blocks, or along an axis that cannot be told."""
    scale = constant(node.inputs[1])
    has_zero = has_zero_point(node)
    zero = constant(node.inputs[2]) if has_zero else None
    dtype = integer_dtype(node)
    if scale is None or (has_zero and zero is None) or dtype is None or node.attrs.get("block_size") or scale.ndim > 1:
        return None
    axis = None
    if scale.size != 1:
        axes = rank(node.inputs[0])
        axis = int(node.attrs.get("axis", 1))
        if axis < 0 and axes is None:
            return None
        axis = axis + (axes or 0) if axis < 0 else axis
    zeros = np.zeros(scale.size, np.int32) if zero is None else np.asarray(zero).reshape(-1).astype(np.int32)
    return Grid(
        scale=scale.reshape(-1).astype(np.float32),
        zero_point=np.broadcast_to(zeros, (scale.size,)),
        dtype=dtype,
        real=scale.dtype,
        axis=axis,
    )


def has_zero_point(node: gs.Node) -> bool:
    """Whether a Q or DQ node has a third input."""
    return len(node.inputs) > 2 and bool(node.inputs[2].name)


def integer_dtype(node: gs.Node) -> np.dtype[Any] | None:
    """Type of a node's integers, None when unknown."""
    if has_zero_point(node):
        tensor = node.inputs[2]
    elif node.op == QUANTIZE:
        given = node.attrs.get("output_dtype", 0)
        return np.dtype(helper.tensor_dtype_to_np_dtype(int(given))) if given else np.dtype(np.uint8)
    else:
        tensor = node.inputs[0]
    value = constant(tensor)
    known = tensor.dtype if value is None else value.dtype
    return None if known is None else np.dtype(known)


def is_q(node: gs.Node) -> bool:
    """QuantizeLinear of the standard."""
    return bool(node.op == QUANTIZE and not node.domain)


def is_dq(node: gs.Node) -> bool:
    """DequantizeLinear of the standard."""
    return bool(node.op == DEQUANTIZE and not node.domain)

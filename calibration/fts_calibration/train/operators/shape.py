"""Types and shapes as values.

Source: ONNX specification, Cast-13, Shape-15, Size-13, ConstantOfShape-9, Range-11.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from onnx import TensorProto, numpy_helper
from torch import Tensor

from fts_calibration.train.operators.node import Node, Run

TORCH_TYPES: Mapping[int, torch.dtype] = {
    TensorProto.FLOAT16: torch.float16,
    TensorProto.BFLOAT16: torch.bfloat16,
    TensorProto.FLOAT: torch.float32,
    TensorProto.DOUBLE: torch.float64,
    TensorProto.INT8: torch.int8,
    TensorProto.INT16: torch.int16,
    TensorProto.INT32: torch.int32,
    TensorProto.INT64: torch.int64,
    TensorProto.UINT8: torch.uint8,
    TensorProto.BOOL: torch.bool,
}
MOST_AXES = 2**31  # no `end` means all


def _cast(node: Node) -> Run:
    to = node.integer("to", TensorProto.UNDEFINED)
    node.ignore("saturate", "round_mode")  # of 8-bit floats alone
    if to not in TORCH_TYPES:
        names = ", ".join(TensorProto.DataType.Name(t) for t in TORCH_TYPES)
        raise node.refusal(f"to={TensorProto.DataType.Name(to)}", f"one of {names}")
    return lambda x: x.to(TORCH_TYPES[to])


def _shape(node: Node) -> Run:
    start, end = node.integer("start", 0), node.integer("end", MOST_AXES)
    return lambda x: torch.tensor(list(x.shape)[start:end], dtype=torch.int64, device=x.device)


def _size(node: Node) -> Run:
    return lambda x: torch.tensor(x.numel(), dtype=torch.int64, device=x.device)


def _constant_of_shape(node: Node) -> Run:
    proto = node.tensor("value")
    value = torch.zeros(1) if proto is None else torch.from_numpy(numpy_helper.to_array(proto).copy()).reshape(1)

    def run(shape: Tensor) -> Tensor:
        return value.to(shape.device).reshape(()).expand(shape.tolist()).clone()

    return run


def _range(node: Node) -> Run:
    def run(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
        count = max(int(torch.ceil((limit - start).double() / delta.double()).item()), 0)
        return start + torch.arange(count, dtype=start.dtype, device=start.device) * delta

    return run


OPERATORS: dict[str, Callable[[Node], Run]] = {
    "Cast": _cast,
    "Shape": _shape,
    "Size": _size,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
}

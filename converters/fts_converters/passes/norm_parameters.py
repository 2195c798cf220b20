"""What a norm is scaled and shifted by: one value a channel, or one for each place along the last axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.passes.graph_editing import TensorNames
from fts_converters.passes.graph_reading import constant, static_shape


def is_per_channel(tensor: gs.Tensor, axes: int, channels: int) -> bool:
    """One value a channel when broadcast against (N, C, ...): (1, C, 1, 1), (C, 1, 1), or a single number."""
    shape = static_shape(tensor)
    value = constant(tensor)
    if value is not None:
        shape = value.shape
    if shape is None:
        return False
    if math.prod(shape) == 1:
        return value is not None and len(shape) <= axes
    return shape in ((1, channels, *[1] * (axes - 2)), (channels, *[1] * (axes - 2)))


def per_channel_vector(tensor: gs.Tensor, channels: int, names: TensorNames, graph: gs.Graph) -> gs.Tensor:
    """The tensor as (C,)."""
    value = constant(tensor)
    if value is not None:
        flat = np.broadcast_to(value.reshape(-1), (channels,)) if value.size == 1 else value.reshape(-1)
        return names.constant(f"{tensor.name}_vector", flat.astype(np.float32))
    maker = tensor.inputs[0] if len(tensor.inputs) == 1 else None
    if maker is not None and maker.op == "Reshape" and static_shape(maker.inputs[0]) == (channels,):
        return maker.inputs[0]
    vector = names.variable(f"{tensor.name}_vector", tensor, [channels])
    target = names.constant(f"{tensor.name}_vector_shape", np.array([channels], np.int64))
    graph.nodes.append(gs.Node(op="Reshape", name=vector.name, inputs=[tensor, target], outputs=[vector]))
    return vector


def is_along_last_axes(tensor: gs.Tensor, shape: tuple[int, ...]) -> bool:
    """A float32 constant that broadcasts against (..., *shape) along those axes alone."""
    value = constant(tensor)
    if value is None or value.dtype != np.float32:
        return False
    trimmed = value.shape
    while len(trimmed) > len(shape) and trimmed[0] == 1:
        trimmed = trimmed[1:]
    if len(trimmed) > len(shape):
        return False
    return all(a in (1, b) for a, b in zip(trimmed[::-1], shape[::-1], strict=False))


def along_last_axes(tensor: gs.Tensor, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Such a constant, broadcast to the shape."""
    value = constant(tensor)
    assert value is not None
    while value.ndim > len(shape):
        value = value[0]
    return np.array(np.broadcast_to(value, shape))

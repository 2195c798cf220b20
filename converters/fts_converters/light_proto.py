"""A net whose large weights travel beside its message, and back: what lets a net of any size pass through protobuf.

A serialized message ends at 2 GiB, and whatever takes one (shape inference, checker, version converter, onnxruntime)
copies it. None of them but onnxruntime looks at the values of a weight. So each large initializer of the main graph
becomes an external tensor without a file, its value an array under its name; shared by all forms of a net, never copied.

Does *not* take out integers, which shape inference may read, nor constants of subgraphs and Constant nodes, whose values
onnxruntime takes from the message alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from fts.errors import ModelError

Array = npt.NDArray[np.generic]

# A serialized protobuf message cannot be longer.
LIMIT_BYTES = 2**31 - 1
# Smaller ones stay: they cost nothing, and shapes may depend on them (scales of a Resize).
LARGE_BYTES = 1024
WEIGHT_TYPES = frozenset({TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16})
# Never opened: onnxruntime is given the values, everything else asks `LightProto`.
PLACE = "beside-the-message"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LightProto:
    """A net in two parts.

    Attributes:
        proto: The net; initializers that `weights` has are placeholders.
        weights: Name of an initializer of the main graph to its value; not to be written to.
    """

    proto: onnx.ModelProto
    weights: Mapping[str, Array]

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole net, serialized."""
        return int(self.proto.ByteSize()) + sum(w.nbytes for w in self.weights.values())

    def sha256(self) -> str:
        """Digest over nodes, names and every value."""
        digest = hashlib.sha256(self.proto.SerializeToString(deterministic=True))
        for name in sorted(self.weights):
            digest.update(name.encode())
            digest.update(bytes_of(self.weights[name]))
        return digest.hexdigest()

    def whole(self, what: str) -> onnx.ModelProto:
        """One message with all values.

        Args:
            what: The net in the message of an error.

        Raises:
            ModelError: It would be larger than a message can be.
        """
        _refuse_large(self.size_bytes, what)
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        for tensor in proto.graph.initializer:
            if tensor.name in self.weights:
                del tensor.external_data[:]
                tensor.ClearField("data_location")
                tensor.raw_data = self.weights[tensor.name].tobytes()
        return proto


def checkable(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A net in a form that onnx's checker takes, which wants every tensor's data: placeholders are inputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    inline = []
    for tensor in copy.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            copy.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        else:
            inline.append(tensor)
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(inline)
    return copy


def serialized(proto: onnx.ModelProto, what: str) -> bytes:
    """The bytes of a message, equal for equal content.

    Raises:
        ModelError: There would be too many.
    """
    _refuse_large(proto.ByteSize(), what)
    data: bytes = proto.SerializeToString(deterministic=True)
    return data


def _refuse_large(size_bytes: int, what: str) -> None:
    if size_bytes > LIMIT_BYTES:
        raise ModelError(
            f"{what}: {size_bytes} bytes, and one ONNX message holds at most {LIMIT_BYTES}. "
            "Convert a smaller net, or one in parts"
        )


def light_from_proto(proto: onnx.ModelProto, weights: Mapping[str, Array] | None = None) -> LightProto:
    """Take the large initializers out of a message.

    Args:
        proto: A net; left without those values.
        weights: Values of placeholders that it holds already.

    Raises:
        ModelError: A tensor holds fewer or more values than its shape.
    """
    found = dict(weights or {})
    for tensor in proto.graph.initializer:
        if tensor.name not in found and is_large_weight(tensor):
            found[tensor.name] = _value(tensor)
            tensor.CopyFrom(placeholder(tensor.name, tensor.dims, tensor.data_type))
    # A message keeps the memory of what was taken out of it: a new one lets it go.
    light = onnx.ModelProto()
    light.CopyFrom(proto)
    return LightProto(proto=light, weights=found)


def _value(tensor: TensorProto) -> Array:
    try:
        return numpy_helper.to_array(tensor)
    except ValueError as error:
        raise ModelError(
            f"tensor {tensor.name!r}: its data do not fill its shape {tuple(tensor.dims)}: {error}. Export the net again"
        ) from error


def is_large_weight(tensor: TensorProto) -> bool:
    """By type and shape alone, wherever its data lies."""
    if tensor.data_type not in WEIGHT_TYPES:
        return False
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    return int(prod(tensor.dims)) * dtype.itemsize > LARGE_BYTES


def is_large_array(values: Array) -> bool:
    """The same of a value; arrays of types that ONNX has no number for are never large."""
    if values.nbytes <= LARGE_BYTES or values.dtype.kind != "f":
        return False
    return helper.np_dtype_to_tensor_dtype(values.dtype) in WEIGHT_TYPES


def placeholder(name: str, shape: Iterable[int], data_type: int) -> TensorProto:
    """A tensor of a type and shape without data."""
    tensor = TensorProto(name=name, dims=shape, data_type=data_type, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=PLACE)
    return tensor


def bytes_of(values: Array) -> memoryview:
    """The bytes of an array, without a copy where it is contiguous."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data

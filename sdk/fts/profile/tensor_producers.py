"""Which node of an ONNX file gives which tensor, read without the onnx package, which the base install lacks.

onnxruntime calls a convolution that it moved to its blocked layout after the tensor it gives, `TENSOR_nchwc`. To find the
node, four fields of the protobuf are enough: ModelProto.graph = 7, GraphProto.node = 1, NodeProto.output = 2, .name = 3.

Source: onnx/onnx.proto; protobuf encoding: a field is a varint (number << 3 | wire type) and its payload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_GRAPH, _NODE, _OUTPUT, _NAME = 7, 1, 2, 3
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}


def tensor_producers(model: bytes) -> Mapping[str, str]:
    """Tensor name to the name of the node that gives it; nodes without a name are left out.

    Args:
        model: A serialized ONNX model that onnxruntime has accepted.
    """
    producers = {}
    for number, graph in _fields(memoryview(model)):
        if number != _GRAPH:
            continue
        for inner, node in _fields(graph):
            if inner == _NODE:
                parts = list(_fields(node))
                name = next((bytes(value).decode() for key, value in parts if key == _NAME), "")
                if name:
                    producers.update({bytes(value).decode(): name for key, value in parts if key == _OUTPUT})
    return producers


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """(number, payload) of the fields that have bytes for a payload; others are skipped."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            _, position = _varint(message, position)
        elif kind == _BYTES:
            size, position = _varint(message, position)
            yield tag >> 3, message[position : position + size]
            position += size
        elif kind in _FIXED_BYTES:
            position += _FIXED_BYTES[kind]
        else:
            raise ValueError(f"protobuf: found wire type {kind} at byte {position}, expected 0, 1, 2 or 5")


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """Value, and the position behind it."""
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7

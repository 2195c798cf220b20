"""Values that an ONNX file keeps in other files: read once, from files beside the model and nowhere else.

Everything is read into memory, not mapped: a file that changes or shrinks during a conversion of an hour would change the
net under us, or end the process. Digest and weights come from the same bytes.

Source: onnx/docs/ExternalData.md (location, offset, length; values are little-endian).
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from io import FileIO
from math import prod
from pathlib import Path

import numpy as np
from onnx import TensorProto, external_data_helper, helper

from fts.errors import ModelFileError
from fts_converters.light_proto import Array

# Types that take less than a byte an element.
PACKED_BITS: Mapping[int, int] = {
    getattr(TensorProto, name): bits
    for name, bits in (("UINT4", 4), ("INT4", 4), ("FLOAT4E2M1", 4), ("UINT2", 2), ("INT2", 2))
    if hasattr(TensorProto, name)
}


def is_external(tensor: TensorProto) -> bool:
    """Does its data lie in another file?"""
    return bool(external_data_helper.uses_external_data(tensor))


def refuse_outside_folder(name: str, tensor: TensorProto, path: Path) -> Path:
    """The file that holds a tensor's data.

    Args:
        name: Of the tensor, in the message.
        tensor: External tensor.
        path: The model's file.

    Raises:
        ModelFileError: Its location leaves the model's folder, by itself or through a link.
    """
    folder = path.parent.resolve()
    location = _entries(tensor).get("location", "")
    if location and not Path(location).is_absolute() and "\0" not in location:
        target = (folder / location).resolve()
        if folder in target.parents:
            return target
    raise ModelFileError(
        f"model {str(path)!r}, tensor {name!r}: external data location {location!r} lies outside the "
        "model's folder and was not opened; put the data file beside the model and save it with a relative name"
    )


def read_external(name: str, tensor: TensorProto, path: Path) -> Array:
    """All bytes of one tensor, uint8 (n,).

    Raises:
        ModelFileError: The file is outside of the folder, missing, no regular file, cannot be read, or lacks bytes; or
            offset and length do not fit the tensor's shape.
    """
    target = refuse_outside_folder(name, tensor, path)
    entries = _entries(tensor)
    location = entries["location"]
    expected = _size_bytes(tensor)
    if expected is None:
        raise _unreadable(path, name, f"shape {tuple(tensor.dims)} of type {tensor.data_type} says no number of bytes")
    offset = _number(entries.get("offset", "0"))
    length = _number(entries.get("length", str(expected)))
    if offset is None or length != expected:
        raise _unreadable(
            path,
            name,
            f"offset {entries.get('offset', '0')!r} and length {entries.get('length', '')!r}, expected an offset of 0 or "
            f"more and {expected} bytes for shape {tuple(tensor.dims)} of {TensorProto.DataType.Name(tensor.data_type)}",
        )
    try:
        # NOFOLLOW: the target is resolved, so a link there now was put there since. NONBLOCK: a pipe would wait for ever.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with FileIO(os.open(target, flags)) as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise _unreadable(path, name, f"{location!r} is no regular file")
            if offset + expected > info.st_size:
                raise _unreadable(
                    path, name, f"bytes {offset} to {offset + expected} of {location!r}, which has {info.st_size} bytes"
                )
            values = np.empty(expected, np.uint8)
            file.seek(offset)
            _fill(file, values, path, name, location)
    except OSError as cause:
        raise _unreadable(path, name, f"{location!r}: {cause.strerror or cause}") from cause
    return values


def array_from_bytes(values: Array, tensor: TensorProto) -> Array:
    """The tensor's value over the same memory."""
    dtype: np.dtype[np.generic] = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    array: Array = values.view(dtype.newbyteorder("<")).reshape(tuple(tensor.dims))
    return array if sys.byteorder == "little" else array.astype(dtype)


def _fill(file: FileIO, values: Array, path: Path, name: str, location: str) -> None:
    """Linux reads at most 2 GiB at once."""
    view = values.data
    while view:
        count = file.readinto(view[: 2**30])
        if not count:
            raise _unreadable(path, name, f"{location!r} was cut short while it was read")
        view = view[count:]


def _entries(tensor: TensorProto) -> dict[str, str]:
    return {e.key: e.value for e in tensor.external_data}


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _size_bytes(tensor: TensorProto) -> int | None:
    if tensor.data_type not in helper.get_all_tensor_dtypes() or any(d < 0 for d in tensor.dims):
        return None
    whole = 8 * np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize
    return (int(prod(tensor.dims)) * PACKED_BITS.get(tensor.data_type, whole) + 7) // 8


def _unreadable(path: Path, name: str, found: str) -> ModelFileError:
    return ModelFileError(
        f"model {str(path)!r}, tensor {name!r}: its external data cannot be read: {found}; keep the data files that were "
        "saved with the model beside it"
    )

"""Named arrays as npz bytes, and back, without pickle and without believing a header's size.

numpy's own `savez` writes the clock into the archive and `load` allocates what a header claims; both are unfit for a
reproducible and untrusted file. The format is numpy's: `numpy.load` reads what is written here.
"""

from __future__ import annotations

import io
import tokenize
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fts.errors import BundleDamagedError

AnyArray = npt.NDArray[Any]
_EPOCH = (1980, 1, 1, 0, 0, 0)
# What zipfile and numpy's header parser raise for bytes that are not theirs.
_REFUSALS = (zipfile.BadZipFile, ValueError, TypeError, EOFError, NotImplementedError, RuntimeError, SyntaxError,
             OverflowError, tokenize.TokenError)  # fmt: skip


def npz_bytes(arrays: Mapping[str, AnyArray]) -> bytes:
    """Deterministic npz: entries sorted by name, stored, C order, no clock.

    Raises:
        ValueError: An array holds Python objects.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name in sorted(arrays):
            entry = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            body = io.BytesIO()
            np.lib.format.write_array(body, np.asarray(arrays[name], order="C"), allow_pickle=False)
            archive.writestr(entry, body.getvalue())
    return out.getvalue()


def arrays_from_npz(data: bytes, name: str = "npz") -> dict[str, AnyArray]:
    """Read npz bytes.

    Args:
        data: The file's content.
        name: What is read, for messages.

    Returns:
        Arrays by name, each with memory of its own.

    Raises:
        BundleDamagedError: It is no npz of plain stored arrays.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if any(e.compress_type != zipfile.ZIP_STORED or e.file_size > len(data) for e in entries):
                raise ValueError("an entry is compressed or larger than the file")
            return {e.filename.removesuffix(".npy"): _array_from_npy(archive.read(e)) for e in entries}
    except _REFUSALS as cause:
        raise BundleDamagedError(f"{name}: damaged or incomplete: no plain npz ({cause}).") from cause


def _array_from_npy(body: bytes) -> AnyArray:
    file = io.BytesIO(body)
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"npy version {version}")
    if dtype.hasobject:
        raise ValueError("an array of Python objects")
    if any(n < 0 for n in shape):
        raise ValueError(f"an array of shape {shape}")
    array: AnyArray = np.frombuffer(body[file.tell() :], dtype).reshape(shape, order="F" if fortran else "C").copy()
    return array

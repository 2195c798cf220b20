"""One .npz whose arrays have a sample axis in front of the full input shape: (n, 1, 3, H, W).

The members are read as streams, side by side and one sample at a time: np.load would hold all n in memory.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from fts.errors import CalibrationError
from fts_calibration.dataset.calibration_set import Sample
from fts_calibration.dataset.input_request import Array, InputRequest
from fts_calibration.dataset.spool import samples_from_stream
from fts_calibration.dataset.watcher import Watcher

_MEMBER_SUFFIX = ".npy"


def samples_from_npz(
    file: Path, inputs: Sequence[InputRequest], rows: Mapping[str, Array], watcher: Watcher
) -> list[Sample]:
    """Split one .npz into samples.

    Args:
        file: The .npz.
        inputs: What the net asks for.
        rows: Values by name, for inputs that the file leaves out.
        watcher: Told of every sample.

    Returns:
        Samples by sha256 of their arrays.

    Raises:
        CalibrationError: The file is damaged, or its arrays are not (n, *input shape) with one n.
    """
    try:
        samples = samples_from_stream(_stream(file, inputs), inputs, rows, file.name, watcher)
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as cause:
        raise CalibrationError(f"{file.name}: cannot be read as .npz ({cause}). Write it with np.savez.") from cause
    return sorted(samples, key=lambda sample: sample.record.sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """One member: its open stream behind the header, and what the header says."""

    stream: IO[bytes]
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]

    def next_sample(self) -> Array:
        """Read the next array of shape `shape[1:]`."""
        wanted = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        data = self.stream.read(wanted)
        if len(data) != wanted:
            raise EOFError("it ends inside an array")
        return np.frombuffer(data, self.dtype).reshape(self.shape[1:])


def _stream(file: Path, inputs: Sequence[InputRequest]) -> Iterator[dict[str, Array]]:
    shapes = {request.spec.name: request.spec.static_shape for request in inputs}
    with zipfile.ZipFile(file) as archive, ExitStack() as stack:
        columns: dict[str, _Column] = {}
        for member in archive.namelist():
            key = member.removesuffix(_MEMBER_SUFFIX)
            where = f"{file.name}, key {key!r}"
            columns[key] = column = _column(stack.enter_context(archive.open(member)), where)
            expected = shapes.get(key)  # an unknown key is reported with the first sample, beside the known names
            if expected is not None and column.shape[1:] != expected:
                raise CalibrationError(
                    f"{where}: found {column.dtype} {column.shape}, expected a sample axis in front of the full input "
                    f"shape, (n, {', '.join(map(str, expected))}). {_shape_hint(column.shape, expected)}"
                )
        lengths = {key: column.shape[0] for key, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise CalibrationError(
                f"{file.name}: found sample counts {lengths}, expected one count for all. Save as many samples of each."
            )
        for _ in range(min(lengths.values(), default=0)):
            yield {key: column.next_sample() for key, column in columns.items()}


def _column(stream: IO[bytes], where: str) -> _Column:
    """Read a member's header; no array of objects and none in column order."""
    try:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read_header(stream)
    except ValueError as cause:
        raise CalibrationError(f"{where}: is no array ({cause}). Write the file with np.savez.") from cause
    if dtype.kind not in "biuf":
        raise CalibrationError(f"{where}: found {dtype}, expected a numeric array. Save it as numbers.")
    if not shape or (is_fortran and len(shape) > 1):
        raise CalibrationError(
            f"{where}: found shape {shape}{' in Fortran order' if is_fortran else ''}, expected a C-ordered array "
            "with a sample axis in front. Save np.ascontiguousarray(x)."
        )
    return _Column(stream=stream, dtype=dtype, shape=shape)


def _shape_hint(found: tuple[int, ...], expected: tuple[int, ...]) -> str:
    if found == expected:
        return "Add the sample axis: x[None]."
    if found[1:] == expected[1:] and expected[:1] == (1,):
        return "Add the batch axis behind the sample axis: x[:, None]."
    return "Save each sample in the input's full shape."

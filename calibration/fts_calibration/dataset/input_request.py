"""What a net asks for at one input, and the check that an array is that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from fts.errors import CalibrationError
from fts.vocabulary.preprocessing import Preprocessing
from fts.vocabulary.tensor_spec import TensorKind, TensorSpec

Array = npt.NDArray[Any]
Feed = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputRequest:
    """One input that calibration has to feed.

    Attributes:
        spec: Name, type, static shape.
        kind: "image" is fed from pictures; "tensor" from `values`; npz and iterables feed both.
        preprocessing: For images.
        values: Rows (n, *shape) for a tensor: its run-time default (n = 1) or the card's `values`; None when it has
            neither. Every picture is combined with every row.
    """

    spec: TensorSpec
    kind: TensorKind
    preprocessing: Preprocessing | None = None
    values: Array | None = None


def array_for_input(array: Array, spec: TensorSpec, where: str) -> Array:
    """Bring an array to an input's type, or say what is wrong with it.

    Args:
        array: One sample, of the full input shape.
        spec: The input.
        where: File and key, for the message.

    Returns:
        The array in the spec's type, C-contiguous.

    Raises:
        CalibrationError: Other shape, a type that does not fit, values lost by the cast, NaN or infinity.
    """
    expected = f"expected {spec.dtype} {spec.static_shape}"
    if array.shape != spec.static_shape:
        hint = "Write each sample in the input's full shape."
        if array.shape == spec.static_shape[1:]:
            hint = "Add the batch axis: x[None]."
        elif array.shape[1:] == spec.static_shape:
            hint = "A folder holds one sample a file; for a sample axis in front give one .npz file instead."
        raise CalibrationError(f"{where}: found {array.dtype} {array.shape}, {expected}. {hint}")
    target = np.dtype(spec.dtype)
    if not np.can_cast(array.dtype, target, "same_kind"):
        raise CalibrationError(
            f"{where}: found {array.dtype} {array.shape}, {expected}. Save it with .astype({spec.dtype!r})."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        cast = np.asarray(array, dtype=target, order="C")  # ascontiguousarray adds an axis to a number
    if array.dtype.kind in "iub" and target.kind in "iub" and not np.array_equal(cast, array):
        raise CalibrationError(f"{where}: values of {array.dtype} do not fit, {expected}. Correct the values.")
    if cast.dtype.kind == "f" and not np.isfinite(cast).all():
        count = int(cast.size - np.isfinite(cast).sum())
        raise CalibrationError(
            f"[not-finite] {where}: found {count} NaN or infinite values as {spec.dtype}, expected finite "
            "numbers. Correct the data."
        )
    return cast


def rows_of(request: InputRequest) -> Array | None:
    """The request's values as (n, *shape), checked and in the input's type; None when it has none."""
    if request.values is None:
        return None
    rows, shape = np.asarray(request.values), request.spec.static_shape
    where = f"values of input {request.spec.name!r}"
    if rows.ndim == 0 or not len(rows):
        raise CalibrationError(f"{where}: found shape {rows.shape}, expected (n, *{shape}) with n >= 1. Give a row.")
    if shape[:1] == (1,) and rows.shape[1:] == shape[1:]:
        rows = rows[:, None]  # (n, ...) -> (n, 1, ...): rows without the batch axis
    return np.stack([array_for_input(row, request.spec, f"{where}, row {i}") for i, row in enumerate(rows)])


def feeds_with_rows(fed: Feed, rows: Mapping[str, Array]) -> Iterator[Feed]:
    """Combine what a file feeds with every row of the other inputs; the last input's rows change fastest."""
    for combination in product(*rows.values()):
        yield {**fed, **dict(zip(rows, combination, strict=True))}


def feed_from_mapping(arrays: Mapping[str, Array], inputs: Sequence[InputRequest], where: str) -> Feed:
    """Check a raw sample: every key is an input, every input without values has a key.

    Args:
        arrays: Key to array of the full input shape.
        inputs: What the net asks for.
        where: The file or sample, for messages.

    Returns:
        Input name to array, in the net's order, without inputs that take their values.

    Raises:
        CalibrationError: An unknown or missing key, or an array that does not fit.
    """
    names = [request.spec.name for request in inputs]
    unknown = sorted(set(arrays) - set(names))
    missing = [r.spec.name for r in inputs if r.spec.name not in arrays and r.values is None]
    if unknown or missing:
        raise CalibrationError(
            f"{where}: found keys {sorted(arrays)}, expected the net's inputs {names}"
            + (f"; missing: {missing}" if missing else f"; unknown: {unknown}")
            + ". Save one array for each input, under the input's name."
        )
    return {
        r.spec.name: array_for_input(arrays[r.spec.name], r.spec, f"{where}, key {r.spec.name!r}")
        for r in inputs
        if r.spec.name in arrays
    }

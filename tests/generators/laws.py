"""What every graph pass owes: the same function, the same contract, and nothing left to do the second time."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, ValueInfoProto
from tests.generators.random_graphs import Case
from tests.generators.run_plain import run_plain
from tests.generators.tolerance import tolerance

from fts_converters.load import load_model
from fts_converters.model import Model, model_from_proto

Transform = Callable[[Model], object]


class LawBroken(AssertionError):
    """A transform changed what it must keep; the message begins with the law."""


def model_of(case: Case) -> Model:
    """The case as a Model, without the loader: opset and graph as generated; initializers are no longer inputs."""
    proto = ModelProto()
    proto.CopyFrom(case.model)
    initialized = {t.name for t in proto.graph.initializer}
    inputs = [i for i in proto.graph.input if i.name not in initialized]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    digest = hashlib.sha256(case.model.SerializeToString(deterministic=True)).hexdigest()
    return model_from_proto(proto, source=f"seed {case.seed}", source_sha256=digest)


def loaded_model(case: Case) -> Model:
    """The case by way of a file and `load_model`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        path.write_bytes(case.model.SerializeToString())
        return load_model(str(path))


def shaped_model(case: Case) -> Model:
    """The case as the loader gives it, with the shapes of all tensors inferred: what lowerings see after cleaning."""
    return model_from_proto(_shaped_proto(case), source=f"seed {case.seed}", source_sha256="")


@lru_cache(maxsize=256)
def _shaped_proto(case: Case) -> ModelProto:
    """Kept for the next transform of the same case; importing it copies nothing back."""
    return onnx.shape_inference.infer_shapes(loaded_model(case).to_proto(), data_prop=True)


def is_changed(result: object) -> bool:
    """What a transform reports: a bool, an object with `is_changed`, or the names of the passes that changed the graph."""
    if isinstance(result, tuple):
        return bool(result)
    return bool(getattr(result, "is_changed", result))


def check_law(
    transform: Transform, case: Case, *, source: Callable[[Case], Model] = loaded_model, is_idempotent: bool = True
) -> Model:
    """Apply a transform to a case and check everything that it owes.

    Args:
        transform: Changes a Model in place and says whether it did.
        case: What to apply it to.
        source: How the case becomes a Model.
        is_idempotent: False leaves law (b) out: for single steps that are not passes.

    Returns:
        The model after the first application.

    Raises:
        LawBroken: (a) an output's value, (b) a second application, (c) an input or output, (d) validity.
    """
    reference, bounds = _measured(case)
    model = source(case)
    transform(model)
    after = model.to_proto()
    _check_contract(case, after, reference)
    _check_valid(case, after)
    _check_values(case, after, reference, bounds)
    if is_idempotent:
        _check_second(transform, model, after, case)
    return model


@lru_cache(maxsize=256)
def _measured(case: Case) -> tuple[Sequence[npt.NDArray[Any]], tuple[float, ...]]:
    """Reference outputs and tolerance, kept for the next transform of the same case."""
    reference = run_plain(case.model, case.feeds)
    return reference, tolerance(case, reference)


def _check_values(
    case: Case, after: ModelProto, reference: Sequence[npt.NDArray[Any]], bounds: Sequence[float]
) -> None:
    try:
        outputs = run_plain(after, case.feeds)
    except Exception as error:
        raise LawBroken(f"(a) {case}: the result does not run: {error}") from error
    for value, r, y, bound in zip(case.model.graph.output, reference, outputs, bounds, strict=True):
        if r.shape != y.shape or r.dtype != y.dtype:
            raise LawBroken(f"(a) {case}, output {value.name!r}: {r.dtype}{r.shape} became {y.dtype}{y.shape}")
        if not is_within(y, r, bound):
            worst = float(np.nanmax(np.abs(y.astype(np.float64) - r.astype(np.float64))))
            raise LawBroken(f"(a) {case}, output {value.name!r}: off by {worst:.3g}, tolerance {bound:.3g}")


def is_within(y: npt.NDArray[Any], reference: npt.NDArray[Any], bound: float) -> bool:
    """Element by element; NaN is equal to nothing."""
    if reference.dtype.kind != "f":
        return bool(np.array_equal(y, reference))
    return bool((np.abs(y.astype(np.float64) - reference.astype(np.float64)) <= bound).all())


def _check_second(transform: Transform, model: Model, after: ModelProto, case: Case) -> None:
    if is_changed(transform(model)):
        raise LawBroken(f"(b) {case}: a second application reports a change")
    if model.to_proto().SerializeToString(deterministic=True) != after.SerializeToString(deterministic=True):
        raise LawBroken(f"(b) {case}: a second application changes the bytes, and does not say so")


def _check_contract(case: Case, after: ModelProto, reference: Sequence[npt.NDArray[Any]]) -> None:
    initialized = {t.name for t in case.model.graph.initializer}
    inputs = [_signature(v) for v in case.model.graph.input if v.name not in initialized]
    now = [_signature(v) for v in after.graph.input]
    if inputs != now:
        raise LawBroken(f"(c) {case}: inputs {inputs} became {now}")
    outputs = [_signature(v) for v in case.model.graph.output]
    now = [_signature(v) for v in after.graph.output]
    known = [(name, elem, tuple(r.shape)) for (name, elem, _), r in zip(outputs, reference, strict=True)]
    if len(now) != len(outputs) or not all(map(_is_kept, outputs, now, known)):
        raise LawBroken(f"(c) {case}: outputs {outputs} became {now}")


Signature = tuple[str, int, tuple[int | str, ...]]


def _is_kept(before: Signature, now: Signature, known: Signature) -> bool:
    """A symbolic dimension of an output may become the number it always was."""
    same = all(
        n in (b, k) if isinstance(b, str) else n == b for b, n, k in zip(before[2], now[2], known[2], strict=False)
    )
    return before[:2] == now[:2] and len(before[2]) == len(now[2]) and same


def _signature(value: ValueInfoProto) -> Signature:
    tensor = value.type.tensor_type
    shape = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim)
    return value.name, tensor.elem_type, shape


def _check_valid(case: Case, after: ModelProto) -> None:
    try:
        onnx.checker.check_model(after, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise LawBroken(f"(d) {case}: {error}") from error

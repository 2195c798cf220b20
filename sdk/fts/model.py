"""A loaded bundle: frames in, pictures and tensors out."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from fts.engines.engine import Engine
from fts.errors import EngineError, FrameError
from fts.result import Result
from fts.vocabulary.evidence import Evidence
from fts.vocabulary.manifest import InputEntry, Manifest, OutputEntry
from fts.vocabulary.preprocessing import ColorOrder, Layout, Preprocessing

if TYPE_CHECKING:
    from fts.imaging.fit import FitTransform

Tensor = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _InputCheck:
    """An input's declaration, ready to be compared with an array.

    Attributes:
        shape: None where every dimension is not known.
        default: Read-only array of a tensor input that may be left out.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None
    default: Tensor | None


class Model:
    """A net on the engine that was chosen for this machine; made by `fts.load`.

    Several threads may call it at once. Results share no memory with inputs, with each other or with later results.
    A model belongs to the process that loaded it: it cannot be pickled, and a forked child has to load its own.

    Attributes:
        path: The bundle's file.
        manifest: The bundle's manifest.
        engine: What runs, for people: "onnxruntime-cpu int8 on cpu (x86_64)".
        evidence: What results are worth as evidence about the target.
    """

    def __init__(self, *, path: Path, manifest: Manifest, engine: Engine, engine_text: str, evidence: Evidence) -> None:
        self.path = path
        self.manifest = manifest
        self.engine = engine_text
        self.evidence = evidence
        self._engine: Engine | None = engine
        self._pid = os.getpid()
        self._checks = tuple(_input_check(i) for i in manifest.inputs)
        self._names = frozenset(i.name for i in manifest.inputs)

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[InputEntry, ...]:
        """The net's inputs, in its order."""
        return self.manifest.inputs

    @property
    def outputs(self) -> tuple[OutputEntry, ...]:
        """The net's outputs, in its order."""
        return self.manifest.outputs

    @property
    def target(self) -> str:
        """Target that the bundle was converted for."""
        return self.manifest.target

    def __repr__(self) -> str:
        state = self.engine if self._engine is not None else "closed"
        return f"<fts.Model {self.path.name}: {state}>"

    # --- running ------------------------------------------------------------------------------------------------------

    def infer(self, feeds: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run the net on raw tensors, without preprocessing.

        Args:
            feeds: One array for every input, by name; tensor inputs with a default may be left out.

        Returns:
            Every output by name.

        Raises:
            FrameError: An array is missing, unknown, or of the wrong type or shape.
            EngineError: The model is closed, belongs to another process, or the engine failed.
        """
        engine = self._open_engine()
        checked: dict[str, Tensor] = {}
        given = 0
        for check in self._checks:
            array = feeds.get(check.name)
            if array is None:
                array = check.default
                if array is None:
                    self._refuse_missing(check)
            else:
                given += 1
                if type(array) is not np.ndarray or array.dtype != check.dtype or array.shape != check.shape:
                    array = self._checked(check, array)
                elif not array.flags.c_contiguous:
                    array = np.ascontiguousarray(array)
            checked[check.name] = array
        if given != len(feeds):
            self._refuse_unknown(feeds)
        outputs = engine.run(checked)
        for array in checked.values():
            # onnxruntime 1.19 hands an input that is also an output back as it is.
            outputs = [o.copy() if np.may_share_memory(o, array) else o for o in outputs]
        return dict(zip(engine.output_names, outputs, strict=True))

    def __call__(self, frame: npt.NDArray[np.uint8], inputs: Mapping[str, Any] | None = None) -> Result:
        """Run the net on one frame.

        Args:
            frame: BGR uint8 (H, W, 3), any size and any memory layout: fitted as the bundle's preprocessing says.
            inputs: The other inputs by name: arrays, or plain numbers and lists; further image inputs as frames.

        Returns:
            The outputs; image outputs have the frame's size times the net's scale.

        Raises:
            FrameError: The frame or an input has the wrong type, rank, channel count or shape.
            EngineError: The model is closed, belongs to another process, or the engine failed.
        """
        from fts.imaging.preprocess import tensor_from_frame

        begin = time.perf_counter()
        self._open_engine()
        others = dict(inputs or {})
        feeds: dict[str, Tensor] = {}
        view: tuple[Preprocessing, FitTransform] | None = None
        for entry in self.inputs:
            pre = entry.preprocessing
            if pre is not None and (view is None or entry.name in others):
                picture = frame if view is None else others.pop(entry.name)
                tensor, transform = tensor_from_frame(picture, entry.spec, pre)
                feeds[entry.name] = tensor
                view = view or (pre, transform)
            elif pre is None and entry.name in others:
                feeds[entry.name] = tensor_from_value(others.pop(entry.name), entry)
        if view is None:
            raise FrameError(f"{self.path.name} takes no frame: none of its inputs is an image. Use model.infer.")
        if others:
            self._refuse_unknown({**feeds, **others})
        tensors = self.infer(feeds)
        return Result(
            tensors=tensors,
            images=self._images(tensors, *view),
            rung=self.manifest.rungs[0].id if self.manifest.rungs else "",
            degraded=False,
            age_ms=(time.perf_counter() - begin) * 1e3,
        )

    def _images(
        self, tensors: Mapping[str, Tensor], pre: Preprocessing, transform: FitTransform
    ) -> dict[str, npt.NDArray[np.uint8]]:
        from fts.imaging.postprocess import frame_from_tensor

        images = {}
        for entry in self.outputs:
            if entry.kind == "image" and entry.range is not None:
                tensor = tensors[entry.name]
                layout, color = _picture_form(tensor.shape, pre)
                images[entry.name] = frame_from_tensor(tensor, layout, color, entry.range, transform)
        return images

    # --- life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Free the engine; calls under way end normally, later ones are refused."""
        self._engine = None

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"an fts.Model cannot be pickled: its engine belongs to one process. Pass the path {str(self.path)!r} and "
            "call fts.load in each process."
        )

    def _open_engine(self) -> Engine:
        engine = self._engine
        if engine is None:
            raise EngineError(f"{self.path.name}: the model is closed. Load it again with fts.load.")
        if os.getpid() != self._pid:
            raise EngineError(
                f"{self.path.name}: loaded in process {self._pid}, used in its forked child {os.getpid()}, where the "
                'engine\'s threads do not exist. Call fts.load in the child, or start it with the method "spawn".'
            )
        return engine

    # --- refusals -----------------------------------------------------------------------------------------------------

    def _checked(self, check: _InputCheck, array: object) -> Tensor:
        """The slow path: an array that is not plainly what the declaration says."""
        where = f"{self.path.name}: input {check.name!r}"
        if not isinstance(array, np.ndarray):
            raise FrameError(f"{where}: found {type(array).__name__}, expected a numpy array of {check.dtype}.")
        if array.dtype != check.dtype:
            raise FrameError(
                f"{where}: found dtype {array.dtype}, expected {check.dtype}. Convert it: array.astype({check.dtype})."
            )
        expected = next(i.shape for i in self.inputs if i.name == check.name)
        if len(array.shape) != len(expected):
            raise FrameError(f"{where}: found {array.ndim} axes {array.shape}, expected {len(expected)}: {expected}.")
        if any(isinstance(e, int) and e != n for e, n in zip(expected, array.shape, strict=True)):
            raise FrameError(f"{where}: found shape {array.shape}, expected {expected}.")
        return np.asarray(array, order="C")

    def _refuse_missing(self, check: _InputCheck) -> NoReturn:
        shape = next(i.shape for i in self.inputs if i.name == check.name)
        raise FrameError(
            f"{self.path.name}: input {check.name!r} is missing; expected a numpy array of {check.dtype} {shape}. "
            "It has no default, so every call gives it."
        )

    def _refuse_unknown(self, feeds: Mapping[str, Any]) -> NoReturn:
        unknown = ", ".join(repr(n) for n in feeds if n not in self._names) or "None as a value"
        raise FrameError(
            f"{self.path.name}: found the unknown input {unknown}, expected {', '.join(sorted(self._names))}."
        )


def tensor_from_value(value: object, entry: InputEntry) -> Tensor:
    """Bring what an app gives for a tensor input into the declared form.

    An array is taken as it is, and must be right. A plain number or list gets the declared type, and the declared
    shape where its number of elements fits.

    Raises:
        FrameError: The value does not fit the declaration.
    """
    if isinstance(value, np.ndarray):
        return value
    dtype, where = np.dtype(entry.dtype), f"input {entry.name!r}"
    try:
        array = np.asarray(value)
    except ValueError as cause:
        raise FrameError(f"{where}: found a list of uneven rows, expected {entry.dtype} {entry.shape}.") from cause
    if not np.can_cast(array.dtype, dtype, "same_kind") and not _fits(array, dtype):
        raise FrameError(f"{where}: found {value!r:.60}, expected {entry.dtype} {entry.shape}.")
    shape = tuple(d for d in entry.shape if isinstance(d, int))
    if len(shape) == len(entry.shape) and array.ndim < len(shape) and array.size == math.prod(shape):
        array = array.reshape(shape)
    return array.astype(dtype)


def _fits(array: Tensor, dtype: np.dtype[Any]) -> bool:
    """Whether whole numbers lie within an integer type that Python's own int type would not cast to."""
    if array.dtype.kind not in "iu" or dtype.kind not in "iu" or array.size == 0:
        return False
    limits = np.iinfo(dtype)
    return bool(limits.min <= int(array.min()) and int(array.max()) <= limits.max)


def _input_check(entry: InputEntry) -> _InputCheck:
    default = None
    if entry.default is not None:
        default = np.asarray(entry.default, dtype=entry.dtype)
        default = default.reshape(entry.spec.static_shape) if entry.spec.is_static else default
        default.flags.writeable = False
    return _InputCheck(
        name=entry.name,
        dtype=np.dtype(entry.dtype),
        shape=entry.spec.static_shape if entry.spec.is_static else None,
        default=default,
    )


def _picture_form(shape: tuple[int, ...], pre: Preprocessing) -> tuple[Layout, ColorOrder]:
    """Axis order and colours of an image output (1, C, H, W) or (1, H, W, C).

    The layout is the input's where the shape allows it; one channel is grey, three are in the input's order, and RGB
    where the input is grey.
    """
    layout: Layout = pre.layout
    if shape[1 if layout == "nchw" else 3] not in (1, 3):
        layout = "nhwc" if layout == "nchw" else "nchw"
    if shape[1 if layout == "nchw" else 3] == 1:
        return layout, "gray"
    return layout, "rgb" if pre.color == "gray" else pre.color

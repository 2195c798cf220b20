"""What the net's inputs and outputs mean: declared by card and flags, or assumed and said so.

Decides only; the graph is changed by `freeze`, data is read by the calibration set.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from fts.errors import CardError, ShapeError
from fts.vocabulary.manifest import InputEntry, OutputEntry
from fts.vocabulary.preprocessing import ColorOrder, Layout, Preprocessing
from fts.vocabulary.tensor_spec import TensorKind, TensorSpec
from fts_calibration.dataset.input_request import InputRequest
from fts_calibration.statistics.statistics import TensorRange
from fts_converters.card import Card, InputCard
from fts_converters.request import PreprocessingFlags
from fts_converters.warnings_log import WarningLog

# An undeclared output is taken for a picture when its values fill one of these (DESIGN: Card).
PICTURE_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))
WIDENED_BY, LEAST_SPAN = 0.10, 0.5
# 2 GiB of float32: a bundle cannot hold a larger tensor.
MOST_ELEMENTS = 2**29


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputContract:
    """One live input.

    Attributes:
        spec: Static shape.
        kind: "image" or "tensor".
        preprocessing: For images.
        default: Run-time value of a tensor input in full shape, or None.
        values: Calibration values of a tensor input, (n, *shape), or None.
    """

    spec: TensorSpec
    kind: TensorKind
    preprocessing: Preprocessing | None = None
    default: npt.NDArray[np.generic] | None = None
    values: npt.NDArray[np.generic] | None = None

    def to_entry(self) -> InputEntry:
        """The manifest's form."""
        default = None if self.default is None else self.default.tolist()
        return InputEntry(spec=self.spec, kind=self.kind, preprocessing=self.preprocessing, default=default)

    def to_request(self) -> InputRequest:
        """What the calibration data has to feed."""
        return InputRequest(spec=self.spec, kind=self.kind, preprocessing=self.preprocessing, values=self.values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputDecisions:
    """All inputs of a net: which stay, which are folded into the graph."""

    live: tuple[InputContract, ...]
    frozen: Mapping[str, npt.NDArray[np.generic]]
    shapes: Mapping[str, tuple[int, ...]]


def decide_inputs(
    specs: Sequence[TensorSpec],
    card: Card,
    flags: PreprocessingFlags,
    forced: Mapping[str, tuple[int, ...]],
    warnings: WarningLog,
) -> InputDecisions:
    """Shapes, kinds and preprocessing of all inputs.

    Raises:
        ShapeError: An unknown height, width or other dimension, a forced shape of another rank, a batch of pictures.
        CardError: The card names an unknown input, or contradicts the net.
    """
    names = [s.name for s in specs]
    for name in (*card.inputs, *forced):
        if name not in names:
            where = "card" if name in card.inputs else "--shape"
            raise CardError(
                f"{where}: the net has no input {name!r}{_near(name, names)}; its inputs: {', '.join(names)}"
            )
    shapes = _static_shapes(specs, forced)
    live, frozen = [], {}
    for spec in specs:
        static = TensorSpec(name=spec.name, dtype=spec.dtype, shape=shapes[spec.name])
        entry = card.inputs.get(spec.name, InputCard())
        if entry.freeze and entry.value is not None:
            frozen[spec.name] = _in_shape(entry.value, static)
            continue
        kind: TensorKind = "image" if (entry.kind or _guess_kind(static)) == "image" else "tensor"
        if kind == "image":
            live.append(
                InputContract(spec=static, kind=kind, preprocessing=_preprocessing(static, entry, flags, warnings))
            )
        else:
            live.append(_tensor_input(static, entry))
    return InputDecisions(live=tuple(live), frozen=frozen, shapes=shapes)


def _static_shapes(specs: Sequence[TensorSpec], forced: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    unknown = []
    for spec in specs:
        if spec.name in forced:
            if len(forced[spec.name]) != len(spec.shape):
                raise ShapeError(
                    f"--shape {spec.name}={_times(forced[spec.name])}: {len(forced[spec.name])} axes, but the net declares "
                    f"{len(spec.shape)}: {_times(spec.shape)}"
                )
            shapes[spec.name] = forced[spec.name]
            continue
        dims = [1 if i == 0 and not isinstance(d, int) else d for i, d in enumerate(spec.shape)]
        missing = [str(d) for d in dims if not isinstance(d, int)]
        if missing:
            example = _times([d if isinstance(d, int) else 256 for d in dims])
            unknown.append(
                f"input {spec.name!r}: unknown {', '.join(missing)} in {_times(spec.shape)} "
                f"(for example --shape {spec.name}={example})"
            )
        if any(isinstance(d, int) and d < 1 for d in dims):
            raise ShapeError(
                f"input {spec.name!r}: declared shape {_times(spec.shape)} has a size below 1; use --shape"
            )
        shapes[spec.name] = tuple(d for d in dims if isinstance(d, int))
    for name, shape in shapes.items():
        if prod(shape) > MOST_ELEMENTS:
            raise ShapeError(
                f"input {name!r}: {_times(shape)} are {prod(shape)} numbers, expected at most {MOST_ELEMENTS}. Use "
                "--shape with sizes that fit into memory"
            )
    if unknown:
        raise ShapeError("shapes must be known before calibration; " + "; ".join(unknown))
    return shapes


def _guess_kind(spec: TensorSpec) -> str:
    shape = spec.static_shape
    is_picture = len(shape) == 4 and (shape[1] in (1, 3) or shape[3] in (1, 3)) and min(shape[1:]) >= 1
    return "image" if is_picture and spec.dtype in ("float32", "float16", "float64", "uint8") else "tensor"


def _tensor_input(spec: TensorSpec, entry: InputCard) -> InputContract:
    default = None if entry.value is None else _in_shape(entry.value, spec)
    values = None
    if entry.values is not None:
        values = np.stack([_in_shape(row, spec) for row in entry.values])
    elif default is not None:
        values = default[None]
    return InputContract(spec=spec, kind="tensor", default=default, values=values)


def _in_shape(value: npt.NDArray[np.generic], spec: TensorSpec) -> npt.NDArray[np.generic]:
    """A card's value in the input's full shape: a scalar is repeated, a missing batch axis of 1 is added."""
    shape = spec.static_shape
    candidates = [shape, shape[1:]] if shape[:1] == (1,) else [shape]
    if value.ndim and value.shape not in candidates:
        raise CardError(
            f"card, [inputs.{spec.name}]: value has shape {_times(value.shape)}, expected {_times(shape)} or one number"
        )
    dtype = np.dtype(spec.dtype)
    if dtype.kind in "iu" and value.dtype.kind == "f" and not np.array_equal(value, np.rint(value)):
        raise CardError(f"card, [inputs.{spec.name}]: value holds fractions, but the input is {spec.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = value.astype(dtype)
    if not np.isfinite(cast).all() or (dtype.kind in "iu" and not np.array_equal(cast, value)):
        raise CardError(f"card, [inputs.{spec.name}]: value holds numbers that {spec.dtype} cannot hold")
    filled = np.full(shape, cast, dtype) if value.ndim == 0 else cast.reshape(shape)
    filled.setflags(write=False)
    return filled


def _preprocessing(
    spec: TensorSpec, entry: InputCard, flags: PreprocessingFlags, warnings: WarningLog
) -> Preprocessing:
    shape = spec.static_shape
    if len(shape) != 4:
        raise CardError(
            f"card, [inputs.{spec.name}]: declared an image, but its shape is {_times(shape)}, expected 4 axes"
        )
    if shape[0] != 1:
        channels_first = _times((1, *shape[1:]))
        raise ShapeError(
            f"input {spec.name!r}: batch {shape[0]} in {_times(shape)}; pictures are fed one at a time in this version. "
            f"Use --shape {spec.name}={channels_first}"
        )
    given: dict[str, Any] = {
        **entry.image,
        **{k: v for k in PreprocessingFlags.__dataclass_fields__ if (v := getattr(flags, k)) is not None},
    }
    layout: Layout = given.get("layout") or ("nchw" if shape[1] in (1, 3) else "nhwc")
    channels = shape[1] if layout == "nchw" else shape[3]
    if channels not in (1, 3):
        raise CardError(
            f"input {spec.name!r}: {channels} channels by layout {layout} in {_times(shape)}, expected 1 or 3"
        )
    color: ColorOrder = given.get("color") or ("gray" if channels == 1 else "rgb")
    if (color == "gray") != (channels == 1):
        raise CardError(f"input {spec.name!r}: color {color!r}, but the net takes {channels} channel(s)")
    is_integer = np.dtype(spec.dtype).kind in "iu"
    pre = Preprocessing(
        color=color,
        scale=_number(given.get("scale", 1.0 if is_integer else 1.0 / 255.0), "scale", spec),
        mean=_per_channel(given.get("mean", 0.0), channels, "mean", spec),
        std=_per_channel(given.get("std", 1.0), channels, "std", spec),
        layout=layout,
        fit=given.get("fit", "letterbox"),
        pad_value=_pad_value(given.get("pad_value", 114), spec),
    )
    if pre.scale == 0.0:
        raise CardError(f"input {spec.name!r}: scale 0 makes all pictures the same, expected for example 1/255")
    if any(s == 0.0 for s in pre.std):
        raise CardError(f"input {spec.name!r}: std {pre.std} holds 0, and pictures are divided by it")
    assumed = [f"{k} {getattr(pre, k)}" for k in ("color", "scale", "mean", "std", "layout", "fit") if k not in given]
    if assumed:
        warnings.add(
            "default-preprocessing",
            f"input {spec.name!r}: {', '.join(assumed)} assumed; declare what the net was trained with by flags or --card",
        )
    return pre


def _pad_value(value: Any, spec: TensorSpec) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 255:
        raise CardError(f"input {spec.name!r}: pad_value = {value!r}, expected a whole number from 0 to 255")
    return value


def _number(value: Any, key: str, spec: TensorSpec) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise CardError(f"input {spec.name!r}: {key} = {value!r}, expected a finite number")
    return float(value)


def _per_channel(value: Any, channels: int, key: str, spec: TensorSpec) -> tuple[float, ...]:
    values = list(value) if isinstance(value, list | tuple) else [value]
    if len(values) not in (1, channels):
        raise CardError(f"input {spec.name!r}: {key} has {len(values)} values, expected 1 or {channels}")
    numbers = tuple(_number(v, key, spec) for v in values)
    return numbers * channels if len(numbers) == 1 else numbers


def decide_outputs(
    specs: Sequence[TensorSpec],
    card: Card,
    inputs: Sequence[InputContract],
    ranges: Mapping[str, TensorRange],
    warnings: WarningLog,
) -> tuple[OutputEntry, ...]:
    """Which outputs are pictures, and over which range.

    Raises:
        CardError: The card names an unknown output, or an image whose range cannot be told.
        ShapeError: An output without elements.
    """
    names = [s.name for s in specs]
    for name in card.outputs:
        if name not in names:
            raise CardError(
                f"card: the net has no output {name!r}{_near(name, names)}; its outputs: {', '.join(names)}"
            )
    picture = next((i for i in inputs if i.kind == "image"), None)
    entries = []
    for spec in specs:
        if 0 in spec.shape:
            raise ShapeError(
                f"output {spec.name!r}: its shape {_times(spec.shape)} holds nothing, expected sizes of 1 or more. Cut "
                "the output off when exporting"
            )
        entry = card.outputs.get(spec.name)
        if entry is not None and entry.kind == "tensor":
            entries.append(OutputEntry(spec=spec, kind="tensor"))
            continue
        bounds = entry.range if entry is not None and entry.range else _picture_range(spec, ranges.get(spec.name))
        why = _why_no_picture(spec, picture)
        if entry is not None and (entry.kind == "image" or entry.range):
            if why:
                raise CardError(f"card, [outputs.{spec.name}]: declared an image, but {why}")
            if bounds is None:
                raise CardError(
                    f"card, [outputs.{spec.name}]: an image needs range = [low, high]; its values "
                    f"{_seen(ranges.get(spec.name))} in calibration fit none of [0, 1], [-1, 1], [0, 255]"
                )
        elif not why and bounds is None:
            why = f"its values {_seen(ranges.get(spec.name))} in calibration fill none of [0, 1], [-1, 1], [0, 255]"
        if why:
            warnings.add(
                "output-is-tensor",
                f"output {spec.name!r} is taken as a tensor: {why}; "
                f'a card with [outputs.{spec.name}] kind = "image" or "tensor" settles it',
            )
            entries.append(OutputEntry(spec=spec, kind="tensor"))
        else:
            entries.append(OutputEntry(spec=spec, kind="image", range=bounds))
    return tuple(entries)


def _why_no_picture(spec: TensorSpec, picture: InputContract | None) -> str:
    if picture is None or picture.preprocessing is None:
        return "the net has no image input"
    if not spec.is_static or len(spec.shape) != 4:
        return f"its shape is {_times(spec.shape)}, not a picture's"
    shape, layout = spec.static_shape, picture.preprocessing.layout
    own = layout if shape[1 if layout == "nchw" else 3] in (1, 3) else ("nhwc" if layout == "nchw" else "nchw")
    if shape[0] != 1 or shape[1 if own == "nchw" else 3] not in (1, 3):
        return f"its shape {_times(shape)} has neither 1 nor 3 channels"
    side = (2, 3) if layout == "nchw" else (1, 2)
    own_side = (2, 3) if own == "nchw" else (1, 2)
    for a, b in zip(own_side, side, strict=True):
        if shape[a] % picture.spec.static_shape[b]:
            return f"its size is not an integer multiple of input {picture.spec.name!r}"
    return ""


def _picture_range(spec: TensorSpec, seen: TensorRange | None) -> tuple[float, float] | None:
    if spec.dtype == "uint8":
        return (0.0, 255.0)
    if seen is None:
        return None
    for low, high in PICTURE_RANGES:
        slack = WIDENED_BY * (high - low)
        inside = seen.low >= low - slack and seen.high <= high + slack
        if inside and seen.high - seen.low >= LEAST_SPAN * (high - low):
            return (low, high)
    return None


def _seen(seen: TensorRange | None) -> str:
    return "of unknown range" if seen is None else f"{seen.low:.4g} to {seen.high:.4g}"


def _times(shape: Sequence[object]) -> str:
    return "x".join(str(d) for d in shape)


def _near(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""

"""The model card: a TOML file that says what the net's inputs and outputs mean.

[inputs.image]
kind = "image"            # color, scale, mean, std, layout, fit, pad_value may follow
[inputs.style_weights]
kind = "tensor"
value = [1.0, 0.0]        # run-time default;  values = "file.npy" (n rows);  freeze = true
[outputs.stylized]
kind = "image"
range = [0.0, 1.0]
budget = "psnr>=35"       # condition of this output; "none": it is not judged
[outputs.age]
metric = "age"            # task metric; without a budget its usual threshold is held
ages = [18, 19, 20]       # years of the classes (0, 1, 2 …)
[outputs.points]
budget = "nme<=0.02"
landmarks = "planar"      # "xy" (usual), "xyz" with a third number, "planar": all x, then all y
eyes = [0, [3, 4]]        # points of the left and of the right eye
[outputs.mask]
metric = "iou"
budget = "drop<=0.5%"
axis = 1                  # of the classes;  threshold = 0.5 for a mask of one channel
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fts.errors import CardError, UsageError
from fts.vocabulary.preprocessing import COLOR_ORDERS, FITS, LAYOUTS
from fts_calibration.metrics.budget import Budget, parse_budget
from fts_calibration.metrics.known_metrics import METRICS
from fts_calibration.metrics.output_meaning import POINT_ORDERS, UNDECLARED, OutputMeaning

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

IMAGE_KEYS = ("color", "scale", "mean", "std", "layout", "fit", "pad_value")
INPUT_KEYS = ("kind", "value", "values", "freeze", *IMAGE_KEYS)
MEANING_KEYS = ("metric", "axis", "threshold", "ages", "landmarks", "eyes")
OUTPUT_KEYS = ("kind", "range", "budget", *MEANING_KEYS)
CHOICES: Mapping[str, tuple[str, ...]] = {
    "kind": ("image", "tensor"),
    "color": COLOR_ORDERS,
    "layout": LAYOUTS,
    "fit": FITS,
    "landmarks": POINT_ORDERS,
    "metric": tuple(m for m in METRICS if m != "drop"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputCard:
    """One `[inputs.NAME]` table; None where a key is absent."""

    kind: str | None = None
    value: npt.NDArray[np.generic] | None = None
    values: npt.NDArray[np.generic] | None = None
    freeze: bool = False
    image: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCard:
    """One `[outputs.NAME]` table.

    Attributes:
        kind: "image" or "tensor", None when absent.
        range: Of an image.
        budget_text: Its condition as written, "" when absent.
        budget: Parsed; None for "none".
        meaning: What a metric has to know.
    """

    kind: str | None = None
    range: tuple[float, float] | None = None
    budget_text: str = ""
    budget: Budget | None = None
    meaning: OutputMeaning = UNDECLARED


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The whole file; empty when there is none."""

    inputs: Mapping[str, InputCard] = field(default_factory=dict)
    outputs: Mapping[str, OutputCard] = field(default_factory=dict)


def read_card(path: Path) -> Card:
    """Read and check a card.

    Raises:
        CardError: Missing file, TOML error, unknown key, or a value of the wrong type; says where.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CardError(f"card {str(path)!r}: there is no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CardError(f"card {str(path)!r}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise CardError(f"card {str(path)!r}: not valid TOML: {error}") from error
    where = f"card {str(path)!r}"
    _only_keys(data, ("inputs", "outputs"), where)
    inputs = {n: _input_card(t, f"{where}, [inputs.{n}]", path.parent) for n, t in _tables(data, "inputs", where)}
    outputs = {n: _output_card(t, f"{where}, [outputs.{n}]") for n, t in _tables(data, "outputs", where)}
    return Card(inputs=inputs, outputs=outputs)


def _tables(data: Mapping[str, Any], key: str, where: str) -> list[tuple[str, Mapping[str, Any]]]:
    tables = data.get(key, {})
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise CardError(f"{where}: {key!r} must hold one table a tensor, as [{key}.NAME]")
    return list(tables.items())


def _only_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise CardError(f"{where}: unknown key {key!r}{hint} Known keys: {', '.join(known)}")


def _choice(table: Mapping[str, Any], key: str, where: str) -> Any:
    value = table.get(key)
    if value is not None and value not in CHOICES[key]:
        raise CardError(f"{where}: {key} = {value!r}, expected one of {', '.join(CHOICES[key])}")
    return value


def _input_card(table: Mapping[str, Any], where: str, folder: Path) -> InputCard:
    _only_keys(table, INPUT_KEYS, where)
    kind = _choice(table, "kind", where)
    image = {k: table[k] for k in IMAGE_KEYS if k in table}
    for key in ("color", "layout", "fit"):
        _choice(table, key, where)
    tensor_keys = [k for k in ("value", "values") if k in table]
    freeze = table.get("freeze", False)
    if not isinstance(freeze, bool):
        raise CardError(f"{where}: freeze = {freeze!r}, expected true or false")
    if kind == "image" and (tensor_keys or freeze):
        raise CardError(f'{where}: {", ".join(tensor_keys) or "freeze"} belongs to kind = "tensor", not to an image')
    if kind == "tensor" and image:
        raise CardError(f'{where}: {", ".join(image)} belongs to kind = "image", not to a tensor')
    if freeze and "value" not in table:
        raise CardError(f"{where}: freeze = true needs value = ..., the number or list to fold into the graph")
    value = _array(table["value"], where) if "value" in table else None
    values = _rows(table["values"], where, folder) if "values" in table else None
    return InputCard(
        kind=kind or ("tensor" if tensor_keys else None), value=value, values=values, freeze=freeze, image=image
    )


def _array(value: Any, where: str) -> npt.NDArray[np.generic]:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise CardError(f"{where}: value is a ragged list; expected numbers of one shape") from error
    if array.dtype.kind not in "bif" or not np.isfinite(array).all():
        raise CardError(f"{where}: value = {value!r}, expected a finite number or nested lists of such numbers")
    return array


def _is_finite_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _rows(name: Any, where: str, folder: Path) -> npt.NDArray[np.generic]:
    if not isinstance(name, str):
        raise CardError(f"{where}: values = {name!r}, expected the name of an .npy file with one row a value")
    try:
        rows = np.load(folder / name, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CardError(f"{where}: values = {name!r}: cannot be read as .npy: {error}") from error
    if not isinstance(rows, np.ndarray) or rows.ndim < 1 or len(rows) == 0 or rows.dtype.kind not in "bif":
        raise CardError(f"{where}: values = {name!r}: expected an array of numbers with at least one row")
    if not np.isfinite(rows).all():
        raise CardError(f"{where}: values = {name!r}: holds NaN or infinity, expected finite numbers")
    return rows


def _output_card(table: Mapping[str, Any], where: str) -> OutputCard:
    _only_keys(table, OUTPUT_KEYS, where)
    kind = _choice(table, "kind", where)
    text, budget = _budget(table.get("budget"), where)
    return OutputCard(
        kind=kind, range=_range(table, kind, where), budget_text=text, budget=budget, meaning=_meaning(table, where)
    )


def _range(table: Mapping[str, Any], kind: str | None, where: str) -> tuple[float, float] | None:
    bounds = table.get("range")
    if bounds is None:
        return None
    numbers = isinstance(bounds, list) and len(bounds) == 2 and all(_is_finite_number(b) for b in bounds)
    if not numbers or not bounds[0] < bounds[1]:
        raise CardError(f"{where}: range = {bounds!r}, expected [low, high], two finite numbers with low < high")
    if kind == "tensor":
        raise CardError(f'{where}: range belongs to kind = "image"')
    return float(bounds[0]), float(bounds[1])


def _budget(text: Any, where: str) -> tuple[str, Budget | None]:
    if text is None:
        return "", None
    if not isinstance(text, str) or not text.strip():
        raise CardError(f'{where}: budget = {text!r}, expected a text such as "psnr>=40", "nme<=0.02" or "none"')
    try:
        return text.strip(), parse_budget(text)
    except UsageError as error:
        raise CardError(f"{where}: {str(error).removeprefix('--')}") from error


def _meaning(table: Mapping[str, Any], where: str) -> OutputMeaning:
    axis, threshold = table.get("axis"), table.get("threshold", UNDECLARED.threshold)
    if axis is not None and (isinstance(axis, bool) or not isinstance(axis, int)):
        raise CardError(f"{where}: axis = {axis!r}, expected a whole number")
    if not _is_finite_number(threshold):
        raise CardError(f"{where}: threshold = {threshold!r}, expected a finite number")
    ages = table.get("ages", [])
    if not isinstance(ages, list) or not all(_is_finite_number(a) for a in ages):
        raise CardError(f"{where}: ages = {ages!r}, expected a list of years, one a class")
    return OutputMeaning(
        metric=_choice(table, "metric", where) or "",
        axis=axis,
        threshold=float(threshold),
        ages=tuple(float(a) for a in ages),
        landmarks=_choice(table, "landmarks", where) or UNDECLARED.landmarks,
        eyes=_eyes(table.get("eyes"), where),
    )


def _eyes(value: Any, where: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    if value is None:
        return None
    eyes = [e if isinstance(e, list) else [e] for e in value] if isinstance(value, list) else []
    is_right = len(eyes) == 2 and all(
        eye and all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in eye) for eye in eyes
    )
    if not is_right:
        raise CardError(
            f"{where}: eyes = {value!r}, expected the points of the left and of the right eye, counted from 0, as [0, 1] or "
            "[[36, 37], [42, 43]]"
        )
    return tuple(eyes[0]), tuple(eyes[1])

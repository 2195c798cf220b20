"""`package.module:iterable`: samples from the user's own code, each a mapping from input name to array."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fts.errors import CalibrationError
from fts_calibration.dataset.calibration_set import Sample
from fts_calibration.dataset.input_request import Array, InputRequest
from fts_calibration.dataset.spool import samples_from_stream
from fts_calibration.dataset.watcher import Watcher

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def is_reference(path: str) -> bool:
    """True for texts of the form package.module:name."""
    return _REFERENCE.fullmatch(path) is not None


def samples_from_reference(
    path: str, inputs: Sequence[InputRequest], rows: Mapping[str, Array], source: str, watcher: Watcher
) -> list[Sample]:
    """Import, call if callable, and read once.

    Args:
        path: package.module:name; the working directory is searched as well, as with `python -m`.
        inputs: What the net asks for.
        rows: Values by name, for inputs that a sample leaves out.
        source: Option and path as the user gave them, for messages.
        watcher: Told of every sample.

    Returns:
        Samples in the order in which they came.

    Raises:
        CalibrationError: It cannot be imported or read, or a sample does not fit the net.
    """
    return samples_from_stream(_samples(path, source), inputs, rows, path, watcher)


def _samples(path: str, source: str) -> Iterator[Mapping[str, Array]]:
    iterator = _users(source, lambda: iter(_iterable(path)))
    index = 0
    end = object()
    while (item := _users(source, lambda: next(iterator, end))) is not end:
        if not isinstance(item, Mapping):
            raise CalibrationError(
                f"{path}[{index}]: found a {type(item).__name__}, expected a mapping from input name to array. "
                'Yield {"name": array}.'
            )
        yield {str(name): np.asarray(array) for name, array in item.items()}
        index += 1


def _iterable(path: str) -> Iterable[Any]:
    module_name, _, attributes = path.partition(":")
    working_directory = os.getcwd()
    sys.path.insert(0, working_directory)
    try:
        target: Any = importlib.import_module(module_name)
    finally:
        sys.path.remove(working_directory)
    for attribute in attributes.split("."):
        target = getattr(target, attribute)
    found = target() if callable(target) else target
    if not isinstance(found, Iterable):
        raise TypeError(f"it is a {type(found).__name__}, not an iterable")
    return found


def _users(source: str, call: Any) -> Any:
    """Run the user's code; whatever it raises is about the input, not about us."""
    try:
        return call()
    except Exception as cause:
        raise CalibrationError(
            f"{source}: {type(cause).__name__}: {cause}. Expected package.module:name of an iterable of mappings "
            "from input name to array, or of a function that returns one."
        ) from cause

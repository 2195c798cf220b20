"""A metric of the user's own: `--metric package.module:function`.

    def function(reference: dict[str, np.ndarray], test: dict[str, np.ndarray]) -> float

gets all outputs of one sample, of FP32 and of the net to judge, read-only, and returns one finite number. What it computes
is told from what it computed before by the content of its module's file; modules that it imports are not looked at.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import numbers
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fts.errors import UsageError

Arrays = Mapping[str, npt.NDArray[np.generic]]
Function = Callable[[dict[str, npt.NDArray[np.generic]], dict[str, npt.NDArray[np.generic]]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMetric:
    """Which function, in which state of its file.

    Attributes:
        reference: package.module:function.
        sha256: Of the file of the module named and, where it lies elsewhere, of the one that defines the function.
    """

    reference: str
    sha256: str

    def to_json(self) -> dict[str, str]:
        """A JSON object."""
        return {"function": self.reference, "sha256": self.sha256}

    def value(self, reference: Arrays, test: Arrays) -> float:
        """The metric of one sample.

        Args:
            reference: FP32 outputs by name.
            test: Outputs to judge.

        Raises:
            UsageError: The function raises, or returns something else than a finite number.
        """
        function, _ = _loaded(self.reference)
        try:
            found = function(_read_only(reference), _read_only(test))
        except Exception as cause:
            raise UsageError(f"--metric {self.reference}: {_where(cause)}") from cause
        if isinstance(found, np.ndarray) and found.ndim == 0:
            found = found[()]
        if isinstance(found, bool | np.bool_) or not isinstance(found, numbers.Real):
            raise UsageError(
                f"--metric {self.reference}: it returned a {type(found).__name__} ({found!r:.60}), expected one number"
            )
        if not math.isfinite(found):
            raise UsageError(
                f"--metric {self.reference}: it returned {float(found)}, expected a finite number; return the worst value "
                "for outputs that cannot be compared"
            )
        return float(found)


def load_user_metric(reference: str) -> UserMetric:
    """Import the function; the working directory is searched as well, as with `python -m`.

    Raises:
        UsageError: There is no such module or function, importing it fails, or it has no file.
    """
    _, sha256 = _loaded(reference)
    return UserMetric(reference=reference, sha256=sha256)


def user_metric_from_json(data: Mapping[str, Any]) -> UserMetric:
    """The function that another process speaks of.

    Raises:
        UsageError: As `load_user_metric`, or its file has changed since.
    """
    found = load_user_metric(data["function"])
    if found.sha256 != data["sha256"]:
        raise UsageError(f"--metric {found.reference}: its file has changed while it was in use. Convert again")
    return found


@lru_cache(maxsize=16)
def _loaded(reference: str) -> tuple[Function, str]:
    """Once a process, so that the code and the digest belong together."""
    module_name, colon, name = reference.partition(":")
    if not colon or not name.isidentifier() or not all(p.isidentifier() for p in module_name.split(".")):
        raise UsageError(f"--metric {reference}: expected package.module:function")
    module = _imported(reference, module_name)
    function = getattr(module, name, None)
    if function is None:
        raise UsageError(f"--metric {reference}: module {module_name!r} has nothing of the name {name!r}")
    if not callable(function):
        raise UsageError(
            f"--metric {reference}: {name!r} is a {type(function).__name__}, expected a function of (reference, test)"
        )
    defined_in = sys.modules.get(getattr(function, "__module__", None) or "", module)
    digest = hashlib.sha256()
    for source in dict.fromkeys((module, defined_in)):
        file = getattr(source, "__file__", None)
        if file is None:
            raise UsageError(f"--metric {reference}: {source.__name__!r} has no file, expected a module written in one")
        digest.update(Path(file).read_bytes())
    return function, digest.hexdigest()


def _imported(reference: str, module_name: str) -> Any:
    working_directory = os.getcwd()
    sys.path.insert(0, working_directory)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as cause:
        missing = cause.name or ""
        if missing == module_name or module_name.startswith(f"{missing}."):
            raise UsageError(
                f"--metric {reference}: there is no module {module_name!r} in {working_directory!r} or installed"
            ) from cause
        raise UsageError(f"--metric {reference}: importing it failed: {_where(cause)}") from cause
    except (Exception, SystemExit) as cause:
        raise UsageError(f"--metric {reference}: importing it failed: {_where(cause)}") from cause
    finally:
        sys.path.remove(working_directory)


def _read_only(outputs: Arrays) -> dict[str, npt.NDArray[np.generic]]:
    views = {name: array.view() for name, array in outputs.items()}
    for view in views.values():
        view.setflags(write=False)
    return views


def _where(error: BaseException) -> str:
    """The error, with the line of the user's code that it came from."""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__ and "importlib" not in f.filename
    ]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"

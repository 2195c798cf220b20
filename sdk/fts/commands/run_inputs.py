"""`--input NAME=VALUE`: values of a net's tensor inputs from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fts.errors import UsageError
from fts.model import Model
from fts.vocabulary.manifest import InputEntry


def inputs_from_flags(flags: Sequence[str], model: Model) -> dict[str, Any]:
    """Values by input name, checked against the net before the first frame.

    Args:
        flags: NAME=VALUE, with VALUE a number, numbers joined by commas, or a .npy file.
        model: The net.

    Raises:
        UsageError: A flag is malformed, names no tensor input, or a needed input is missing.
    """
    entries = {e.name: e for e in model.inputs if e.kind == "tensor"}
    values: dict[str, Any] = {}
    for flag in flags:
        # The longest name that fits: tensor names may hold "=".
        name = max((n for n in entries if flag.startswith(f"{n}=")), key=len, default=None)
        if name is None:
            raise UsageError(
                f"--input {flag}: expected NAME=VALUE with NAME one of the tensor inputs: "
                f"{', '.join(entries) or 'this net has none'}."
            )
        if name in values:
            raise UsageError(f"--input {flag}: {name} is given twice.")
        values[name] = _value(flag, flag[len(name) + 1 :], entries[name])
    missing = [e for e in entries.values() if e.default is None and e.name not in values]
    if missing:
        texts = ", ".join(f"--input {e.name}=VALUE ({e.dtype} {list(e.shape)})" for e in missing)
        raise UsageError(f"{model.path.name}: needs {texts}.")
    return values


def _value(flag: str, text: str, entry: InputEntry) -> Any:
    if text.endswith(".npy"):
        try:
            return np.load(text, allow_pickle=False)
        except (OSError, ValueError, EOFError) as cause:
            raise UsageError(f"--input {flag}: {text} cannot be read as .npy: {cause}") from cause
    kind = np.dtype(entry.dtype).kind
    try:
        words = text.split(",")
        numbers = [_number(w.strip(), kind) for w in words]
    except ValueError:
        raise UsageError(
            f"--input {flag}: found {text!r}, expected {entry.dtype} numbers joined by commas, or a .npy file."
        ) from None
    return numbers if len(numbers) > 1 else numbers[0]


def _number(word: str, kind: str) -> float | int | bool:
    if kind == "b":
        if word not in ("0", "1", "true", "false"):
            raise ValueError(word)
        return word in ("1", "true")
    return float(word) if kind == "f" else int(word)

"""One case as typed values, read once from its `expect.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

Kind = Literal["convert-ok", "convert-error", "runtime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What to run and what has to hold.

    Attributes:
        id: "F47".
        kind: What the case is about.
        title: One line.
        folder: Where model.onnx, calib/ and the reference arrays lie.
        arguments: Of fts-convert, relative to the folder.
        preprocess: How a picture becomes the input tensor, as the case states it; None without a picture input.
        checks: What has to hold, as the generator's docstring explains.
        steps: For runtime cases, in words.
    """

    id: str
    kind: Kind
    title: str
    folder: Path
    arguments: tuple[str, ...]
    preprocess: Mapping[str, Any] | None
    checks: Mapping[str, Any]
    steps: tuple[str, ...]


def read_case(folder: Path) -> Case:
    """Read one case folder."""
    fields = json.loads((folder / "expect.json").read_text(encoding="utf-8"))
    if fields["kind"] not in get_args(Kind):
        raise ValueError(f"{folder}: unknown kind {fields['kind']!r}")
    return Case(
        id=fields["id"],
        kind=fields["kind"],
        title=fields["title"],
        folder=folder,
        arguments=tuple(fields["cli"]),
        preprocess=fields["preprocess"],
        checks=fields["checks"],
        steps=tuple(fields.get("steps", ())),
    )


def preprocessing_flags(preprocess: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The flags of fts-convert that carry a case's `preprocess`."""
    if preprocess is None:
        return ()
    return (
        *("--color", preprocess["color"].lower()),
        *("--scale", repr(float(preprocess["scale"]))),
        f"--mean={','.join(repr(float(v)) for v in preprocess['mean'])}",
        f"--std={','.join(repr(float(v)) for v in preprocess['std'])}",
        *("--layout", preprocess["layout"].lower()),
        *("--fit", "exact"),
    )


def with_target(arguments: tuple[str, ...], target: str) -> tuple[str, ...]:
    """The same arguments for a target that exists here."""
    at = arguments.index("--target") + 1
    return (*arguments[:at], target, *arguments[at + 1 :])

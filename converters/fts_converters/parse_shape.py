"""`--shape NAME=1x3x256x256` to a name and sizes."""

from __future__ import annotations

from fts.errors import UsageError


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Split at the last equals sign, because tensor names may hold one.

    Raises:
        UsageError: Not of that form, or a size below 1.
    """
    name, equals, sizes = text.rpartition("=")
    parts = sizes.lower().split("x")
    if not equals or not name or not all(p.isascii() and p.isdigit() and int(p) > 0 for p in parts):
        raise UsageError(f"--shape {text}: expected NAME=1x3x256x256, sizes of 1 or more")
    return name, tuple(int(p) for p in parts)

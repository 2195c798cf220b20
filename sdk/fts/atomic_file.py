"""A file appears under its name whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Give a temporary file beside `path`; it takes that name when the block ends well, and vanishes otherwise.

    The temporary name keeps the suffix, because picture and video writers choose their format by it. The data is on
    the disk before the name is, so that a power cut leaves the old file or the new one.

    Args:
        path: Final name; its folder exists.

    Yields:
        Path of an empty file in the same folder, to be written by the caller.

    Raises:
        OSError: The folder is missing or not writable, or the disk is full.
    """
    part = path.with_name(f".{path.stem}.{os.getpid()}-{secrets.token_hex(4)}.part{path.suffix}")
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield part
        _sync(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    with open(path, "r+b") as file:
        os.fsync(file.fileno())

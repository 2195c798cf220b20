"""The files of a folder, each a regular file that can be read or a record that says why not."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# No picture within the decoder's pixel limit is larger: 178,956,970 pixels of 4 uncompressed 16-bit samples.
MAX_FILE_BYTES = 8 * 178_956_970


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderEntry:
    """One name in a folder.

    Attributes:
        name: As text that can be printed; bytes that are no UTF-8 are escaped.
        path: What to open.
        obstacle: Why the file is not to be opened; empty for a regular file.
        is_notable: Something that looks like a file and is not to be opened.
    """

    name: str
    path: Path
    obstacle: str
    is_notable: bool = False


def folder_entries(folder: Path) -> Iterator[FolderEntry]:
    """List a folder, by name. Nothing is opened: a FIFO or a device would block."""
    for raw_name in sorted(os.listdir(folder), key=os.fsencode):
        path = folder / raw_name
        obstacle, is_notable = _obstacle(path)
        name = os.fsencode(raw_name).decode("utf-8", "backslashreplace")
        yield FolderEntry(name=name, path=path, obstacle=obstacle, is_notable=is_notable)


def _obstacle(path: Path) -> tuple[str, bool]:
    if path.name.startswith("."):
        return "hidden file", False
    try:
        status = path.stat()
    except OSError as error:
        if error.errno == errno.ENOENT:
            return "link to a file that does not exist", True
        return f"cannot be read ({error.strerror})", True
    if stat.S_ISDIR(status.st_mode):
        return "a folder; subfolders are not read", False
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file", False
    if status.st_size > MAX_FILE_BYTES:
        return f"{status.st_size} bytes, the limit is {MAX_FILE_BYTES}", True
    return "", False

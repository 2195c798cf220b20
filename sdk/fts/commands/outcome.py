"""How a command ends: one place where errors become a line on stderr and an exit code. No numpy here.

Exit codes: 0 done, 1 a defect of ours, 2 wrong input, 3 a condition not met, 4 something is missing in the
environment, 130 interrupted (128 + SIGINT, as shells count), 143 terminated (128 + SIGTERM).
"""

from __future__ import annotations

import errno
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from fts.errors import FtsError, FtsWarning, MissingDependencyError

INTERRUPTED = 130
TERMINATED = 143


def _lack_of_the_machine(error: Exception) -> str:
    """What to do when the disk or the memory is full; empty for every other error."""
    if isinstance(error, MemoryError):
        return f"this machine has too little memory ({error or 'out of memory'}); close other programs, or use a larger one"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"the disk is full ({error}); free some space, or set TMPDIR to a folder on another disk "
            f"(now {tempfile.gettempdir()})"
        )
    return ""


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the stack, so that temporary folders (with people's photos in them) are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: object) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_command(name: str, body: Callable[[], int]) -> int:
    """Run a command and turn whatever it raises into a message and an exit code.

    Warnings of fts go to stderr as one line each, with their id, however the process filters warnings.

    Args:
        name: The command as typed, "fts run".
        body: The command; its result is the exit code.

    Returns:
        The exit code.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("always", FtsWarning)
        shown = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, FtsWarning):
                print(f"{name}: warning: {message}", file=sys.stderr)
            else:
                shown(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        try:
            with _ended_by_sigterm():
                return body()
        except FtsError as error:
            print(f"{name}: error: {error}", file=sys.stderr)
            return error.exit_code
        except KeyboardInterrupt:
            print(f"{name}: interrupted", file=sys.stderr)
            return INTERRUPTED
        except Exception as error:  # noqa: BLE001 - the command's outermost line
            if lack := _lack_of_the_machine(error):
                print(f"{name}: error: {lack}", file=sys.stderr)
                return MissingDependencyError.exit_code
            traceback.print_exc()
            print(
                f"{name}: this is a defect of fts, not of your input ({type(error).__name__}). "
                "Please report it with the lines above.",
                file=sys.stderr,
            )
            return 1

"""The measuring process, seen from the one that gives the orders."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import fts
from fts.errors import EngineError, EngineUnavailableError
from fts.profile.measured_net import NetSpec

_EXIT_SECONDS = 10


def _code(module: str) -> str:
    """What the process runs: a module's `main`.

    It must import this very fts, and this very package of the module, however they were found here. A folder of sources
    goes first; one of installed packages goes last, where it always is, so that nothing in it hides a module of the
    standard library.
    """
    package = sys.modules[module.partition(".")[0]]
    roots = dict.fromkeys(Path(str(p.__file__)).resolve().parents[1] for p in (fts, package))
    places = [
        f"sys.path.{'append(' if root.name in ('site-packages', 'dist-packages') else 'insert(0, '}{str(root)!r}); "
        for root in roots
    ]
    return f"import sys; {''.join(places)}from {module} import main; main()"


def _environment() -> dict[str, str]:
    """Ours, with PYTHONPATH made absolute, because the process starts in another folder."""
    environment = dict(os.environ)
    if folders := environment.get("PYTHONPATH"):
        environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(f) for f in folders.split(os.pathsep))
    return environment


class Asks(Protocol):
    """Something that carries out orders; tests bring their own."""

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Carry out one order and return the answer."""


class WorkerProcess:
    """One fresh process that measures nets; end it with `close`.

    Args:
        module: Whose `main` serves the orders; its package is imported here already.
    """

    def __init__(self, module: str = "fts.profile.worker") -> None:
        # An empty folder to start in: with -c, Python looks for modules in the current folder first.
        self._folder = tempfile.TemporaryDirectory(prefix="fts-profile-")
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed in close
        self._process = subprocess.Popen(
            [sys.executable, "-c", _code(module)],
            cwd=self._folder.name,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
        )

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Give one order and wait for its answer.

        Raises:
            EngineError: The order failed, or the process ended.
        """
        orders, answers = self._process.stdin, self._process.stdout
        if orders is None or answers is None:
            raise ValueError("the worker's pipes are closed")
        line = ""
        with contextlib.suppress(BrokenPipeError):
            orders.write(json.dumps({"do": do, **arguments}) + "\n")
            orders.flush()
            line = answers.readline()
        if not line:
            self._process.wait(_EXIT_SECONDS)
            raise EngineError(
                f"the measuring process ended with exit code {self._process.returncode} during {do!r}: "
                f"{self._last_words()}"
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise (EngineUnavailableError if answer["exit_code"] == 4 else EngineError)(answer["error"])
        if "defect" in answer:
            raise RuntimeError(f"the measuring process failed during {do!r}: {answer['defect']}\n{self._last_words()}")
        result: dict[str, Any] = answer["ok"]
        return result

    def kill(self) -> None:
        """End the process at once, whatever it does; whoever waits for an answer is told. `close` it all the same."""
        self._process.kill()

    def close(self) -> None:
        """End the process; kill it when it does not."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()
        self._folder.cleanup()

    def _last_words(self) -> str:
        self._errors.seek(0)
        return self._errors.read().strip()[-400:] or "it said nothing"


@contextlib.contextmanager
def loaded_worker(spec: NetSpec) -> Iterator[tuple[Asks, dict[str, Any]]]:
    """A fresh process with a net loaded, and what loading took."""
    worker = WorkerProcess()
    try:
        yield worker, worker.ask("load", **asdict(spec))
    finally:
        worker.close()

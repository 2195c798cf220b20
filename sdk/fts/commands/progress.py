"""Progress on stderr: one line that is redrawn on a terminal, a plain line now and then elsewhere. No numpy here."""

from __future__ import annotations

import sys
import time
from types import TracebackType

_TERMINAL_PERIOD_S = 0.1
_PLAIN_PERIOD_S = 5.0


class Progress:
    """Counts what is done; use as a context manager so that the redrawn line ends with a newline."""

    def __init__(self, label: str, total: int | None) -> None:
        self._label = label
        self._total = total
        self._redraws = sys.stderr.isatty()
        self._shown_at = time.monotonic()
        self._drawn = False

    def update(self, done: int) -> None:
        """Tell that `done` items are through; prints when it is time to, and at the end of a known total."""
        now = time.monotonic()
        period = _TERMINAL_PERIOD_S if self._redraws else _PLAIN_PERIOD_S
        if now - self._shown_at < period and done != self._total:
            return
        self._shown_at = now
        text = f"{self._label}: {done}" + (f"/{self._total}" if self._total else "")
        if self._redraws:
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
            self._drawn = True
        else:
            print(text, file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            print(file=sys.stderr)

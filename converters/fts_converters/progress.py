"""Progress of a conversion: one line that is rewritten on a terminal, plain lines elsewhere; stage times on the side."""

from __future__ import annotations

import shutil
import time
from typing import TextIO


class Progress:
    """Writes to a stream; `stream=None` is silent."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._is_terminal = stream is not None and stream.isatty()
        self._stage = ""
        self._begin = time.monotonic()
        self._timings_s: dict[str, float] = {}

    def stage(self, name: str, detail: str) -> None:
        """A new stage begins."""
        self._end_stage()
        self._stage = name
        self._begin = time.monotonic()
        self._write(f"{name:<10}{detail}")

    def step(self, text: str) -> None:
        """Something within the stage is done."""
        self._write(f"{'':<10}{text}")

    def sample(self, done: int) -> None:
        """So many samples are done; only a terminal shows it."""
        if self._is_terminal and self._stream is not None:
            self._stream.write(f"\r\033[K{self._stage:<10}{done} samples")
            self._stream.flush()

    def timings_s(self) -> dict[str, float]:
        """Seconds by stage, the current one included."""
        self._end_stage()
        return dict(self._timings_s)

    def _end_stage(self) -> None:
        if self._stage:
            elapsed = time.monotonic() - self._begin
            self._timings_s[self._stage] = self._timings_s.get(self._stage, 0.0) + elapsed
            self._stage = ""

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        if self._is_terminal:
            width = shutil.get_terminal_size().columns
            self._stream.write(f"\r\033[K{text[: max(width - 1, 20)]}\n")
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

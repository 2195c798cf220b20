"""Warnings of one conversion: each has an id, goes to stderr at once and into the report."""

from __future__ import annotations

import logging

_log = logging.getLogger("fts_converters")


class WarningLog:
    """Collects (id, text) in order; a repeated pair counts once."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self._is_quiet = is_quiet
        self._entries: dict[tuple[str, str], None] = {}

    def add(self, warning_id: str, text: str) -> None:
        """Record a warning and show it."""
        if (warning_id, text) not in self._entries:
            self._entries[(warning_id, text)] = None
            if not self._is_quiet:
                _log.warning("[%s] %s", warning_id, text)

    @property
    def entries(self) -> tuple[tuple[str, str], ...]:
        """All warnings so far."""
        return tuple(self._entries)

"""Warnings of one conversion: each has an id, goes to stderr at once and into the report."""

from __future__ import annotations

import logging

_log = logging.getLogger("fts_converters")


class WarningLog:
    """Collects (id, text) in order; a repeated pair counts once."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self._is_quiet = is_quiet
        self._entries: dict[tuple[str, str], bool] = {}

    def add(self, warning_id: str, text: str, *, is_timing: bool = False) -> None:
        """Record a warning and show it.

        Args:
            warning_id: Kind of warning.
            text: What happened.
            is_timing: It tells times of this run, so that it has no place in the bundle.
        """
        if (warning_id, text) not in self._entries:
            self._entries[(warning_id, text)] = is_timing
            if not self._is_quiet:
                _log.warning("[%s] %s", warning_id, text)

    @property
    def entries(self) -> tuple[tuple[str, str], ...]:
        """All warnings so far."""
        return tuple(self._entries)

    @property
    def lasting_entries(self) -> tuple[tuple[str, str], ...]:
        """Those that the same conversion gives again: all but the ones about times."""
        return tuple(entry for entry, is_timing in self._entries.items() if not is_timing)

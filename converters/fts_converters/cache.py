"""Content-addressed results of stages: a stopped run resumes, a changed input re-runs only what depends on it.

A key is the sha256 of everything the result depends on (model, data, options, tool versions). An entry holds its own
digest, so a damaged one is a miss. Entries appear by rename, so readers need no lock; eviction takes one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Statistics are up to a few megabytes a net, scores some kilobytes: this holds a hundred conversions.
LIMIT_BYTES = 256 * 2**20
# An entry on its way; one that a killed process left behind is evicted like any other.
PART = ".part"

_log = logging.getLogger(__name__)


def cache_folder() -> Path | None:
    """`$FTS_CACHE`, else `~/.cache/fts`; None for a user without a home folder (a container's bare uid)."""
    try:
        return Path(os.environ.get("FTS_CACHE") or Path.home() / ".cache" / "fts")
    except RuntimeError:
        return None


class StageCache:
    """JSON values by key; `folder=None` remembers nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = None if folder is None else folder / "stages"

    def get(self, key: Mapping[str, Any]) -> Any | None:
        """The stored value, or None."""
        if self._folder is None:
            return None
        path = self._folder / f"{_digest(key)}.json"
        try:
            head, _, body = path.read_text(encoding="utf-8").partition("\n")
            if head != hashlib.sha256(body.encode()).hexdigest():
                return None
            os.utime(path)  # least recently used goes first
            return json.loads(body)
        except (OSError, ValueError):
            return None

    def put(self, key: Mapping[str, Any], value: Any) -> None:
        """Store a JSON value; a cache that cannot be written costs time, never the conversion."""
        if self._folder is None:
            return
        body = json.dumps(value, sort_keys=True)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._folder, suffix=PART)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}")
                os.replace(temporary, self._folder / f"{_digest(key)}.json")
            except OSError:
                os.unlink(temporary)
                raise
            self._evict()
        except OSError as error:
            _log.info("cache %s cannot be written: %s", self._folder, error)

    def drop(self, key: Mapping[str, Any]) -> None:
        """Forget a value, if there is one."""
        if self._folder is None:
            return
        try:
            (self._folder / f"{_digest(key)}.json").unlink(missing_ok=True)
        except OSError as error:
            _log.info("cache %s cannot be written: %s", self._folder, error)

    def _evict(self) -> None:
        assert self._folder is not None
        with open(self._folder / ".lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return  # another conversion is at it
            files = (p for pattern in ("*.json", f"*{PART}") for p in self._folder.glob(pattern))
            entries = sorted((p.stat().st_mtime_ns, p.stat().st_size, p) for p in files)
            total = sum(size for _, size, _ in entries)
            for _, size, path in entries:
                if total <= LIMIT_BYTES:
                    return
                path.unlink(missing_ok=True)
                total -= size


def _digest(key: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()

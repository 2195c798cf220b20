"""The only place where OpenCV is imported: `from fts.imaging.opencv import cv2`.

The opencv-python wheel needs libGL.so.1 and glib, which slim containers lack; `opencv-python-headless` is the same
module without them. Whichever provides `cv2` is used as it is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fts.errors import MissingDependencyError

try:
    import cv2 as _cv2
except ImportError as cause:
    raise MissingDependencyError(
        f"OpenCV cannot be imported ({cause}). Install the system packages it needs (Debian, Ubuntu: "
        "apt-get install libgl1 libglib2.0-0), or the same module without them: pip install opencv-python-headless"
    ) from cause

# Any: the stubs differ between the releases we allow (4.8 to 5.x), so that code typed for one fails under another.
cv2: Any = _cv2

_SILENT = 0  # LOG_LEVEL_SILENT

_lock = threading.Lock()
_silencers = 0
_level_before = 0


@contextmanager
def quiet_opencv() -> Iterator[None]:
    """Keep OpenCV's own log off stderr inside the block; what failed is told by an exception instead.

    The level belongs to the process, so blocks on several threads are counted: the first one in saves it, the last
    one out restores it.
    """
    global _silencers, _level_before
    with _lock:
        if _silencers == 0:
            _level_before = _set_log_level(_SILENT)
        _silencers += 1
    try:
        yield
    finally:
        with _lock:
            _silencers -= 1
            if _silencers == 0:
                _set_log_level(_level_before)


def _set_log_level(level: int) -> int:
    """Set OpenCV's log level and return the one before; 4.8 and 5.x have it under different names."""
    logging = getattr(getattr(cv2, "utils", None), "logging", None) or cv2
    if not hasattr(logging, "setLogLevel"):
        return level
    before = int(logging.getLogLevel())
    logging.setLogLevel(level)
    return before

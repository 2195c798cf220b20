"""Which libraries the page needs, and what to type when one is missing."""

from __future__ import annotations

import importlib.util

LIBRARIES = ("jinja2", "matplotlib")
PIP_LINE = "pip install 'fts-edge[report]'"


def missing_libraries() -> tuple[str, ...]:
    """Import names that cannot be found here; nothing is imported."""
    return tuple(name for name in LIBRARIES if importlib.util.find_spec(name) is None)

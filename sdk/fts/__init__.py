"""fts: run face, time and season image models from a bundle. Names are resolved on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fts.errors import FallbackWarning as FallbackWarning
    from fts.errors import FtsError as FtsError

__version__ = "0.1.0"

_EXPORTS: dict[str, str] = {
    "FtsError": "fts.errors",
    "FallbackWarning": "fts.errors",
}

__all__ = ["FallbackWarning", "FtsError", "__version__"]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'fts' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

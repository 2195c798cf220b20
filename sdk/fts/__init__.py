"""fts: run face, time and season image models from a bundle. Names are resolved on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fts.errors import BelowBudgetError as BelowBudgetError
    from fts.errors import BundleDamagedError as BundleDamagedError
    from fts.errors import BundleError as BundleError
    from fts.errors import BundleVersionError as BundleVersionError
    from fts.errors import EngineError as EngineError
    from fts.errors import EngineUnavailableError as EngineUnavailableError
    from fts.errors import FallbackWarning as FallbackWarning
    from fts.errors import FrameError as FrameError
    from fts.errors import FtsError as FtsError
    from fts.errors import FtsWarning as FtsWarning
    from fts.errors import SourceError as SourceError
    from fts.errors import StreamError as StreamError
    from fts.errors import UsageError as UsageError
    from fts.loading import load as load
    from fts.model import Model as Model
    from fts.result import Result as Result

__version__ = "0.1.0"

_EXPORTS: dict[str, str] = {
    "BelowBudgetError": "fts.errors",
    "BundleDamagedError": "fts.errors",
    "BundleError": "fts.errors",
    "BundleVersionError": "fts.errors",
    "EngineError": "fts.errors",
    "EngineUnavailableError": "fts.errors",
    "FallbackWarning": "fts.errors",
    "FrameError": "fts.errors",
    "FtsError": "fts.errors",
    "FtsWarning": "fts.errors",
    "SourceError": "fts.errors",
    "StreamError": "fts.errors",
    "UsageError": "fts.errors",
    "load": "fts.loading",
    "Model": "fts.model",
    "Result": "fts.result",
}

__all__ = [
    "BelowBudgetError",
    "BundleDamagedError",
    "BundleError",
    "BundleVersionError",
    "EngineError",
    "EngineUnavailableError",
    "FallbackWarning",
    "FrameError",
    "FtsError",
    "FtsWarning",
    "Model",
    "Result",
    "SourceError",
    "StreamError",
    "UsageError",
    "__version__",
    "load",
]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'fts' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

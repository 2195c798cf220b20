"""Nets with gradients: what sensitivity and recovery need. Extra `torch`; without it the import says what to type."""

from __future__ import annotations

from fts.errors import MissingDependencyError

try:
    import torch  # noqa: F401
except ImportError as error:
    raise MissingDependencyError(
        f"gradients of a net need the `torch` extra ({error.name} is missing): pip install 'fts-edge[convert,torch]'"
    ) from error

"""What a pass gives back: whether it changed the graph, and what it looked at and left alone, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fts_converters.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A place that looks like a pass's business and was left as it is.

    Attributes:
        node: Name of the node, or its first output where it has no name.
        reason: Why, in words a user understands.
        needs_opset: The opset that alone stood in the way; None when something else did.
    """

    node: str
    reason: str
    needs_opset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """Outcome of one pass.

    Attributes:
        is_changed: The graph is another one than before.
        refusals: In graph order.
    """

    is_changed: bool
    refusals: tuple[Refusal, ...] = ()

    def __bool__(self) -> bool:
        """True when the graph was changed."""
        return self.is_changed


Pass = Callable[[Model], PassResult]

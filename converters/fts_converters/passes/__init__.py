"""Graph passes, one a file; the order is `DEFAULT_PASSES`. Each reports whether it changed anything."""

from __future__ import annotations

from collections.abc import Callable

from fts_converters.model import Model
from fts_converters.passes.fold_constants import fold_constants
from fts_converters.passes.name_nodes import name_nodes
from fts_converters.passes.remove_dead_code import remove_dead_code

Pass = Callable[[Model], bool]

DEFAULT_PASSES: tuple[tuple[str, Pass], ...] = (
    ("remove_dead_code", remove_dead_code),  # first: nothing below should look at what nobody reads
    ("fold_constants", fold_constants),  # Constant -> initializer, shape arithmetic and pad chains -> numbers
    ("remove_dead_code", remove_dead_code),  # what folding left behind
    ("name_nodes", name_nodes),  # last: every node that is left has a unique name for plan and report
)


def clean(model: Model, passes: tuple[tuple[str, Pass], ...] = DEFAULT_PASSES) -> tuple[str, ...]:
    """Run the passes in order; returns the names of those that changed the graph."""
    return tuple(name for name, run in passes if run(model))

"""Remove nodes and initializers that no output depends on, and sort the rest topologically.

Requires: a valid graph. Ensures: inputs and outputs keep name, order, type and shape, also inputs that nobody reads.
"""

from __future__ import annotations

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult


def remove_dead_code(model: Model) -> PassResult:
    """`is_changed` when a node was removed or the order changed."""
    before = [node.name + "|" + ",".join(t.name for t in node.outputs) for node in model.graph.nodes]
    model.graph.cleanup(remove_unused_graph_inputs=False).toposort()
    after = [node.name + "|" + ",".join(t.name for t in node.outputs) for node in model.graph.nodes]
    return PassResult(is_changed=before != after)

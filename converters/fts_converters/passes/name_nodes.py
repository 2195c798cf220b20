"""Give every node a unique, non-empty name, because plan, report and pins speak of nodes by name.

Requires: nothing. Ensures: names of nodes that already had a unique one are unchanged.
"""

from __future__ import annotations

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult


def name_nodes(model: Model) -> PassResult:
    """`is_changed` when a name was given or changed."""
    taken = {node.name for node in model.graph.nodes if node.name}
    seen: set[str] = set()
    changed = False
    for node in model.graph.nodes:
        if node.name and node.name not in seen:
            seen.add(node.name)
            continue
        stem = node.name or f"{node.op}:{node.outputs[0].name if node.outputs else 'no_output'}"
        name, count = stem, 1
        while name in taken or name in seen:
            count += 1
            name = f"{stem}#{count}"
        node.name = name
        seen.add(name)
        changed = True
    return PassResult(is_changed=changed)

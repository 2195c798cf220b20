"""An operator that undoes or repeats the one in front of it.

    Neg(Neg(x)) = x,   Not(Not(x)) = x,   f(f(x)) = f(x) for Relu, Abs, Sign, Floor, Ceil, Round

All hold bit by bit, for NaN too. Does *not* cancel Reciprocal twice or Exp of Log, which round.
"""

from __future__ import annotations

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import bypass, finish
from fts_converters.passes.graph_reading import label, producer

UNDOES = frozenset({"Neg", "Not"})
REPEATS = frozenset({"Relu", "Abs", "Sign", "Floor", "Ceil", "Round"})


def cancel_repeated(model: Model) -> PassResult:
    """Bypasses the second; one that has to name a graph output stays, with the reason."""
    graph = model.graph
    refusals = []
    is_changed = False
    for node in list(graph.nodes):
        if node.domain or not node.inputs or not node.outputs or node.op not in UNDOES | REPEATS:
            continue
        first = producer(node.inputs[0], node.op)
        if first is None:
            continue
        if bypass(graph, node, first.inputs[0] if node.op in UNDOES else node.inputs[0]):
            is_changed = True
        else:
            refusals.append(Refusal(node=label(node), reason=f"it repeats {label(first)!r}, but names a graph output"))
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))

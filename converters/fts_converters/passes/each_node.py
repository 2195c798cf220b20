"""Loops that passes share: over single operators with the reasons of those left alone, and until nothing changes any more."""

from __future__ import annotations

from collections.abc import Callable

import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import TensorNames, finish
from fts_converters.passes.graph_reading import label

# Changes the graph around a node, or returns the reason why it was left alone; "" means changed.
Change = Callable[[gs.Graph, gs.Node, TensorNames], str]


def change_each(
    model: Model, op: str, change: Change, wanted: Callable[[gs.Node], bool] = lambda _node: True
) -> PassResult:
    """Apply a change to every node of one operator of the default domain.

    Args:
        model: Changed in place.
        op: ONNX operator.
        change: What to do with a node.
        wanted: Which nodes to look at; all when left out.
    """
    graph = model.graph
    names = TensorNames(graph)
    is_changed = False
    while True:
        refusals = []
        is_round_changed = False
        for node in [n for n in graph.nodes if n.op == op and not n.domain and wanted(n)]:
            reason = change(graph, node, names)
            if reason:
                refusals.append(Refusal(node=label(node), reason=reason))
            else:
                is_round_changed = True
        if not is_round_changed:
            return PassResult(is_changed=is_changed, refusals=tuple(refusals))
        finish(graph)  # takes dead readers away, which may have been the reason why a node was left alone
        is_changed = True


def until_stable(once: Callable[[Model], PassResult], model: Model) -> PassResult:
    """Run a step again until it changes nothing: a group that goes may have read what kept another from going.

    Args:
        once: Shortens the graph, or leaves it as it is.
        model: Changed in place.
    """
    result = once(model)
    is_changed = result.is_changed
    while result.is_changed:
        result = once(model)
    return PassResult(is_changed=is_changed, refusals=result.refusals)

"""The loop that lowerings share: of each node that an engine lacks, try the replacement, keep the reason of a refusal."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Protocol

import onnx_graphsurgeon as gs

from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import TensorNames, finish
from fts_converters.passes.graph_reading import label, static_shape

# What the loader raises every net to.
FIRST_OPSET = 13
# The value that the node's output gets, or why the node was left alone.
Replacement = Callable[[NewNodes, gs.Node], "gs.Tensor | str"]


def _any(_node: gs.Node) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which nodes a lowering is kept to.

    Attributes:
        is_wanted: Whether to replace a node.
        is_taken: Whether a node may stand in a replacement: the engine has to take all of it, or nothing is gained.
    """

    is_wanted: Callable[[gs.Node], bool] = _any
    is_taken: Callable[[gs.Node], bool] = _any

    def where(self, condition: Callable[[gs.Node], bool]) -> Choice:
        """Of the wanted nodes those that meet a condition."""
        return replace(self, is_wanted=lambda node: condition(node) and self.is_wanted(node))


ALL_NODES = Choice()


class Lowering(Protocol):
    """A pass that can be kept to some nodes."""

    def __call__(self, model: Model, choice: Choice = ALL_NODES) -> PassResult:
        """Replace the chosen nodes that can be."""
        ...


def lower_each(model: Model, ops: Collection[str], replacement: Replacement, choice: Choice) -> PassResult:
    """Replace nodes of some operators of the default domain.

    Args:
        model: Changed in place.
        ops: ONNX operators.
        replacement: Writes what stands for one node; it is taken back when a reason comes with it, or the engine does not
            take it.
        choice: Which nodes to look at.
    """
    graph = model.graph
    refusals = []
    is_changed = False
    names: TensorNames | None = None
    for node in [n for n in graph.nodes if n.op in ops and not n.domain]:
        if not choice.is_wanted(node):
            continue
        reason = _reason_before(graph, node)
        if not reason:
            names = names or TensorNames(graph)
            nodes = NewNodes(graph, names, node)
            value = replacement(nodes, node)
            if not isinstance(value, str):
                bad = next((m.op for m in nodes.made if not choice.is_taken(m)), None)
                value = value if bad is None else f"its replacement needs {bad} in a form that the engine does not take"
            if isinstance(value, str):
                nodes.discard()
                reason = value
            else:
                nodes.take_over(value)
                is_changed = True
        if reason:
            refusals.append(Refusal(node=label(node), reason=reason))
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _reason_before(graph: gs.Graph, node: gs.Node) -> str:
    if graph.opset < FIRST_OPSET:
        return f"replacements are written for opset {FIRST_OPSET} and newer, the net has {graph.opset}"
    if sum(bool(o.name) for o in node.outputs) != 1 or not node.outputs[0].name:
        return "more than one of its outputs is used"
    tensors = [t for t in (*node.inputs, node.outputs[0]) if not (isinstance(t, gs.Variable) and t.is_empty())]
    if any(static_shape(t) is None or t.dtype is None for t in tensors):
        return "its sizes are not known"
    if any(n == 0 for t in tensors[:1] for n in t.shape):
        return "it has no elements"
    return ""

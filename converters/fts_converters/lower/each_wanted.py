"""The loop that lowerings share: of each node that an engine lacks, try the replacement, keep the reason of a refusal."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

import onnx_graphsurgeon as gs

from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import TensorNames, finish
from fts_converters.passes.graph_reading import label, static_shape

# What the loader raises every net to.
FIRST_OPSET = 13
Wanted = Callable[[gs.Node], bool]
# The value that the node's output gets, or why the node was left alone.
Replacement = Callable[[NewNodes, gs.Node], "gs.Tensor | str"]


class Lowering(Protocol):
    """A pass that can be kept to some nodes."""

    def __call__(self, model: Model, wanted: Wanted = ...) -> PassResult:
        """Change the wanted nodes that can be."""
        ...


def every_node(_node: gs.Node) -> bool:
    """No choice."""
    return True


def lower_each(model: Model, ops: Collection[str], replace: Replacement, wanted: Wanted) -> PassResult:
    """Replace nodes of some operators of the default domain.

    Args:
        model: Changed in place.
        ops: ONNX operators.
        replace: Writes the replacement of one node; what it wrote is taken back when it returns a reason.
        wanted: Which nodes to look at.
    """
    graph = model.graph
    refusals = []
    is_changed = False
    names: TensorNames | None = None
    for node in [n for n in graph.nodes if n.op in ops and not n.domain]:
        if not wanted(node):
            continue
        reason = _reason_before(graph, node)
        if not reason:
            names = names or TensorNames(graph)
            nodes = NewNodes(graph, names, node)
            value = replace(nodes, node)
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
    if node.op == "GroupNormalization" and node.outputs[0].shape is None:
        # onnx infers nothing through its function body; the operator keeps shape and type
        node.outputs[0].shape, node.outputs[0].dtype = node.inputs[0].shape, node.inputs[0].dtype
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

"""An If whose condition is a constant becomes the branch that is taken.

Requires: the condition is known once constants are folded. Ensures: tensors of the branch get names that nothing else has;
outer tensors that it reads stay the ones they were. An If with a live condition stays, with the reason.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import TensorNames, bypass, finish
from fts_converters.passes.graph_reading import constant, is_output, label


def inline_if(model: Model) -> PassResult:
    """Inlines until no If with a known condition is left, also one inside a branch that was inlined."""
    graph = model.graph
    is_changed = False
    while known := [(n, c) for n in graph.nodes if (c := _condition(n)) is not None]:
        names = TensorNames(graph)
        for node, condition in known:
            _inline(graph, node, node.attrs["then_branch" if condition else "else_branch"], names)
        finish(graph)
        is_changed = True
    live = [n for n in graph.nodes if n.op == "If" and not n.domain]
    reason = "its condition is computed from the input, so both branches stay"
    return PassResult(is_changed=is_changed, refusals=tuple(Refusal(node=label(n), reason=reason) for n in live))


def _condition(node: gs.Node) -> bool | None:
    """The condition of an If, when it is known."""
    value = constant(node.inputs[0]) if node.op == "If" and not node.domain else None
    return None if value is None else bool(value)


def _inline(graph: gs.Graph, node: gs.Node, branch: gs.Graph, names: TensorNames) -> None:
    made_here = {id(t) for n in branch.nodes for t in n.outputs}
    for inner in branch.nodes:
        for tensor in inner.outputs:
            if tensor.name:
                tensor.name = names.unused(tensor.name)
        for tensor in inner.inputs:
            if isinstance(tensor, gs.Constant) and id(tensor) not in made_here and not _is_outer(graph, tensor):
                tensor.name = names.unused(tensor.name)
                made_here.add(id(tensor))
    graph.nodes.extend(branch.nodes)
    results = list(branch.outputs)
    outputs = list(node.outputs)
    node.outputs.clear()
    node.inputs.clear()
    for old, new in zip(outputs, results, strict=True):
        bridge = gs.Node(op="Identity", inputs=[new], outputs=[old])
        graph.nodes.append(bridge)
        if not is_output(graph, old):
            bypass(graph, bridge)


def _is_outer(graph: gs.Graph, tensor: gs.Tensor) -> bool:
    """A constant that a node of the outer graph reads too."""
    return any(any(r is n for n in graph.nodes) for r in tensor.outputs)

"""GELU that is spelled out becomes one Gelu, from opset 20 on.

    Gelu                        x Phi(x) = 0.5 x (1 + erf(x / sqrt 2))
    Gelu, approximate="tanh"    0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))

in any grouping of the factors, x^3 by Pow or by Mul. Requires: inner values read by nobody else. Does *not* recognise
QuickGELU, x Sigmoid(1.702 x): that is a Swish, which `recognise_activations` reports.

Source: Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2.
"""

from __future__ import annotations

import math

import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.each_node import until_stable
from fts_converters.passes.graph_editing import finish, replace_by
from fts_converters.passes.graph_reading import label
from fts_converters.passes.polynomial import Terms, are_inner, find_reader, find_source

GELU_OPSET = 20
# The gate's operator, what it is taken of as a polynomial of x, and the attribute that says so.
GATES: tuple[tuple[str, Terms, str], ...] = (
    ("Erf", {(1,): math.sqrt(0.5)}, "none"),
    ("Tanh", {(1,): math.sqrt(2 / math.pi), (3,): math.sqrt(2 / math.pi) * 0.044715}, "tanh"),
)
# Of x and the gate.
GELU: Terms = {(1, 0): 0.5, (1, 1): 0.5}


def recognise_gelu(model: Model) -> PassResult:
    """One Gelu for each group."""
    return until_stable(_recognise, model)


def _recognise(model: Model) -> PassResult:
    graph = model.graph
    own = {id(node) for node in graph.nodes}
    refusals: list[Refusal] = []
    is_changed = False
    for node in list(graph.nodes):
        found = _match(graph, node)
        if found is None or id(found[0]) not in own:
            continue
        last, source, approximate = found
        if model.opset < GELU_OPSET:
            reason = f"GELU: its operator exists from opset {GELU_OPSET} on, the net has {model.opset}"
            refusals.append(Refusal(node=label(last), reason=reason, needs_opset=GELU_OPSET))
            continue
        replace_by(graph, last, "Gelu", [source], {"approximate": approximate})
        is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _match(graph: gs.Graph, gate: gs.Node) -> tuple[gs.Node, gs.Tensor, str] | None:
    """(last node, x, approximate) when the node is the gate of a GELU."""
    for op, argument, approximate in GATES:
        if gate.op != op or gate.domain:
            continue
        inner = find_source(gate.inputs[0], argument)
        if inner is None:
            continue
        source, before = inner
        outer = find_reader(graph, gate.outputs[0], [source], GELU)
        if outer is not None and are_inner(graph, outer[0], (gate, *before, *outer[1])):
            return outer[0], source, approximate
    return None

"""Activations that are spelled out become the operator that engines know.

    HardSigmoid    clip(a x + b, 0, h) / h with b / h = 1/2: relu6(x + 3) / 6, clip(0.2 x + 0.5, 0, 1)
    HardSwish      x HardSigmoid(x) with a = 1/6                          opset 14 and newer
    Mish           x tanh(Softplus(x))                                    opset 18 and newer
    Swish          x Sigmoid(a x): SiLU with a = 1, QuickGELU with 1.702  opset 24 and newer

An operator of a newer opset than the net has is reported. Requires: constants within 1e-4 relative, inner values read by
nobody else. A spelled-out Sigmoid or Softplus is `recognise_sigmoid`'s, and GELU `recognise_gelu`'s.

Source: Howard et al. 2019, arXiv:1905.02244, section 5.2 (hard swish); Misra 2019, arXiv:1908.08681 (Mish);
Elfwing et al. 2017, arXiv:1702.03118 (SiLU); Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2 (x Sigmoid(1.702 x)).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.each_node import until_stable
from fts_converters.passes.graph_editing import finish, replace_by
from fts_converters.passes.graph_reading import label, only_reader, producer
from fts_converters.passes.polynomial import are_inner, find_reader, linear_sources
from fts_converters.passes.value_clamp import find_clamp

HARD_SWISH_OPSET, MISH_OPSET, SWISH_OPSET = 14, 18, 24
SIXTH = 1.0 / 6.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """An operator that a group of nodes can be replaced by.

    Attributes:
        op: The operator.
        name: What people call it.
        source: x.
        last: Node that makes the value.
        opset: First opset of the operator.
        attrs: Its attributes.
    """

    op: str
    name: str
    source: gs.Tensor
    last: gs.Node
    opset: int = 1
    attrs: Mapping[str, float] = field(default_factory=dict)


def recognise_activations(model: Model) -> PassResult:
    """One operator for each group, found from the node that gates."""
    return until_stable(_recognise, model)


def _recognise(model: Model) -> PassResult:
    graph = model.graph
    own = {id(node) for node in graph.nodes}
    refusals: list[Refusal] = []
    is_changed = False
    for node in list(graph.nodes):
        finder = FINDERS.get(node.op)
        options = finder(graph, node) if finder is not None and not node.domain and node.outputs else ()
        for found in options:
            if id(found.last) not in own:
                continue
            if model.opset < found.opset:
                reason = f"{found.name}: {found.op} exists from opset {found.opset} on, the net has {model.opset}"
                refusals.append(Refusal(node=label(found.last), reason=reason, needs_opset=found.opset))
                continue
            replace_by(graph, found.last, found.op, [found.source], found.attrs)
            is_changed = True
            break
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _hard(graph: gs.Graph, node: gs.Node) -> tuple[Found, ...]:
    """From the last node of a clamp: the product with x first, then what is in it."""
    gate = node.outputs[0]
    clamp = find_clamp(graph, gate)
    if clamp is None or clamp.low != 0.0 or not 0.1 <= clamp.high <= 100:
        return ()
    high = clamp.high
    fits = (s for s in linear_sources(clamp.source) if s[1] > 0 and _is_near(s[2] / high, 0.5))
    source, slope, _, before = next(fits, (None, 0.0, 0.0, ()))
    if source is None:
        return ()
    inner = (*clamp.nodes, *before)
    is_sixth = _is_near(slope / high, SIXTH)
    found = []
    outer = find_reader(graph, gate, [source], {(1, 1): 1.0 / high}) if is_sixth else None
    if outer is not None and are_inner(graph, outer[0], (*inner, *outer[1])):
        found.append(Found(op="HardSwish", name="hard swish", source=source, last=outer[0], opset=HARD_SWISH_OPSET))
    outer = (node, ()) if high == 1.0 else find_reader(graph, gate, [], {(1,): 1.0 / high})
    if outer is not None and are_inner(graph, outer[0], (*inner, *outer[1])):
        attrs = {"alpha": SIXTH if is_sixth else slope / high, "beta": 0.5}
        found.append(Found(op="HardSigmoid", name="hard sigmoid", source=source, last=outer[0], attrs=attrs))
    return tuple(found)


def _hard_swish(graph: gs.Graph, gate: gs.Node) -> tuple[Found, ...]:
    """From a HardSigmoid."""
    if not (_is_near(gate.attrs.get("alpha", 0.2), SIXTH) and _is_near(gate.attrs.get("beta", 0.5), 0.5)):
        return ()
    last = _product(graph, gate.outputs[0], gate.inputs[0])
    if last is None:
        return ()
    return (Found(op="HardSwish", name="hard swish", source=gate.inputs[0], last=last, opset=HARD_SWISH_OPSET),)


def _mish(graph: gs.Graph, gate: gs.Node) -> tuple[Found, ...]:
    """From a Tanh."""
    inner = producer(gate.inputs[0], "Softplus")
    if inner is None or only_reader(graph, gate.inputs[0]) is not gate:
        return ()
    last = _product(graph, gate.outputs[0], inner.inputs[0])
    if last is None:
        return ()
    return (Found(op="Mish", name="Mish", source=inner.inputs[0], last=last, opset=MISH_OPSET),)


def _swish(graph: gs.Graph, gate: gs.Node) -> tuple[Found, ...]:
    """From a Sigmoid."""
    last = _product(graph, gate.outputs[0], gate.inputs[0])
    if last is not None:
        return (Found(op="Swish", name="SiLU", source=gate.inputs[0], last=last, opset=SWISH_OPSET),)
    for source, alpha, shift, before in linear_sources(gate.inputs[0]):
        last = _product(graph, gate.outputs[0], source) if alpha > 0 and not shift else None
        if last is not None and are_inner(graph, last, (gate, *before, last)):
            name, attrs = ("QuickGELU" if _is_near(alpha, 1.702) else "Swish"), {"alpha": alpha}
            return (Found(op="Swish", name=name, source=source, last=last, opset=SWISH_OPSET, attrs=attrs),)
    return ()


def _product(graph: gs.Graph, gate: gs.Tensor, source: gs.Tensor) -> gs.Node | None:
    """The node that multiplies the two, when nobody else reads the gate."""
    outer = find_reader(graph, gate, [source], {(1, 1): 1.0})
    return outer[0] if outer is not None and len(outer[1]) == 1 else None


def _is_near(value: float, wanted: float) -> bool:
    return abs(value - wanted) <= 1e-4 * abs(wanted)


FINDERS: Mapping[str, Callable[[gs.Graph, gs.Node], tuple[Found, ...]]] = {
    "Clip": _hard,
    "Relu": _hard,
    "Max": _hard,
    "Min": _hard,
    "HardSigmoid": _hard_swish,
    "Tanh": _mish,
    "Sigmoid": _swish,
}

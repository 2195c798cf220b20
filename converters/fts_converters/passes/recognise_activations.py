"""Activations that are spelled out become the operator that engines know.

    HardSigmoid(a=1/6, b=1/2)  clip(x + 3, 0, 6) / 6
    HardSwish                  x * HardSigmoid(x)                             opset 14 and newer
    Gelu                       x * (erf(x / sqrt 2) + 1) * 0.5                opset 20 and newer, else reported
    Gelu, approximate="tanh"   0.5 x (1 + tanh(sqrt(2 / pi)(x + 0.044715 x³)))  likewise

SiLU (x * Sigmoid(x)) has no operator before opset 24 and stays. Requires: constants as above within 1e-4 relative, inner
values read by nobody else.

Source: Hendrycks & Gimpel 2016, arXiv:1606.08415 (GELU); Howard et al. 2019, arXiv:1905.02244, section 5.2 (hard swish).
"""

from __future__ import annotations

import math

import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import finish, replace_by
from fts_converters.passes.graph_reading import label, only_reader, producer, scalar

GELU_OPSET, HARDSWISH_OPSET = 20, 14


def recognise_activations(model: Model) -> PassResult:
    """HardSigmoid first, because HardSwish is made of it."""
    graph = model.graph
    refusals: list[Refusal] = []
    is_changed = False
    for node in list(graph.nodes):
        source = _hard_sigmoid_source(graph, node)
        if source is not None:
            replace_by(graph, node, "HardSigmoid", [source], {"alpha": 1.0 / 6.0, "beta": 0.5})
            is_changed = True
    if is_changed:
        finish(graph)
    for node in list(graph.nodes):
        source = _hard_swish_source(graph, node)
        if source is not None and model.opset >= HARDSWISH_OPSET:
            replace_by(graph, node, "HardSwish", [source])
            is_changed = True
            continue
        found = _gelu(graph, node)
        if found is None:
            continue
        if model.opset < GELU_OPSET:
            reason = f"GELU: its operator exists from opset {GELU_OPSET} on, the net has {model.opset}"
            refusals.append(Refusal(node=label(node), reason=reason))
            continue
        source, approximate = found
        replace_by(graph, node, "Gelu", [source], {"approximate": approximate})
        is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _is_near(value: float | None, wanted: float) -> bool:
    return value is not None and abs(value - wanted) <= 1e-4 * abs(wanted)


def _with_scalar(graph: gs.Graph, tensor: gs.Tensor, op: str, wanted: float) -> gs.Tensor | None:
    """The other operand when the tensor is made by op(other, wanted), in either order for Add and Mul; read once."""
    node = producer(tensor, op)
    if node is None or len(node.inputs) != 2 or only_reader(graph, tensor) is None:
        return None
    if _is_near(scalar(node.inputs[1]), wanted):
        return node.inputs[0]
    if op in ("Add", "Mul") and _is_near(scalar(node.inputs[0]), wanted):
        return node.inputs[1]
    return None


def _scaled_by(graph: gs.Graph, tensor: gs.Tensor, factor: float) -> gs.Tensor | None:
    """other when the tensor is other * factor, written as Mul or Div."""
    found = _with_scalar(graph, tensor, "Mul", factor)
    return found if found is not None else _with_scalar(graph, tensor, "Div", 1.0 / factor)


def _node_scaled_by(graph: gs.Graph, node: gs.Node, factor: float) -> gs.Tensor | None:
    """The same for a node whose readers do not matter."""
    if node.domain or len(node.inputs) != 2:
        return None
    if node.op == "Div" and _is_near(scalar(node.inputs[1]), 1.0 / factor):
        return node.inputs[0]
    if node.op == "Mul":
        for a, b in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
            if _is_near(scalar(b), factor):
                return a
    return None


def _relu6_of_plus_3(graph: gs.Graph, tensor: gs.Tensor) -> gs.Tensor | None:
    clip = producer(tensor, "Clip")
    if clip is None or only_reader(graph, tensor) is None or len(clip.inputs) < 3:
        return None
    if scalar(clip.inputs[1]) != 0.0 or scalar(clip.inputs[2]) != 6.0:
        return None
    return _with_scalar(graph, clip.inputs[0], "Add", 3.0)


def _hard_sigmoid_source(graph: gs.Graph, node: gs.Node) -> gs.Tensor | None:
    clipped = _node_scaled_by(graph, node, 1.0 / 6.0)
    return None if clipped is None else _relu6_of_plus_3(graph, clipped)


def _hard_swish_source(graph: gs.Graph, node: gs.Node) -> gs.Tensor | None:
    """x * HardSigmoid(x), or (x * clip(x + 3, 0, 6)) / 6."""
    if node.op == "Mul" and not node.domain and len(node.inputs) == 2:
        for x, other in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
            hard = producer(other, "HardSigmoid")
            if hard is not None and hard.inputs[0] is x and only_reader(graph, other) is node:
                near = _is_near(hard.attrs.get("alpha", 0.2), 1.0 / 6.0) and _is_near(hard.attrs.get("beta", 0.5), 0.5)
                return x if near else None
    product = _node_scaled_by(graph, node, 1.0 / 6.0)
    mul = producer(product, "Mul")
    if product is None or mul is None or only_reader(graph, product) is not node:
        return None
    for x, other in ((mul.inputs[0], mul.inputs[1]), (mul.inputs[1], mul.inputs[0])):
        if _relu6_of_plus_3(graph, other) is x:
            return x
    return None


def _gelu(graph: gs.Graph, node: gs.Node) -> tuple[gs.Tensor, str] | None:
    """(x, approximate) when the node makes GELU of x; the three factors x, gate and 0.5 in any grouping."""
    if node.op not in ("Mul", "Div") or node.domain:
        return None
    factors = _factors(graph, node, depth=2)
    numbers = [s for t in factors if (s := scalar(t)) is not None]
    live = [t for t in factors if scalar(t) is None]
    if len(live) != 2 or len(numbers) != 1 or not _is_near(numbers[0], 0.5):
        return None
    for x, gate in (live, live[::-1]):
        inner = _with_scalar(graph, gate, "Add", 1.0)
        if inner is None:
            continue
        erf = producer(inner, "Erf")
        if erf is not None and _scaled_by(graph, erf.inputs[0], 1.0 / math.sqrt(2.0)) is x:
            return x, "none"
        tanh = producer(inner, "Tanh")
        if tanh is not None and _is_tanh_argument(graph, tanh.inputs[0], x):
            return x, "tanh"
    return None


def _factors(graph: gs.Graph, node: gs.Node, depth: int) -> list[gs.Tensor]:
    """Operands of a product, looking through inner products that nobody else reads."""
    factors: list[gs.Tensor] = []
    for tensor in node.inputs if node.op == "Mul" else []:
        inner = producer(tensor, "Mul")
        if depth and inner is not None and only_reader(graph, tensor) is node:
            factors += _factors(graph, inner, depth - 1)
        else:
            factors.append(tensor)
    return factors


def _is_tanh_argument(graph: gs.Graph, tensor: gs.Tensor, x: gs.Tensor) -> bool:
    """sqrt(2 / pi) * (x + 0.044715 * x**3)"""
    total = producer(_scaled_by(graph, tensor, math.sqrt(2.0 / math.pi)), "Add")
    if total is None:
        return False
    for first, second in ((total.inputs[0], total.inputs[1]), (total.inputs[1], total.inputs[0])):
        cube = producer(_scaled_by(graph, second, 0.044715), "Pow")
        if first is x and cube is not None and cube.inputs[0] is x and scalar(cube.inputs[1]) == 3.0:
            return True
    return False

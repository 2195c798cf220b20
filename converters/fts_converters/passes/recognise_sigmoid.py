"""Sigmoid and Softplus that are spelled out by Exp become one operator, and so do quotients that hold a Sigmoid.

    1 / (1 + exp(-x)) = Sigmoid(x),   n / (1 + exp(-x)) = n Sigmoid(x),   0.5 tanh(0.5 x) + 0.5 = Sigmoid(x)
    max(x, 0) + log(1 + exp(-|x|)) = Softplus(x),   tanh(log(1 + exp(x))) = tanh(Softplus(x))
    where(a x > t, x, Softplus(a x) / a) = Softplus(a x) / a,  t >= 17     (PyTorch's, t = 20)

Where exp(-x) overflows, the quotient is 0, as Sigmoid is. Does *not* recognise log(1 + exp(x)) for other readers, nor
exp(x) / (1 + exp(x)): above 88.7 they give infinity and NaN in float32, where the operators give x and 1. Those are
reported, unless x is known to stay below.

Source: ONNX operator specification, Sigmoid and Softplus; torch.nn.Softplus (threshold).
"""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.each_node import until_stable
from fts_converters.passes.graph_editing import TensorNames, bypass, finish, replace_by
from fts_converters.passes.graph_reading import constant, label, only_reader, producer, rank, scalar
from fts_converters.passes.polynomial import (
    Terms,
    are_inner,
    find_reader,
    find_source,
    is_near,
    linear_sources,
    polynomial,
)
from fts_converters.passes.value_clamp import find_clamp

# exp overflows above ln(max): 88.7 in float32, 709 in float64, 11.09 in float16 (IEEE 754).
GREATEST_EXPONENT = {np.dtype(t): float(np.log(float(np.finfo(t).max))) for t in (np.float16, np.float32, np.float64)}
# Softplus(x) = x + log(1 + exp(-x)): above it the summand is below half an ulp of x in float32, exp(-17) = 4.1e-8 < 17 * 2^-25.
LEAST_THRESHOLD = 17.0
ONE_PLUS: Terms = {(0,): 1.0, (1,): 1.0}


def recognise_sigmoid(model: Model) -> PassResult:
    """One operator for each group."""
    return until_stable(_recognise, model)


def _recognise(model: Model) -> PassResult:
    graph = model.graph
    names = TensorNames(graph)
    own = {id(node) for node in graph.nodes}
    refusals: list[Refusal] = []
    is_changed = False
    for node in list(graph.nodes):
        if node.domain or len(node.outputs) != 1 or not node.inputs:
            continue
        if node.op == "Exp":
            outcome = _sum_with_exp(graph, node, own, names)
        elif node.op == "Where":
            outcome = _drop_threshold(graph, node)
        elif node.op == "Tanh":
            outcome = _sigmoid_by_tanh(graph, node, own)
        else:
            continue
        if isinstance(outcome, str):
            refusals.append(Refusal(node=label(node), reason=outcome))
        is_changed |= outcome is True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _drop_threshold(graph: gs.Graph, node: gs.Node) -> bool:
    """Let a Softplus give the values above the threshold too, which are the same in float32."""
    greater = producer(node.inputs[0], "Greater")
    source, result = node.inputs[1], node.inputs[2]
    if greater is None or source.dtype != np.float32 or (scalar(greater.inputs[1]) or 0.0) < LEAST_THRESHOLD:
        return False
    argument = greater.inputs[0]
    softplus = next((r for r in argument.outputs if r.op == "Softplus" and not r.domain), None)
    if softplus is None or not _has_no_more_axes(greater.inputs[1], argument):
        return False
    inside, outside = polynomial(argument, [source]), polynomial(result, [softplus.outputs[0]])
    factor = inside.terms.get((1,), 0.0) if inside is not None else 0.0
    if factor <= 0 or not is_near(inside, {(1,): factor}) or not is_near(outside, {(1,): 1.0 / factor}):
        return False
    return bypass(graph, node, result)


def _sigmoid_by_tanh(graph: gs.Graph, tanh: gs.Node, own: set[int]) -> bool:
    inner = find_source(tanh.inputs[0], {(1,): 0.5})
    if inner is None:
        return False
    outer = find_reader(graph, tanh.outputs[0], [], {(0,): 0.5, (1,): 0.5})
    if outer is None or id(outer[0]) not in own or not are_inner(graph, outer[0], (tanh, *inner[1], *outer[1])):
        return False
    replace_by(graph, outer[0], "Sigmoid", [inner[0]])
    return True


def _sum_with_exp(graph: gs.Graph, exp: gs.Node, own: set[int], names: TensorNames) -> bool | str:
    """What can be done with 1 + exp(v); a string says why nothing can."""
    plus = only_reader(graph, exp.outputs[0])
    if plus is None:
        plus = next((r for r in exp.outputs[0].outputs if r.op == "Add"), None)
        if plus is not None and _is_quotient_of(plus.outputs[0], exp.outputs[0]):
            return "exp(x) / (1 + exp(x)) is NaN where exp(x) overflows, Sigmoid is 1: left as it came"
        return False
    total = plus.outputs[0] if len(plus.outputs) == 1 else None
    if total is None or plus.op != "Add" or not is_near(polynomial(total, [exp.outputs[0]]), ONE_PLUS):
        return False
    reader = only_reader(graph, total)
    if reader is None or id(reader) not in own or reader.domain or len(reader.outputs) != 1:
        return False
    if reader.op == "Log":
        return _softplus(graph, exp, reader, own)
    if reader.op == "Reciprocal" or (reader.op == "Pow" and scalar(reader.inputs[1]) == -1.0):
        replace_by(graph, reader, "Sigmoid", [_negated(graph, exp.inputs[0], names)])
        return True
    if reader.op != "Div" or reader.inputs[1] is not total:
        return False
    numerator = reader.inputs[0]
    argument = _negated(graph, exp.inputs[0], names)
    if scalar(numerator) == 1.0 and _has_no_more_axes(numerator, total):
        replace_by(graph, reader, "Sigmoid", [argument])
        return True
    gate = names.variable(f"{reader.outputs[0].name}_sigmoid", argument, argument.shape)
    graph.nodes.append(gs.Node(op="Sigmoid", name=gate.name, inputs=[argument], outputs=[gate]))
    replace_by(graph, reader, "Mul", [numerator, gate])
    return True


def _has_no_more_axes(number: gs.Tensor, tensor: gs.Tensor) -> bool:
    value = constant(number)
    return value is not None and value.ndim <= (rank(tensor) or 0)


def _is_quotient_of(total: gs.Tensor, exponential: gs.Tensor) -> bool:
    return any(r.op == "Div" and r.inputs[0] is exponential and r.inputs[1] is total for r in total.outputs)


def _negated(graph: gs.Graph, tensor: gs.Tensor, names: TensorNames) -> gs.Tensor:
    """-v: what a negation was taken of, or a new value."""
    found = find_source(tensor, {(1,): -1.0})
    if found is not None:
        return found[0]
    scaled = next((s for s in linear_sources(tensor) if s[1] < 0 and not s[2]), None)
    if scaled is not None and tensor.dtype is not None:
        factor = names.constant(f"{tensor.name}_factor", np.array(-scaled[1], tensor.dtype))
        return _new(graph, "Mul", [scaled[0], factor], tensor, names)
    return _new(graph, "Neg", [tensor], tensor, names)


def _new(graph: gs.Graph, op: str, inputs: list[gs.Tensor], like: gs.Tensor, names: TensorNames) -> gs.Tensor:
    value = names.variable(f"{like.name}_negated", like, like.shape)
    graph.nodes.append(gs.Node(op=op, name=value.name, inputs=inputs, outputs=[value]))
    return value


def _softplus(graph: gs.Graph, exp: gs.Node, log: gs.Node, own: set[int]) -> bool | str:
    negated = producer(exp.inputs[0], "Neg")
    size = producer(negated.inputs[0], "Abs") if negated is not None else None
    if size is not None:
        last = only_reader(graph, log.outputs[0])
        if last is None or id(last) not in own or last.op != "Add" or last.domain:
            return False
        other = last.inputs[1] if last.inputs[0] is log.outputs[0] else last.inputs[0]
        positive = find_clamp(graph, other)
        if positive is None or positive.source is not size.inputs[0] or (positive.low, positive.high) != (0.0, np.inf):
            return False
        if only_reader(graph, other) is not last:
            return False
        replace_by(graph, last, "Softplus", [size.inputs[0]])
        return True
    source = exp.inputs[0]
    reader = only_reader(graph, log.outputs[0])
    if (reader is not None and reader.op == "Tanh" and not reader.domain) or _stays_below(graph, source):
        replace_by(graph, log, "Softplus", [source])
        return True
    return "log(1 + exp(x)) is infinite where exp(x) overflows, Softplus is x: left as it came"


def _stays_below(graph: gs.Graph, tensor: gs.Tensor) -> bool:
    """exp of it cannot overflow: it is clipped, or comes from an operator that is bounded."""
    limit = GREATEST_EXPONENT.get(np.dtype(tensor.dtype)) if tensor.dtype is not None else None
    if limit is None:
        return False
    clamp = find_clamp(graph, tensor)
    if clamp is not None and clamp.high < limit:
        return True
    return any(
        producer(tensor, op) is not None for op in ("Tanh", "Sigmoid", "HardSigmoid", "Softmax", "Softsign", "Erf")
    )

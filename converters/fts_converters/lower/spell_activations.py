"""Activations that an engine has no operator for, written with Exp, Log, Max, Min, Mul and their like.

    HardSigmoid   clip(a x + b, 0, 1)                  HardSwish  x clip(x / 6 + 1 / 2, 0, 1)
    LeakyRelu     max(x, 0) + a min(x, 0)              PRelu      the same with a tensor
    Elu           max(x, 0) + a (exp(min(x, 0)) - 1)   Selu, Celu likewise with their factors
    Softplus      max(x, 0) + log(1 + exp(-|x|))       Mish       x tanh(softplus(x))
    Softsign      x / (1 + |x|)                        Gelu       x (1 + erf(x / sqrt 2)) / 2, or by tanh
    LogSoftmax    x - max - log(sum(exp(x - max)))
    ThresholdedRelu, Shrink: Where

Each form is one that overflows nowhere. Source: the operators' texts in the ONNX operator specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult

# Of the operator's text: the fixed point of a self-normalizing net (Klambauer et al. 2017, arXiv:1706.02515).
SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


def spell_activations(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted activation of `FORMS`."""
    return lower_each(model, tuple(FORMS), lambda nodes, node: FORMS[node.op](nodes, node), choice)


def _above(nodes: NewNodes, x: gs.Tensor) -> gs.Tensor:
    return nodes.unary("Relu", x)


def _below(nodes: NewNodes, x: gs.Tensor) -> gs.Tensor:
    return nodes.binary("Min", x, nodes.constant("zero", 0.0))


def _hard_sigmoid(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    alpha, beta = float(node.attrs.get("alpha", 0.2)), float(node.attrs.get("beta", 0.5))
    return nodes.clip(nodes.shifted(nodes.scaled(node.inputs[0], alpha), beta), 0.0, 1.0)


def _hard_swish(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    return nodes.binary("Mul", x, nodes.clip(nodes.shifted(nodes.scaled(x, 1 / 6), 0.5), 0.0, 1.0))


def _leaky_relu(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    return nodes.binary("Add", _above(nodes, x), nodes.scaled(_below(nodes, x), float(node.attrs.get("alpha", 0.01))))


def _prelu(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x, slope = node.inputs
    return nodes.binary("Add", _above(nodes, x), nodes.binary("Mul", _below(nodes, x), slope))


def _exponential_below(nodes: NewNodes, x: gs.Tensor, width: float, height: float) -> gs.Tensor:
    """height (exp(min(x, 0) / width) - 1)."""
    return nodes.scaled(nodes.shifted(nodes.unary("Exp", nodes.scaled(_below(nodes, x), 1 / width)), -1.0), height)


def _elu(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    return nodes.binary("Add", _above(nodes, x), _exponential_below(nodes, x, 1.0, float(node.attrs.get("alpha", 1.0))))


def _celu(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x, alpha = node.inputs[0], float(node.attrs.get("alpha", 1.0))
    return nodes.binary("Add", _above(nodes, x), _exponential_below(nodes, x, alpha, alpha))


def _selu(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    alpha, gamma = float(node.attrs.get("alpha", SELU_ALPHA)), float(node.attrs.get("gamma", SELU_GAMMA))
    return nodes.scaled(nodes.binary("Add", _above(nodes, x), _exponential_below(nodes, x, 1.0, alpha)), gamma)


def _softplus_of(nodes: NewNodes, x: gs.Tensor) -> gs.Tensor:
    small = nodes.unary("Exp", nodes.unary("Neg", nodes.unary("Abs", x)))
    return nodes.binary("Add", _above(nodes, x), nodes.unary("Log", nodes.shifted(small, 1.0)))


def _softplus(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    return _softplus_of(nodes, node.inputs[0])


def _mish(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    return nodes.binary("Mul", x, nodes.unary("Tanh", _softplus_of(nodes, x)))


def _softsign(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    return nodes.binary("Div", x, nodes.shifted(nodes.unary("Abs", x), 1.0))


def _gelu(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    """By erf; the form by tanh is Hendrycks and Gimpel 2016, arXiv:1606.08415, eq. (2)."""
    x = node.inputs[0]
    if str(node.attrs.get("approximate", "none")) == "tanh":
        cube = nodes.binary("Mul", nodes.binary("Mul", x, x), x)
        inner = nodes.binary("Add", x, nodes.scaled(cube, 0.044715))
        gate = nodes.unary("Tanh", nodes.scaled(inner, math.sqrt(2 / math.pi)))
    else:
        gate = nodes.unary("Erf", nodes.scaled(x, math.sqrt(0.5)))
    return nodes.binary("Mul", nodes.scaled(x, 0.5), nodes.shifted(gate, 1.0))


def _thresholded_relu(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    limit = nodes.constant("threshold", float(node.attrs.get("alpha", 1.0)))
    is_above = nodes.binary("Greater", x, limit, dtype=np.bool_)
    return nodes.add("Where", [is_above, x, nodes.constant("zero", 0.0)], nodes.shape(x), dtype=x.dtype)


def _shrink(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    """x + bias below -lambd, x - bias above lambd, else 0."""
    x, limit, bias = node.inputs[0], float(node.attrs.get("lambd", 0.5)), float(node.attrs.get("bias", 0.0))
    shape = nodes.shape(x)
    is_below = nodes.binary("Less", x, nodes.constant("low", -limit), dtype=np.bool_)
    is_above = nodes.binary("Greater", x, nodes.constant("high", limit), dtype=np.bool_)
    upper = nodes.add("Where", [is_above, nodes.shifted(x, -bias), nodes.constant("zero", 0.0)], shape, dtype=x.dtype)
    return nodes.add("Where", [is_below, nodes.shifted(x, bias), upper], shape, dtype=x.dtype)


def _log_softmax(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    axis = int(node.attrs.get("axis", -1)) % len(nodes.shape(x))
    shifted = nodes.binary("Sub", x, nodes.reduce("ReduceMax", x, [axis]))
    total = nodes.reduce("ReduceSum", nodes.unary("Exp", shifted), [axis])
    return nodes.binary("Sub", shifted, nodes.unary("Log", total))


FORMS: Mapping[str, Callable[[NewNodes, gs.Node], gs.Tensor | str]] = {
    "Celu": _celu,
    "Elu": _elu,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "LeakyRelu": _leaky_relu,
    "LogSoftmax": _log_softmax,
    "Mish": _mish,
    "PRelu": _prelu,
    "Selu": _selu,
    "Shrink": _shrink,
    "Softplus": _softplus,
    "Softsign": _softsign,
    "ThresholdedRelu": _thresholded_relu,
}

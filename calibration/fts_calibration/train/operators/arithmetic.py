"""Element by element: arithmetic, comparison, logic, with numpy's broadcasting.

Source: ONNX specification, the operator's own page. Integers divide towards zero; a power has the type of its base.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor

from fts_calibration.train.operators.node import Node, Run


def _plain(function: Callable[..., Tensor]) -> Callable[[Node], Run]:
    return lambda node: function


def _chain(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Node], Run]:
    """Any number of inputs."""
    return lambda node: lambda *tensors: reduce(function, tensors)


def _mean(node: Node) -> Run:
    return lambda *tensors: reduce(torch.add, tensors) / len(tensors)


def _div(a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _pow(base: Tensor, exponent: Tensor) -> Tensor:
    return torch.pow(base, exponent).to(base.dtype)


def _mod(node: Node) -> Run:
    """fmod=1 has the sign of the dividend, otherwise that of the divisor."""
    run: Run = torch.fmod if node.integer("fmod", 0) else torch.remainder
    return run


def _is_inf(node: Node) -> Run:
    is_negative, is_positive = node.integer("detect_negative", 1), node.integer("detect_positive", 1)

    def run(x: Tensor) -> Tensor:
        found = torch.isinf(x)
        found = found if is_negative else found & (x > 0)
        return found if is_positive else found & (x < 0)

    return run


OPERATORS: dict[str, Callable[[Node], Run]] = {
    "Add": _plain(torch.add),
    "Sub": _plain(torch.sub),
    "Mul": _plain(torch.mul),
    "Div": _plain(_div),
    "Pow": _plain(_pow),
    "Mod": _mod,
    "Min": _chain(torch.minimum),
    "Max": _chain(torch.maximum),
    "Sum": _chain(torch.add),
    "Mean": _mean,
    "Abs": _plain(torch.abs),
    "Neg": _plain(torch.neg),
    "Sign": _plain(torch.sign),
    "Exp": _plain(torch.exp),
    "Log": _plain(torch.log),
    "Sqrt": _plain(torch.sqrt),
    "Reciprocal": _plain(torch.reciprocal),
    "Erf": _plain(torch.erf),
    "Floor": _plain(torch.floor),
    "Ceil": _plain(torch.ceil),
    "Round": _plain(torch.round),
    "Sin": _plain(torch.sin),
    "Cos": _plain(torch.cos),
    "Tan": _plain(torch.tan),
    "Asin": _plain(torch.asin),
    "Acos": _plain(torch.acos),
    "Atan": _plain(torch.atan),
    "Sinh": _plain(torch.sinh),
    "Cosh": _plain(torch.cosh),
    "Equal": _plain(torch.eq),
    "Less": _plain(torch.lt),
    "LessOrEqual": _plain(torch.le),
    "Greater": _plain(torch.gt),
    "GreaterOrEqual": _plain(torch.ge),
    "Not": _plain(torch.logical_not),
    "And": _plain(torch.logical_and),
    "Or": _plain(torch.logical_or),
    "Xor": _plain(torch.logical_xor),
    "IsNaN": _plain(torch.isnan),
    "IsInf": _is_inf,
    "Where": _plain(torch.where),
}

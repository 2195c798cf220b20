"""Matrix products.

Source: ONNX specification, Gemm-13, MatMul-13, Einsum-12.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fts_calibration.train.operators.node import Node, Run


def _gemm(node: Node) -> Run:
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    is_a_transposed, is_b_transposed = bool(node.integer("transA", 0)), bool(node.integer("transB", 0))

    def run(a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
        y = (a.T if is_a_transposed else a) @ (b.T if is_b_transposed else b)
        y = y if alpha == 1.0 else alpha * y
        return y if c is None else y + (c if beta == 1.0 else beta * c)

    return run


def _matmul(node: Node) -> Run:
    return lambda a, b: torch.matmul(a, b)


def _einsum(node: Node) -> Run:
    equation = node.text("equation")
    return lambda *tensors: torch.einsum(equation, *tensors)


OPERATORS = {"Gemm": _gemm, "MatMul": _matmul, "Einsum": _einsum}

"""Multiply-accumulates of a node: the four operators that count, from their output and weight shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

MAC_OPS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


def macs_of(
    op_type: str, inputs: Sequence[Sequence[int]], output: Sequence[int], attributes: Mapping[str, object]
) -> int:
    """Multiply-accumulates of one inference.

    Args:
        op_type: ONNX operator; any but the four counts 0.
        inputs: Static shapes of the inputs, at least data and weight.
        output: Static shape of the output.
        attributes: The node's attributes (transA of Gemm is read).

    Source:
        Conv: each output element sums over (in / group) * kernel = prod(weight.shape[1:]).
        ConvTranspose: each input element is spread over (out / group) * kernel = prod(weight.shape[1:]).
        Gemm, MatMul: each output element sums over the inner dimension.
    """
    if op_type == "Conv":
        return prod(output) * prod(inputs[1][1:])
    if op_type == "ConvTranspose":
        return prod(inputs[0]) * prod(inputs[1][1:])
    if op_type == "Gemm":
        inner = inputs[0][0] if attributes.get("transA") else inputs[0][1]
        return prod(output) * int(inner)
    if op_type == "MatMul":
        return prod(output) * int(inputs[0][-1])
    return 0

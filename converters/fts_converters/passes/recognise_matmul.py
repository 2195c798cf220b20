"""A product summed over one axis becomes a MatMul.

    ReduceSum(Mul(Unsqueeze(x (K,), axis 1), W (K, N)), axis 0, keepdims 0)  =  MatMul(x, W)  (N,)

This is how style and condition vectors are mixed in nets that blend several styles. Requires: x of rank 1, W a constant of
rank 2, the product read by the sum alone.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_editing import finish, replace_by
from fts_converters.passes.graph_reading import constant, only_reader, producer, reduce_axes, static_shape


def recognise_matmul(model: Model) -> PassResult:
    """One MatMul for each such sum."""
    graph = model.graph
    is_changed = False
    for node in list(graph.nodes):
        operands = _operands(graph, node, model.opset)
        if operands is not None:
            replace_by(graph, node, "MatMul", list(operands))
            is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed)


def _operands(graph: gs.Graph, node: gs.Node, opset: int) -> tuple[gs.Tensor, gs.Tensor] | None:
    if node.op != "ReduceSum" or node.domain or node.attrs.get("keepdims", 1) or reduce_axes(node, opset) != (0,):
        return None
    product = producer(node.inputs[0], "Mul")
    if product is None or only_reader(graph, product.outputs[0]) is not node:
        return None
    for column, weight in (product.inputs, reversed(product.inputs)):
        vector = _vector_behind(column)
        values = constant(weight)
        if vector is None or values is None or values.ndim != 2 or len(values) == 1:
            continue
        if static_shape(vector) == (values.shape[0],):
            return vector, weight
    return None


def _vector_behind(tensor: gs.Tensor) -> gs.Tensor | None:
    """x (K,) when the tensor is x as a column (K, 1)."""
    shape = static_shape(tensor)
    for op in ("Unsqueeze", "Reshape"):
        node = producer(tensor, op)
        if node is not None and shape is not None and len(shape) == 2 and shape[1] == 1:
            source = static_shape(node.inputs[0])
            return node.inputs[0] if source == shape[:1] else None
    return None

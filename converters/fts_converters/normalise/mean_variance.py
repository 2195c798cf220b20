"""MeanVarianceNormalization of opset 13 is written out: shape inference of onnx 1.23 fails on its own definition of it.

    y = (x - E[x]) / (sqrt(E[x^2] - E[x]^2) + 1e-9)

Source: onnx Operators.md, MeanVarianceNormalization-13, function body.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from fts_converters.fresh_names import FreshNames
from fts_converters.tensor_types import graphs, scopes

PARTS = (
    "axes",
    "epsilon",
    "mean",
    "mean_squared",
    "squared",
    "square_mean",
    "variance",
    "deviation",
    "raised",
    "centred",
)


def write_out_mean_variance(model: onnx.ModelProto) -> None:
    """Replaces each such node of opset 13 and newer, in place."""
    opset = next((o.version for o in model.opset_import if not o.domain), 0)
    if opset < 13 or not any(_is_one(node) for graph in graphs(model.graph) for node in graph.node):
        return
    names = FreshNames(model.graph)
    for scope in scopes(model):
        graph = scope.graph
        for position, node in reversed(list(enumerate(graph.node))):
            if _is_one(node):
                elem = scope.types.get(node.input[0], onnx.TensorProto.FLOAT)
                new = _written_out(node, names, opset, helper.tensor_dtype_to_np_dtype(elem))
                del graph.node[position]
                for offset, made in enumerate(new):
                    graph.node.insert(position + offset, made)


def _is_one(node: onnx.NodeProto) -> bool:
    return node.op_type == "MeanVarianceNormalization" and not node.domain


def _written_out(
    node: onnx.NodeProto, names: FreshNames, opset: int, dtype: np.dtype[np.generic]
) -> list[onnx.NodeProto]:
    axes = next((list(a.ints) for a in node.attribute if a.name == "axes"), [0, 2, 3])
    x, y = node.input[0], node.output[0]
    n = {part: names.take(f"{y}_{part}") for part in PARTS}
    given: dict[str, Any] = {"axes": axes} if opset < 18 else {}
    more = [] if opset < 18 else [n["axes"]]  # axes are an operand since 18
    made = [_number(n["epsilon"], np.array(1e-9, dtype))] + [_number(a, np.array(axes, np.int64)) for a in more]
    return [
        *made,
        helper.make_node("ReduceMean", [x, *more], [n["mean"]], keepdims=1, **given),
        helper.make_node("Mul", [n["mean"], n["mean"]], [n["mean_squared"]]),
        helper.make_node("Mul", [x, x], [n["squared"]]),
        helper.make_node("ReduceMean", [n["squared"], *more], [n["square_mean"]], keepdims=1, **given),
        helper.make_node("Sub", [n["square_mean"], n["mean_squared"]], [n["variance"]]),
        helper.make_node("Sqrt", [n["variance"]], [n["deviation"]]),
        helper.make_node("Add", [n["deviation"], n["epsilon"]], [n["raised"]]),
        helper.make_node("Sub", [x, n["mean"]], [n["centred"]]),
        helper.make_node("Div", [n["centred"], n["raised"]], [y], name=node.name),
    ]


def _number(name: str, value: npt.NDArray[np.generic]) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))

"""Random graphs in float16 or float64: those of `random_graphs`, with float32 declared as the other type.

What the standard wants in float32 (scales and regions of Resize) keeps its type. Not every graph survives that: an operator
may not take the type, or onnxruntime may have no kernel; `retyped` gives None for these.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tests.generators.random_graphs import Case, random_graph
from tests.generators.run_plain import run_plain

# Operator -> positions of inputs that are float32 whatever the data is.
FLOAT32_INPUTS = {"Resize": (1, 2), "Upsample": (1,)}


def retyped(seed: int, elem_type: int, *, has_to_run: bool = True) -> Case | None:
    """The case of a seed in another float type, or None.

    Args:
        seed: Of `random_graph`.
        elem_type: TensorProto.FLOAT16 or DOUBLE.
        has_to_run: None where onnxruntime cannot run it, and not only where it is invalid.
    """
    case = random_graph(seed)
    model = ModelProto()
    model.CopyFrom(case.model)
    dtype = helper.tensor_dtype_to_np_dtype(elem_type)
    kept = {
        n.input[i]
        for g in _graphs(model.graph)
        for n in g.node
        for i in FLOAT32_INPUTS.get(n.op_type, ())
        if i < len(n.input)
    }
    for graph in _graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            tensor = value.type.tensor_type
            if tensor.elem_type == TensorProto.FLOAT and value.name not in kept:
                tensor.elem_type = elem_type
        for constant in graph.initializer:
            if constant.data_type == TensorProto.FLOAT and constant.name not in kept:
                constant.CopyFrom(_cast(constant, dtype))
        for node in graph.node:
            if node.output and node.output[0] in kept:
                continue
            for a in node.attribute:
                if a.name in ("to", "dtype") and a.i == TensorProto.FLOAT:
                    a.i = elem_type
                if a.HasField("t") and a.t.data_type == TensorProto.FLOAT:
                    a.t.CopyFrom(_cast(a.t, dtype))
    feeds = {n: a.astype(dtype) if a.dtype == np.float32 else a for n, a in case.feeds.items()}
    try:
        onnx.checker.check_model(model, full_check=True)
        if has_to_run:
            run_plain(model, feeds)
    except Exception:  # noqa: BLE001 - onnxruntime's exceptions share no root; such a graph is no case
        return None
    return Case(model=model, feeds=feeds, ops=case.ops, opset=case.opset, seed=seed, patterns=case.patterns)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for a in node.attribute:
            if a.HasField("g"):
                yield from _graphs(a.g)


def _cast(tensor: TensorProto, dtype: np.dtype[np.generic]) -> TensorProto:
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(dtype), tensor.name)

"""Least variance that a norm sees in its input, over a data set: what decides how much its epsilon weighs.

Computed by the graph itself (two ReduceMean behind the tensor, the second over the squared differences, so that a large
mean takes no digits), so that no activation leaves the engine; the least over samples does not depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from fts.engines.onnxruntime_session import open_session

Feed = Mapping[str, npt.NDArray[np.generic]]


def least_norm_variances(
    model: onnx.ModelProto, feeds: Iterable[Feed], views: Mapping[str, tuple[int, int]]
) -> dict[str, npt.NDArray[np.float64]]:
    """Run the FP32 net over the feeds.

    Args:
        model: FP32 net; not modified.
        feeds: Input name to array, one sample at a time.
        views: Tensor to (lead, G): seen as (lead, G, rest) it has one deviation for each (lead, group).

    Returns:
        Tensor to (G,) least variance of each group over `lead` and all samples; 0 samples give an empty mapping.
    """
    if not views:
        return {}
    session = open_session(_with_variances(model, views).SerializeToString())
    least: dict[str, npt.NDArray[np.float64]] = {}
    for feed in feeds:
        watched = session.run(dict(feed))[len(model.graph.output) :]
        for (name, (_, groups)), value in zip(views.items(), watched, strict=True):
            rows = np.asarray(value, np.float64).reshape(-1, groups).min(axis=0)
            least[name] = np.minimum(least[name], rows) if name in least else rows
    return least


def _with_variances(model: onnx.ModelProto, views: Mapping[str, tuple[int, int]]) -> onnx.ModelProto:
    """The model with one more output a tensor."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    graph = watched.graph
    opset = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    taken = {name for n in graph.node for name in (*n.input, *n.output)} | {t.name for t in graph.initializer}

    def fresh(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    def constant(name: str, values: list[int]) -> str:
        graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), fresh(name)))
        return str(graph.initializer[-1].name)

    def add(op_type: str, inputs: list[str], name: str, **attributes: Any) -> str:
        graph.node.append(helper.make_node(op_type, inputs, [fresh(name)], **attributes))
        return str(graph.node[-1].output[0])

    def mean(tensor: str, name: str) -> str:
        if opset >= 18:  # from opset 18 on the axes are an input
            return add("ReduceMean", [tensor, axes], name)
        return add("ReduceMean", [tensor], name, axes=[2])

    axes = constant("variance_axes", [2])
    for position, (tensor, (lead, groups)) in enumerate(views.items()):
        shape = constant(f"variance_{position}_shape", [lead, groups, -1])
        seen = add("Reshape", [tensor, shape], f"variance_{position}_view")
        centred = add("Sub", [seen, mean(seen, f"variance_{position}_mean")], f"variance_{position}_centred")
        square = add("Mul", [centred, centred], f"variance_{position}_square")
        result = mean(square, f"variance_{position}")
        graph.output.append(helper.make_tensor_value_info(result, TensorProto.FLOAT, None))
    return watched

"""Reading an onnx-graphsurgeon graph: constants, readers, who else depends on a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs


def constant(tensor: gs.Tensor | None) -> npt.NDArray[Any] | None:
    """Value of a constant tensor, of an initializer or a Constant node; None for anything else."""
    if isinstance(tensor, gs.Constant):
        return np.asarray(tensor.values)
    if tensor is not None and len(tensor.inputs) == 1 and tensor.inputs[0].op == "Constant":
        value = tensor.inputs[0].attrs.get("value")
        return None if value is None else np.asarray(value.values)
    return None


def scalar(tensor: gs.Tensor | None) -> float | None:
    """Value of a constant with a single element."""
    value = constant(tensor)
    return float(value.reshape(()).item()) if value is not None and value.size == 1 else None


def producer(tensor: gs.Tensor | None, op: str) -> Any:
    """The node that makes a tensor, when it is of this operator of the default domain."""
    if tensor is None or len(tensor.inputs) != 1:
        return None
    node = tensor.inputs[0]
    return node if node.op == op and not node.domain else None


def own_nodes(graph: gs.Graph) -> frozenset[int]:
    """Identities of a graph's own nodes; who reads its tensors may also stand in a subgraph. Made once a pass."""
    return frozenset(id(node) for node in graph.nodes)


def is_output(graph: gs.Graph, tensor: gs.Tensor) -> bool:
    """True when the tensor is an output of this graph."""
    return any(o is tensor for o in graph.outputs)


def only_reader(graph: gs.Graph, tensor: gs.Tensor) -> Any:
    """The node that alone reads a tensor, once; None when there are others or it is a graph output."""
    if len(tensor.outputs) != 1 or is_output(graph, tensor):
        return None
    reader = tensor.outputs[0]
    return reader if sum(i is tensor for i in reader.inputs) == 1 else None


def is_only_read_by(graph: gs.Graph, tensor: gs.Tensor, nodes: list[gs.Node]) -> bool:
    """True when every reader of a tensor is among `nodes` and it is no graph output."""
    return not is_output(graph, tensor) and all(any(r is n for n in nodes) for r in tensor.outputs)


def label(node: gs.Node) -> str:
    """Name for a refusal."""
    return str(node.name or (node.outputs[0].name if node.outputs else node.op))


def rank(tensor: gs.Tensor) -> int | None:
    """Number of axes, None when unknown."""
    return None if tensor.shape is None else len(tensor.shape)


def static_shape(tensor: gs.Tensor) -> tuple[int, ...] | None:
    """Shape when every size is a known number."""
    if tensor.shape is None or not all(isinstance(d, int | np.integer) and d >= 0 for d in tensor.shape):
        return None
    return tuple(int(d) for d in tensor.shape)


def reduce_axes(node: gs.Node, opset: int, data_rank: int | None = None) -> tuple[int, ...] | None:
    """Axes of a Reduce node as non-negative numbers, from the attribute or the input; None when unknown.

    Args:
        node: The node.
        opset: Of the default domain.
        data_rank: Axes of its data, where the caller knows more than the graph has stored.

    Source: ONNX operator specification: axes became an input with ReduceSum-13 and the other reductions with 18.
    """
    data_rank = rank(node.inputs[0]) if data_rank is None else data_rank
    if data_rank is None:
        return None
    if len(node.inputs) > 1 and not (isinstance(node.inputs[1], gs.Variable) and node.inputs[1].is_empty()):
        value = constant(node.inputs[1])
        if value is None:
            return None
        axes = [int(a) for a in value.reshape(-1)]
    else:
        axes = [int(a) for a in node.attrs.get("axes", [])]
    if not axes:
        return () if node.attrs.get("noop_with_empty_axes") else tuple(range(data_rank))
    return tuple(sorted(a % data_rank for a in axes))

"""Facts of the FP32 net that say which part of it has to run again when one tensor changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper


class FloatNet:
    """Who depends on whom, what has which size, what costs what. Read-only.

    Attributes:
        model: The net, with shapes inferred and nodes in order.
        inputs: Names of the inputs that are no initializers.
        outputs: Names of the outputs.
        macs: Node name to its multiply-accumulates.
    """

    def __init__(self, model: onnx.ModelProto, macs: Mapping[str, int]) -> None:
        graph = model.graph
        constants = {t.name for t in graph.initializer}
        self.model = model
        self.macs = macs
        self.inputs = tuple(v.name for v in graph.input if v.name not in constants)
        self.outputs = tuple(v.name for v in graph.output)
        self.types = {v.name: v for v in (*graph.value_info, *graph.input, *graph.output) if v.name not in constants}
        self.producer = {name: node.name for node in graph.node for name in node.output if name}
        self._reads = [frozenset(names_read(node)) for node in graph.node]
        self._place = {node.name: place for place, node in enumerate(graph.node)}
        self._last_read = {name: place for place, names in enumerate(self._reads) for name in names}
        self._made_at = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
        self._made_at.update(dict.fromkeys(self.inputs, -1))

    @property
    def total_macs(self) -> int:
        """Of one inference, at least 1."""
        return sum(self.macs.values()) or 1

    def place(self, unit: str) -> int:
        """Place of a node in the graph's order."""
        return self._place[unit]

    def behind(self, unit: str) -> frozenset[str]:
        """All tensors that depend on what a node computes, with its own outputs."""
        begin = self._place[unit]
        found = {name for name in self.model.graph.node[begin].output if name}
        for place in range(begin + 1, len(self._reads)):
            if found & self._reads[place]:
                found.update(o for o in self.model.graph.node[place].output if o)
        return frozenset(found)

    def first_behind(self, tensor: str) -> str:
        """What the first reader of a tensor makes of it."""
        place = next(place for place, names in enumerate(self._reads) if tensor in names)
        return str(self.model.graph.node[place].output[0])

    def crossing(self, place: int) -> Iterator[str]:
        """Tensors made in front of a place that it or a node behind it reads, in the order in which they are made."""
        for name, made_at in sorted(self._made_at.items(), key=lambda entry: entry[1]):
            if made_at < place <= self._last_read.get(name, -1) and self._has_element_type(name):
                yield name

    def size_bytes(self, tensor: str) -> int:
        """Of one sample; a tensor of unknown shape counts as nothing."""
        kind = self.types[tensor].type.tensor_type
        dims = [d.dim_value for d in kind.shape.dim]
        item_bytes: int = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type)).itemsize
        return int(prod(dims)) * item_bytes

    def _has_element_type(self, name: str) -> bool:
        kind = self.types[name].type if name in self.types else None
        return kind is not None and kind.tensor_type.elem_type not in (TensorProto.UNDEFINED, TensorProto.STRING)


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Tensors that a node reads, its subgraphs included; names of a subgraph's own tensors are among them."""
    yield from (name for name in node.input if name)
    for graph in _subgraphs(node):
        for inner in graph.node:
            yield from names_read(inner)
        yield from (o.name for o in graph.output)


def part_of(
    model: onnx.ModelProto, outputs: Iterable[onnx.ValueInfoProto], given: Iterable[onnx.ValueInfoProto]
) -> onnx.ModelProto:
    """The part of a net that computes some tensors from others.

    Args:
        model: The net, nodes in order.
        outputs: Tensors wanted, in this order.
        given: Tensors at which the part begins; those that it reads become its inputs, in this order.

    Returns:
        A net that shares nothing with `model`.
    """
    graph = model.graph
    starts = {value.name: value for value in given}
    wanted = list(outputs)
    needed, nodes = {value.name for value in wanted}, []
    for node in reversed(graph.node):
        if needed & set(node.output):
            nodes.append(node)
            needed.update(name for name in names_read(node) if name not in starts)
    read = {name for node in nodes for name in names_read(node)}
    part = helper.make_graph(
        nodes[::-1],
        graph.name,
        [value for name, value in starts.items() if name in read],
        wanted,
        [t for t in graph.initializer if t.name in read],
    )
    cut = helper.make_model(part, opset_imports=list(model.opset_import), functions=list(model.functions))
    cut.ir_version = model.ir_version
    return cut


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs

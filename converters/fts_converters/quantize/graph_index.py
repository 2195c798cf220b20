"""Who makes and who reads each tensor of a ModelProto, and what is known about it. Read-only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx
from onnx import helper, numpy_helper, shape_inference

from fts_converters.light_proto import Array, LightProto
from fts_converters.model import dtype_name


class GraphIndex:
    """An index over the top-level graph of a model whose nodes all have unique names.

    Attributes:
        model: The model with shapes inferred; do not change it.
        weights: Values of those initializers that hold none themselves.
        producers: Tensor name to the node that makes it.
        readers: Tensor name to the top-level nodes that read it, once per reading input.
        captured: Tensors that a subgraph (If, Loop, Scan) reads.
        names: Every tensor name in use, subgraphs included: a new tensor must not shadow one of theirs.
        outputs: Names of the graph outputs.
        initializers: Name to TensorProto, which may be a placeholder: `array` and `tensor` give values.
    """

    def __init__(self, model: onnx.ModelProto, weights: Mapping[str, Array] | None = None) -> None:
        self.weights: Mapping[str, Array] = weights or {}
        self.model = shape_inference.infer_shapes(model, data_prop=True)
        graph = self.model.graph
        self.producers = {name: node for node in graph.node for name in node.output if name}
        self.readers: dict[str, list[onnx.NodeProto]] = {}
        self.captured: set[str] = set()
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
            self.captured.update(_names_read_in_subgraphs(node))
        self.outputs = {o.name for o in graph.output}
        self.initializers = {t.name: t for t in graph.initializer}
        self.names = set(_all_names(graph))
        self._types = {v.name: v.type.tensor_type for v in (*graph.input, *graph.value_info, *graph.output)}

    def is_constant(self, name: str) -> bool:
        """True for initializers."""
        return name in self.initializers

    def dtype(self, name: str) -> str | None:
        """numpy dtype name, None when unknown."""
        if name in self.initializers:
            return dtype_name(self.initializers[name].data_type)
        tensor = self._types.get(name)
        return dtype_name(tensor.elem_type) if tensor is not None and tensor.elem_type else None

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Static shape, None when any dimension is unknown."""
        if name in self.initializers:
            return tuple(self.initializers[name].dims)
        tensor = self._types.get(name)
        if tensor is None or not tensor.HasField("shape"):
            return None
        dims = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        return None if any(d is None for d in dims) else tuple(int(d or 0) for d in dims)

    def array(self, name: str):  # type: ignore[no-untyped-def]
        """Value of an initializer as a numpy array."""
        return self.weights[name] if name in self.weights else numpy_helper.to_array(self.initializers[name])

    def tensor(self, name: str) -> onnx.TensorProto:
        """An initializer with its value in it."""
        return numpy_helper.from_array(self.weights[name], name) if name in self.weights else self.initializers[name]

    @property
    def net(self) -> LightProto:
        """Model and weights together."""
        return LightProto(proto=self.model, weights=self.weights)

    def only_reader(self, name: str) -> onnx.NodeProto | None:
        """The single node that reads a tensor, when nobody else (output, subgraph) does."""
        readers = self.readers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self.outputs and name not in self.captured else None


def attributes_of(node: onnx.NodeProto) -> dict[str, object]:
    """Attribute name to Python value."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _names_read_in_subgraphs(node: onnx.NodeProto) -> Iterator[str]:
    for graph in _subgraphs(node):
        for inner in graph.node:
            yield from inner.input
            yield from _names_read_in_subgraphs(inner)
        yield from (o.name for o in graph.output)


def _all_names(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (value.name for value in (*graph.input, *graph.output, *graph.initializer))
    for node in graph.node:
        yield from (*node.input, *node.output)
        for inner in _subgraphs(node):
            yield from _all_names(inner)

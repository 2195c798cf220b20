"""Element types of all tensors of a net, those of its subgraphs too.

What onnx infers; where it does not (behind GroupNormalization of opset 18, say), what an operator's schema declares; and
for operators without one (com.microsoft): outputs have the type of the first input.
Weights are left out of what is handed to onnx, so that this works on nets above protobuf's 2 GiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx
from onnx import defs, shape_inference

# Constants up to this many elements may say a shape, and stay.
MOST_ELEMENTS = 256


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scope:
    """One graph of a net, the main one or a subgraph.

    Attributes:
        graph: The net's own graph, not a copy.
        types: Element type (`onnx.TensorProto.DataType`) of each tensor that a node here can read or makes; that of the
            elements where it is a sequence or optional. Tensors of unknown type are missing.
        outer: The graphs around it, the nearest first.
    """

    graph: onnx.GraphProto
    types: Mapping[str, int]
    outer: tuple[onnx.GraphProto, ...] = ()


def scopes(model: onnx.ModelProto) -> list[Scope]:
    """The main graph first, each subgraph behind the one it stands in."""
    inferred = shape_inference.infer_shapes(without_weights(model), check_type=False, strict_mode=False)
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    return list(_walk(model.graph, inferred.graph, opset, {}, ()))


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Graphs among a node's attributes."""
    kinds = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
    return [g for a in node.attribute if a.type in kinds for g in ([a.g] if a.type == kinds[0] else a.graphs)]


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and all graphs in it."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from graphs(inner)


def element_type(value: onnx.TypeProto) -> int:
    """Element type of a tensor, sequence or optional; 0 when it is not declared."""
    kind = value.WhichOneof("value")
    if kind == "tensor_type":
        return int(value.tensor_type.elem_type)
    if kind in ("sequence_type", "optional_type"):
        return element_type(getattr(value, kind).elem_type)
    return 0


def _walk(
    graph: onnx.GraphProto,
    inferred: onnx.GraphProto,
    opset: int,
    visible: Mapping[str, int],
    outer: tuple[onnx.GraphProto, ...],
) -> Iterator[Scope]:
    types = dict(visible)
    types.update((t.name, t.data_type) for t in graph.initializer)
    types.update((s.values.name, s.values.data_type) for s in graph.sparse_initializer)
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        if found := element_type(value.type):
            types[value.name] = found
    for node in graph.node:
        for place, name in enumerate(node.output):
            if name and name not in types and (found := _declared_type(node, place, opset, types)):
                types[name] = found
    yield Scope(graph=graph, types=types, outer=outer)
    for node, same in zip(graph.node, inferred.node, strict=True):
        for inner, inner_inferred in zip(subgraphs(node), subgraphs(same), strict=True):
            yield from _walk(inner, inner_inferred, opset, types, (graph, *outer))


def _declared_type(node: onnx.NodeProto, place: int, opset: int, types: Mapping[str, int]) -> int:
    """Type of a node's output by its schema; 0 when that does not say."""
    first = types.get(node.input[0], 0) if node.input else 0
    if node.domain not in ("", "ai.onnx"):
        return first
    if node.op_type == "Cast":
        return next((int(a.i) for a in node.attribute if a.name == "to"), 0)
    if not defs.has(node.op_type, opset, ""):
        return 0
    schema = defs.get_schema(node.op_type, opset, "")
    declared = schema.outputs[min(place, len(schema.outputs) - 1)].type_str
    if declared.startswith("tensor("):
        return int(onnx.TensorProto.DataType.Value(declared[len("tensor(") : -1].upper()))
    for i, name in enumerate(node.input):
        if name in types and schema.inputs[min(i, len(schema.inputs) - 1)].type_str == declared:
            return types[name]
    return 0


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy that infers the same types, in which larger constants are inputs."""
    bare = onnx.ModelProto(ir_version=model.ir_version)
    bare.opset_import.extend(model.opset_import)
    graph = bare.graph
    graph.name = model.graph.name
    for field in ("node", "input", "output", "value_info"):
        getattr(graph, field).extend(getattr(model.graph, field))
    for tensor in model.graph.initializer:
        count = 1
        for n in tensor.dims:
            count *= n
        if count <= MOST_ELEMENTS:
            graph.initializer.append(tensor)
        else:
            graph.input.add(name=tensor.name).type.tensor_type.elem_type = tensor.data_type
    return bare

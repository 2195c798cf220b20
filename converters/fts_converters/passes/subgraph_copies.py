"""Copies of a subgraph's nodes in another graph, tensor by tensor, as unrolling needs them.

onnx-graphsurgeon's own `Graph.copy` goes by names and forgets that a tensor is a sequence; here identity decides, so that
outer tensors stay the very objects that they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx_graphsurgeon as gs

from fts_converters.passes.graph_editing import TensorNames, UnusedNames

# id of a tensor of the body -> what stands in its place in the copy
Places = dict[int, gs.Tensor]


def subgraphs_of(node: gs.Node) -> Iterator[gs.Graph]:
    """Graphs among a node's attributes."""
    for value in node.attrs.values():
        yield from (g for g in (value if isinstance(value, list) else [value]) if isinstance(g, gs.Graph))


def count_nodes(graph: gs.Graph) -> int:
    """Nodes of a graph and of all graphs in it."""
    return sum(1 + sum(map(count_nodes, subgraphs_of(node))) for node in graph.nodes)


def rename_constants(body: gs.Graph, home: gs.Graph, places: Places, names: TensorNames) -> None:
    """Constants of a body's own get names that are unused in `home`, once for all copies; they are added to `places`."""
    known = {id(t) for t in home.tensors(check_duplicates=False).values()}
    read = [*(t for node in body.nodes for t in node.inputs), *body.outputs]
    for tensor in read:
        if isinstance(tensor, gs.Constant) and id(tensor) not in known and id(tensor) not in places:
            # the values themselves: what was read lazily carries its name along when it is written
            places[id(tensor)] = names.constant(tensor.name, tensor.values)


def detach(nodes: list[gs.Node]) -> None:
    """Take copies that are not needed any more out of the reader lists of the tensors they read."""
    for node in nodes:
        for graph in subgraphs_of(node):
            detach(list(graph.nodes))
        node.inputs.clear()
        node.outputs.clear()


def copy_nodes(nodes: list[gs.Node], places: Places, names: TensorNames, node_names: UnusedNames) -> list[gs.Node]:
    """Copies in order; what a node makes gets an unused name and is added to `places`.

    Args:
        nodes: Of a body, in topological order.
        places: Tensors that are replaced; a tensor that is not in it is an outer one and stays.
        names: Of the graph that the copies go to.
        node_names: Likewise for nodes, which onnxruntime wants to have one of their own.
    """
    copies = []
    for node in nodes:
        outputs = []
        for tensor in node.outputs:
            copy = _fresh(tensor, names)
            places[id(tensor)] = copy
            outputs.append(copy)
        inputs = [places.get(id(t), t) for t in node.inputs]
        attrs = {key: _copy_value(value, places, names, node_names) for key, value in node.attrs.items()}
        name = node_names.unused(node.name) if node.name else ""
        copies.append(
            gs.Node(op=node.op, name=name, attrs=attrs, inputs=inputs, outputs=outputs, domain=node.domain or None)
        )
    return copies


def _fresh(tensor: gs.Tensor, names: TensorNames) -> gs.Variable:
    """Without a shape: it may be another one in each iteration."""
    if not tensor.name:
        return gs.Variable.empty()
    return gs.Variable(names.unused(tensor.name), dtype=tensor.dtype, type=getattr(tensor, "type", "tensor_type"))


def _copy_value(value: Any, places: Places, names: TensorNames, node_names: UnusedNames) -> Any:
    if isinstance(value, gs.Graph):
        return _copy_graph(value, places, names, node_names)
    if isinstance(value, list):
        return [_copy_value(v, places, names, node_names) for v in value]
    return value


def _copy_graph(graph: gs.Graph, outer: Places, names: TensorNames, node_names: UnusedNames) -> gs.Graph:
    places = dict(outer)
    inputs = []
    for tensor in graph.inputs:
        copy = _fresh(tensor, names)
        copy.shape = tensor.shape
        places[id(tensor)] = copy
        inputs.append(copy)
    nodes = copy_nodes(list(graph.nodes), places, names, node_names)
    outputs = []
    for tensor in graph.outputs:
        copy = places.get(id(tensor), tensor)
        if isinstance(copy, gs.Variable) and copy.shape is None and isinstance(tensor, gs.Variable):
            copy.shape = tensor.shape
        outputs.append(copy)
    return gs.Graph(
        nodes=nodes,
        inputs=inputs,
        outputs=outputs,
        name=graph.name,
        opset=graph.opset,
        import_domains=graph.import_domains,
        ir_version=graph.ir_version,
    )

"""Nodes stand behind what they read.

The standard demands it and onnxruntime does not, so that nets edited by hand may be out of order. The order changes only
where it has to: a node moves behind the last one that it waits for.
"""

from __future__ import annotations

from collections import defaultdict, deque

import onnx

from fts_converters.tensor_types import graphs, subgraphs


def sort_nodes(model: onnx.ModelProto) -> None:
    """Sorts each graph in place; one with a cycle is left for the checker to refuse."""
    for graph in list(graphs(model.graph)):
        order = _order(graph)
        if order is not None and order != list(range(len(order))):
            nodes = [graph.node[i] for i in order]
            copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
            del graph.node[:]
            graph.node.extend(copies)


def _order(graph: onnx.GraphProto) -> list[int] | None:
    """Positions in the new order, or None where there is none."""
    makers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    waits: dict[int, set[int]] = {}
    readers: dict[int, list[int]] = defaultdict(list)
    for i, node in enumerate(graph.node):
        waits[i] = {makers[name] for name in _read(node) if name in makers}
        for maker in waits[i]:
            readers[maker].append(i)
    order: list[int] = []
    done: set[int] = set()
    for i in range(len(graph.node)):
        ready = deque([i] if i not in done and not waits[i] else [])
        while ready:
            now = ready.popleft()
            order.append(now)
            done.add(now)
            for reader in readers[now]:
                waits[reader].discard(now)
                if not waits[reader] and reader < i:  # it was passed over, and has waited for this
                    ready.append(reader)
    return order if len(order) == len(graph.node) else None


def _read(node: onnx.NodeProto) -> list[str]:
    """What a node reads, its subgraphs' readings of outer tensors included."""
    inner = [name for g in subgraphs(node) for n in g.node for name in _read(n)]
    inner += [o.name for g in subgraphs(node) for o in g.output]
    return [*node.input, *inner]

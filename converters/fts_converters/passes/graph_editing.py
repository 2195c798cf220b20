"""Changing an onnx-graphsurgeon graph: redirecting readers, replacing a group of nodes by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.passes.graph_reading import is_output


def redirect_readers(old: gs.Tensor, new: gs.Tensor) -> None:
    """Let every node that reads `old` (subgraphs included) read `new`; graph outputs are not touched."""
    for reader in list(old.outputs):
        for position, tensor in enumerate(reader.inputs):
            if tensor is old:
                reader.inputs[position] = new


def bypass(graph: gs.Graph, node: gs.Node, source: gs.Tensor | None = None) -> bool:
    """Remove a node whose only output equals one of its inputs.

    Args:
        graph: The graph that the node is in.
        node: A node with one output.
        source: The tensor that the output equals; the first input when None.

    Returns:
        False when the output is a graph output and has to be written by this very node: its source is an input of the
        graph, a constant, an output too, or made in another graph.
    """
    source = node.inputs[0] if source is None else source
    result = node.outputs[0]
    if is_output(graph, result):
        maker = source.inputs[0] if len(source.inputs) == 1 else None
        if maker is None or is_output(graph, source) or not any(maker is n for n in graph.nodes):
            return False
        # The maker takes over the output's name; other readers of the source read the output.
        position = next(i for i, t in enumerate(maker.outputs) if t is source)
        node.outputs.clear()
        redirect_readers(source, result)
        maker.outputs[position] = result
        node.inputs.clear()
        return True
    redirect_readers(result, source)
    node.outputs.clear()
    node.inputs.clear()
    return True


def replace_by(
    graph: gs.Graph,
    last: gs.Node,
    op: str,
    inputs: list[gs.Tensor],
    attrs: Mapping[str, Any] | None = None,
) -> gs.Node:
    """Put a new node in the place of the last node of a group; what only the group needed dies in `finish`.

    Args:
        graph: The graph that the group is in.
        last: Node with one output, which the new node writes from now on.
        op: Operator of the new node, default domain.
        inputs: Its inputs.
        attrs: Its attributes.
    """
    output = last.outputs[0]
    last.outputs.clear()
    node = gs.Node(op=op, name=last.name, attrs=dict(attrs or {}), inputs=inputs, outputs=[output])
    last.inputs.clear()
    graph.nodes.append(node)
    return node


def finish(graph: gs.Graph) -> None:
    """Drop what nothing needs any more and restore topological order; once at the end of a pass that changed things."""
    graph.cleanup(remove_unused_graph_inputs=False).toposort()


class UnusedNames:
    """Gives names that are not taken yet."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._last: dict[str, int] = {}

    def unused(self, stem: str) -> str:
        """`stem`, or `stem#2`, `stem#3` … when that is taken."""
        name, count = stem, self._last.get(stem, 1)
        while name in self._taken:
            count += 1
            name = f"{stem}#{count}"
        self._last[stem] = count
        self._taken.add(name)
        return name


class TensorNames(UnusedNames):
    """Gives names that no tensor of the graph and its subgraphs and no node has; made once a pass: it looks at all of them."""

    def __init__(self, graph: gs.Graph) -> None:
        super().__init__(set())
        self._take(graph)

    def _take(self, graph: gs.Graph) -> None:
        self._taken.update(graph.tensors(check_duplicates=False))
        self._taken.update(node.name for node in graph.nodes)
        for node in graph.nodes:
            for value in node.attrs.values():
                for inner in value if isinstance(value, list) else [value]:
                    if isinstance(inner, gs.Graph):
                        self._take(inner)

    def constant(self, stem: str, values: npt.NDArray[Any]) -> gs.Constant:
        """A new initializer."""
        return gs.Constant(self.unused(stem), np.asarray(values, order="C"))  # ascontiguousarray gives scalars an axis

    def variable(self, stem: str, like: gs.Tensor, shape: Any = None) -> gs.Variable:
        """A new tensor of another's type."""
        return gs.Variable(self.unused(stem), dtype=like.dtype, shape=shape)

"""Names that no tensor or node of a net has yet."""

from __future__ import annotations

import onnx

from fts_converters.tensor_types import graphs


class FreshNames:
    """Hands out each name once.

    Args:
        graph: Main graph; the names in its subgraphs are taken too.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._taken: set[str] = set()
        for inner in graphs(graph):
            self._taken.update(v.name for v in (*inner.input, *inner.output, *inner.initializer, *inner.value_info))
            self._taken.update(s.values.name for s in inner.sparse_initializer)
            for node in inner.node:
                self._taken.update((node.name, *node.input, *node.output))

    def take(self, stem: str) -> str:
        """`stem`, or `stem` with the first number that makes it new."""
        name, number = stem, 1
        while name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._taken.add(name)
        return name

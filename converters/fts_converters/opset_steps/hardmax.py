"""Hardmax before opset 13 works on a matrix: all axes before `axis` are rows, all from it on are columns.

Since 13 it works along one axis. On the matrix itself both say the same:  y = Reshape(Hardmax(Flatten(x, axis)), Shape(x))

Source: onnx Changelog.md, Hardmax-1, -11 and -13.
"""

from __future__ import annotations

from onnx import helper

from fts_converters.fresh_names import FreshNames
from fts_converters.tensor_types import Scope


def flatten_around_hardmax(scope: Scope, names: FreshNames, opset: int) -> None:
    """Changes every Hardmax of a graph in place."""
    graph = scope.graph
    for position, node in reversed(list(enumerate(graph.node))):
        if node.op_type != "Hardmax" or node.domain:
            continue
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        x, y = node.input[0], node.output[0]
        rows, shape, made = (names.take(f"{y}_{part}") for part in ("rows", "shape", "made"))
        del node.attribute[:]
        node.attribute.append(helper.make_attribute("axis", 1))
        node.input[0], node.output[0] = rows, made
        graph.node.insert(position + 1, helper.make_node("Reshape", [made, shape], [y]))
        graph.node.insert(position, helper.make_node("Shape", [x], [shape]))
        graph.node.insert(position, helper.make_node("Flatten", [x], [rows], axis=axis))

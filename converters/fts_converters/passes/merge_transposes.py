"""Two permutations, casts or reshapes in a row become one.

    Transpose(q) after Transpose(p) = Transpose(p[q]);  Reshape after Reshape, Flatten, Squeeze or Unsqueeze = Reshape

Requires: the value between the two is read by the second alone; for Reshape, a static result. Casts are merged only when
the first one loses nothing (integer to a wider integer or to a float whose mantissa holds it, float32 to float64).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_editing import TensorNames, finish
from fts_converters.passes.graph_reading import only_reader, own_nodes, static_shape

RESHAPES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})


def merge_transposes(model: Model) -> PassResult:
    """Merges chains from their end, since that is where a shape may be known."""
    graph = model.graph
    names = TensorNames(graph)
    is_changed = False
    while True:
        is_round_changed = False
        own = own_nodes(graph)
        for node in reversed(list(graph.nodes)):
            while (second := _second(graph, node, own)) is not None and _merge(node, second, names):
                is_round_changed = True
        if not is_round_changed:
            return PassResult(is_changed=is_changed)
        finish(graph)  # takes dead readers away, behind which more can be merged
        is_changed = True


def _second(graph: gs.Graph, node: gs.Node, own: frozenset[int]) -> gs.Node | None:
    if node.domain or len(node.outputs) != 1 or not node.inputs:
        return None
    reader = only_reader(graph, node.outputs[0])
    if reader is None or reader.domain or reader.inputs[0] is not node.outputs[0] or len(reader.outputs) != 1:
        return None
    return reader if id(reader) in own else None


def _merge(first: gs.Node, second: gs.Node, names: TensorNames) -> bool:
    """Fold the second node into the first, which then writes the second's output."""
    if first.op == second.op == "Transpose":
        rank = len(first.attrs.get("perm") or second.attrs.get("perm") or ())
        p = list(first.attrs.get("perm") or range(rank - 1, -1, -1))
        q = list(second.attrs.get("perm") or range(rank - 1, -1, -1))
        if not rank or len(p) != len(q):
            return False
        first.attrs["perm"] = [int(p[i]) for i in q]
    elif first.op == second.op == "Cast":
        source, middle = first.inputs[0].dtype, first.outputs[0].dtype
        if source is None or middle is None or not _loses_nothing(np.dtype(source), np.dtype(middle)):
            return False
        first.attrs["to"] = second.attrs["to"]
    elif first.op in RESHAPES and second.op in RESHAPES:
        shape = static_shape(second.outputs[0])
        if shape is None or 0 in shape:
            return False
        first.op = "Reshape"
        first.attrs.clear()
        target = names.constant(f"{second.outputs[0].name}_shape", np.array(shape, np.int64))
        first.inputs = [first.inputs[0], target]
    else:
        return False
    output = second.outputs[0]
    second.outputs.clear()
    second.inputs.clear()
    first.outputs = [output]
    return True


def _loses_nothing(source: np.dtype[Any], middle: np.dtype[Any]) -> bool:
    if source.kind in "iu" and middle.kind == "f":  # numpy calls int64 to float64 safe, whose mantissa has 53 bits
        return bool(source.itemsize * 8 <= np.finfo(middle).nmant)
    return bool(np.can_cast(source, middle, "safe"))

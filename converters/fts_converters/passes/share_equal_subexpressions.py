"""Nodes that compute the same from the same inputs become one (common subexpression elimination), and equal initializers too.

Requires: an operator without randomness and without subgraphs. Ensures: graph outputs keep a node of their own, because
a tensor has one name. Works in topological order, so that equality spreads down a chain in one run.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_editing import finish, redirect_readers
from fts_converters.passes.graph_reading import is_output

RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout"}
)


def share_equal_subexpressions(model: Model) -> PassResult:
    """Keeps the first of equal nodes."""
    graph = model.graph
    is_changed = _share_initializers(graph)
    seen: dict[Any, gs.Node] = {}
    for node in list(graph.nodes):
        key = _key(node)
        if key is None:
            continue
        first = seen.setdefault(key, node)
        if first is node or any(is_output(graph, t) for t in node.outputs):
            continue
        for old, new in zip(node.outputs, first.outputs, strict=True):
            redirect_readers(old, new)
        node.inputs.clear()
        node.outputs.clear()
        is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed)


def _key(node: gs.Node) -> Any | None:
    if node.op in RANDOM or not node.outputs:
        return None
    attributes = []
    for name, value in sorted(node.attrs.items()):
        if isinstance(value, gs.Graph) or (isinstance(value, list) and any(isinstance(v, gs.Graph) for v in value)):
            return None
        attributes.append((name, _value_key(value)))
    inputs = tuple("" if isinstance(t, gs.Variable) and t.is_empty() else id(t) for t in node.inputs)
    outputs = tuple(bool(t.name) for t in node.outputs)
    return node.op, node.domain, inputs, outputs, tuple(attributes)


def _value_key(value: Any) -> Any:
    if isinstance(value, gs.Constant):
        value = value.values
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return tuple(value) if isinstance(value, list) else value


def _kind(tensor: gs.Constant) -> tuple[str, tuple[int, ...]]:
    return tensor.values.dtype.str, tensor.values.shape


def _share_initializers(graph: gs.Graph) -> bool:
    """Small and large alike: by type, shape and digest."""
    first: dict[Any, gs.Constant] = {}
    is_changed = False
    tensors = [t for t in graph.tensors(check_duplicates=False).values() if isinstance(t, gs.Constant)]
    kinds = Counter(_kind(t) for t in tensors)
    for tensor in tensors:
        if is_output(graph, tensor) or not tensor.outputs or kinds[_kind(tensor)] == 1:
            continue  # the only one of its type and shape is not hashed: weights are large
        values = np.asarray(tensor.values)
        if values.dtype.hasobject:
            continue
        key = *_kind(tensor), hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()
        kept = first.setdefault(key, tensor)
        if kept is not tensor:
            redirect_readers(tensor, kept)
            is_changed = True
    return is_changed

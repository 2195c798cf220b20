"""Replace what depends on constants alone, or on shapes that are known, by its value.

Requires: static input shapes, or fewer shapes can be folded. Ensures: the same outputs, since each value is computed by
onnxruntime itself (through onnx-graphsurgeon), and nothing is left to fold: a folded value may give later shapes, so
folding and shape inference alternate until no Shape has a known input. A value above SIZE_LIMIT_BYTES stays computed,
so that a Tile or Expand does not blow the file up.

Does *not* compute an If or Loop, nor sequences of tensors. An If with a known condition gives way to its branch,
unless the graph holds one whose output is a graph output or which holds a further subgraph.

onnx-graphsurgeon's own folding of shapes is off, for two faults of it: a Shape with `start` or `end` (opset 15) becomes
the whole shape, and Cast -> Mul 0.5 -> Cast around integers becomes an integer Mul by 0.
"""

from __future__ import annotations

import logging

import numpy as np
import onnx_graphsurgeon as gs
from onnx import shape_inference

from fts.engines.onnxruntime_session import import_onnxruntime
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.resolve_sequences import MAKERS, READERS

SIZE_LIMIT_BYTES = 16 * 2**20

_log = logging.getLogger(__name__)


def fold_constants(model: Model) -> PassResult:
    """`is_changed` when a node was folded."""
    import_onnxruntime()  # before graph-surgeon does, so that its usage data is off
    gs.logger.G_LOGGER.severity = gs.logger.G_LOGGER.ERROR
    before = len(model.graph.nodes)
    _infer_shapes(model)
    while True:
        _fold_known_shapes(model.graph)
        model.graph.fold_constants(
            fold_shapes=False,
            size_threshold=SIZE_LIMIT_BYTES,
            error_ok=False,
            should_exclude_node=_is_left_computed,
            flatten_subgraphs=_can_inline(model.graph),
        )
        model.graph.cleanup(remove_unused_graph_inputs=False)
        _infer_shapes(model)
        if not _foldable_shapes(model.graph):
            return PassResult(is_changed=len(model.graph.nodes) != before)


def _has_subgraph(node: gs.Node) -> bool:
    """onnx-graphsurgeon would drop a Loop body's unread inputs before it has the Loop computed."""
    return any(isinstance(value, gs.Graph) for value in node.attrs.values())


def _is_left_computed(node: gs.Node) -> bool:
    """onnx-graphsurgeon takes a sequence for a tensor when it copies a graph; `resolve_sequences` makes tensors of it."""
    return _has_subgraph(node) or node.op in MAKERS or node.op in READERS


def _can_inline(graph: gs.Graph) -> bool:
    """Whether onnx-graphsurgeon may inline each If whose condition is known.

    It loses the name of a graph output, and what an If inside of an If makes.
    """
    outputs = {id(tensor) for tensor in graph.outputs}
    for node in graph.nodes:
        if node.op == "If":
            branches = [value for value in node.attrs.values() if isinstance(value, gs.Graph)]
            if any(id(t) in outputs for t in node.outputs) or any(_has_subgraph(n) for b in branches for n in b.nodes):
                return False
    return True


def _fold_known_shapes(graph: gs.Graph) -> None:
    for node, shape in _foldable_shapes(graph):
        value = node.outputs[0]
        node.outputs.clear()
        value.to_constant(np.array(shape, dtype=np.int64))


def _foldable_shapes(graph: gs.Graph) -> list[tuple[gs.Node, list[int]]]:
    """Shape nodes with what they give; a graph output keeps its node."""
    outputs = {id(tensor) for tensor in graph.outputs}
    found = ((node, _known_shape(node)) for node in graph.nodes if node.outputs and id(node.outputs[0]) not in outputs)
    return [(node, shape) for node, shape in found if shape is not None]


def _known_shape(node: gs.Node) -> list[int] | None:
    """What a Shape node gives, when its input is static in the axes that it asks for.

    Source: onnx Operators.md, Shape-15: shape[start:end], both clamped to the rank, as a Python slice does.
    """
    if node.op != "Shape" or node.domain not in (None, "", "ai.onnx") or node.inputs[0].shape is None:
        return None
    wanted = list(node.inputs[0].shape)[node.attrs.get("start", 0) : node.attrs.get("end")]
    return wanted if all(isinstance(n, int) and n >= 0 for n in wanted) else None


def _infer_shapes(model: Model) -> None:
    proto = gs.export_onnx(model.graph, do_type_check=False)
    if proto.ByteSize() >= 2**31 - 1:
        _log.warning("shapes not inferred: the graph is larger than 2 GiB")
        return
    inferred = gs.import_onnx(shape_inference.infer_shapes(proto, data_prop=True))
    known = inferred.tensors()
    for name, tensor in model.graph.tensors().items():
        other = known.get(name)
        if isinstance(tensor, gs.Variable) and isinstance(other, gs.Variable):
            tensor.shape = other.shape if other.shape is not None else tensor.shape
            tensor.dtype = other.dtype if other.dtype is not None else tensor.dtype
            tensor.type = other.type  # a sequence of tensors is no tensor

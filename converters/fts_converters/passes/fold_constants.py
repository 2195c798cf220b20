"""Replace what depends on constants alone, or on shapes that are known, by its value.

Requires: static input shapes, or fewer shapes can be folded. Ensures: the same outputs, since each value is computed by
onnxruntime itself (through onnx-graphsurgeon). A value above SIZE_LIMIT_BYTES stays computed, so that a Tile or Expand
does not blow the file up.

Does *not* fold across If or Loop; a subgraph that reads an outer tensor keeps it.
"""

from __future__ import annotations

import logging

import onnx_graphsurgeon as gs
from onnx import shape_inference

from fts.engines.onnxruntime_session import import_onnxruntime
from fts_converters.model import Model

SIZE_LIMIT_BYTES = 16 * 2**20

_log = logging.getLogger(__name__)


def fold_constants(model: Model) -> bool:
    """Returns True when the number of nodes fell."""
    import_onnxruntime()  # before graph-surgeon does, so that its usage data is off
    before = len(model.graph.nodes)
    gs.logger.G_LOGGER.severity = gs.logger.G_LOGGER.ERROR
    _infer_shapes(model)
    model.graph.fold_constants(size_threshold=SIZE_LIMIT_BYTES, error_ok=False)
    model.graph.cleanup(remove_unused_graph_inputs=False)
    _infer_shapes(model)
    return len(model.graph.nodes) != before


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

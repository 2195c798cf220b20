"""Shapes that onnx does not infer: behind norms that are functions of other operators in its eyes.

Such a norm gives a tensor of its input's shape and type, so an Identity stands for it while shapes are inferred.
"""

from __future__ import annotations

import logging

import onnx_graphsurgeon as gs
from onnx import shape_inference

from fts_converters.model import Model

_log = logging.getLogger(__name__)
KEEP_SHAPE = frozenset(("GroupNormalization", "MeanVarianceNormalization"))


def fill_shapes(model: Model) -> None:
    """Give every tensor that has none the shape and type that follow from the others."""
    if not any(n.op in KEEP_SHAPE and n.outputs[0].shape is None for n in model.graph.nodes):
        return
    proto = gs.export_onnx(model.graph, do_type_check=False)
    if proto.ByteSize() >= 2**31 - 1:
        _log.warning("shapes not inferred: the graph is larger than 2 GiB")
        return
    for node in proto.graph.node:
        if node.op_type in KEEP_SHAPE:
            node.op_type = "Identity"
            del node.input[1:], node.attribute[:]
    known = gs.import_onnx(shape_inference.infer_shapes(proto, data_prop=True)).tensors()
    for name, tensor in model.graph.tensors().items():
        other = known.get(name)
        if isinstance(tensor, gs.Variable) and tensor.shape is None and isinstance(other, gs.Variable):
            tensor.shape, tensor.dtype = other.shape, other.dtype or tensor.dtype

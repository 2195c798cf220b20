"""What an engine's operator list wants to know about a node, read from an onnx-graphsurgeon graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.passes.graph_reading import constant, static_shape
from fts_devices.op_support import EngineOps, Lack, NodeFacts, attributes_with_defaults

# What no engine computes: weights, and names for what is there already.
NOT_COMPUTED = frozenset(("Constant", "Identity"))


def lack_of(engine: EngineOps, node: gs.Node, opset: int) -> Lack | None:
    """Why an engine does not take a node as it is; None when nothing speaks against it."""
    return None if node.op in NOT_COMPUTED and not node.domain else engine.lack_of(node_facts(node, opset))


def node_facts(node: gs.Node, opset: int) -> NodeFacts:
    """Facts of one node; what is not known is left out."""
    given = tuple(not (isinstance(t, gs.Variable) and t.is_empty()) for t in node.inputs)
    values = {i: v for i, t in enumerate(node.inputs) if given[i] and (v := constant(t)) is not None}
    outputs = [t for t in node.outputs if t.name]
    dtypes = {_dtype_name(t) for t in (*node.inputs, *outputs)} - {""}
    attributes = dict(node.attrs)
    return NodeFacts(
        op_type=node.op,
        domain="" if node.domain in (None, "ai.onnx") else node.domain,
        attributes=attributes if node.domain else attributes_with_defaults(node.op, opset, attributes),
        input_shapes=tuple(static_shape(t) if g else None for t, g in zip(node.inputs, given, strict=True)),
        output_shapes=tuple(static_shape(t) for t in outputs),
        given=given,
        constants=values,
        dtypes=frozenset(dtypes),
    )


def _dtype_name(tensor: Any) -> str:
    """numpy name of a float type; "" for any other or an unknown one."""
    if tensor.dtype is None:
        return ""
    try:
        dtype = np.dtype(tensor.dtype)
    except TypeError:
        return ""
    return dtype.name if dtype.kind in "fcV" else ""

"""Remove operators whose output equals their input.

Identity; Dropout in inference (its mask unread); Cast to the type it has; Transpose with the identity permutation;
Reshape, Flatten, Squeeze, Unsqueeze, Expand and Tile to the shape it has; Pad by nothing; Slice of everything; Concat,
Sum, Max, Min and Mean of a single operand; ReduceMean, Sum, Max, Min and Prod over axes of size 1; Gather of every
index in order; DepthToSpace and SpaceToDepth with blocks of 1; operands without elements of a Concat (onnxruntime
1.23 crashes on them in a quantized graph); Resize to the same size; AveragePool and MaxPool of a 1x1 window with
stride 1.

Requires shapes where a rule needs them. Does *not* remove x + 0 or x * 1: -0.0, NaN and type promotion make the rule
larger than its gain, and constant folding sees the constant cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import bypass, finish
from fts_converters.passes.graph_reading import constant, is_output, label, static_shape


def eliminate_no_ops(model: Model) -> PassResult:
    """Removes each node that does nothing; a node between a graph input and a graph output stays, with the reason."""
    graph = model.graph
    refusals = []
    is_changed = False
    for node in list(graph.nodes):
        is_changed |= _drop_empty_operands(node) | _drop_unread_mask(graph, node)
        rule = RULES.get(node.op)
        if node.domain or rule is None or not node.inputs or not node.outputs or not rule(node):
            continue
        if bypass(graph, node):
            is_changed = True
        else:
            refusals.append(Refusal(node=label(node), reason="it does nothing, but names a graph output"))
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _drop_empty_operands(node: gs.Node) -> bool:
    """Operands of a Concat that add nothing along its axis; one operand always stays."""
    if node.op != "Concat" or node.domain:
        return False
    kept = [t for t in node.inputs if not _is_empty_along(t, int(node.attrs.get("axis", 0)))]
    if not kept or len(kept) == len(node.inputs):
        return False
    node.inputs = kept
    return True


def _drop_unread_mask(graph: gs.Graph, node: gs.Node) -> bool:
    """The second output of a Dropout, which would keep it alive."""
    if node.op != "Dropout" or node.domain or len(node.outputs) < 2:
        return False
    mask = node.outputs[1]
    if mask.outputs or is_output(graph, mask):
        return False
    node.outputs = [node.outputs[0]]
    return True


def _is_empty_along(tensor: gs.Tensor, axis: int) -> bool:
    shape = static_shape(tensor)
    return shape is not None and bool(shape) and shape[axis] == 0


def _always(node: gs.Node) -> bool:
    return True


def _is_inference_dropout(node: gs.Node) -> bool:
    mode = constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2].name else np.array(False)
    return mode is not None and not bool(mode) and len(node.outputs) == 1


def _is_same_type(node: gs.Node) -> bool:
    source = node.inputs[0].dtype
    return source is not None and np.dtype(source) == np.dtype(onnx.helper.tensor_dtype_to_np_dtype(_to(node)))


def _to(node: gs.Node) -> int:
    to = node.attrs["to"]
    return int(to) if isinstance(to, int) else int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to)))


def _is_identity_permutation(node: gs.Node) -> bool:
    perm = node.attrs.get("perm")
    return perm is not None and list(perm) == list(range(len(perm)))


def _is_same_shape(node: gs.Node) -> bool:
    before, after = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    return before is not None and before == after


def _is_empty_pad(node: gs.Node) -> bool:
    pads = node.attrs.get("pads")
    if pads is None and len(node.inputs) > 1:
        pads = constant(node.inputs[1])
    return pads is not None and not np.any(np.asarray(pads))


def _is_full_slice(node: gs.Node) -> bool:
    if not _is_same_shape(node):
        return False
    steps = constant(node.inputs[4]) if len(node.inputs) > 4 else np.ones(1)
    return steps is not None and bool((np.asarray(steps) == 1).all())


def _has_one_operand(node: gs.Node) -> bool:
    return len(node.inputs) == 1


def _is_single_tile(node: gs.Node) -> bool:
    repeats = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return repeats is not None and bool((repeats == 1).all())


def _gathers_all(node: gs.Node) -> bool:
    index = constant(node.inputs[1])
    if index is None or index.ndim != 1 or not _is_same_shape(node):
        return False
    return bool((index % max(1, len(index)) == np.arange(len(index))).all())


def _has_block_of_one(node: gs.Node) -> bool:
    return int(node.attrs.get("blocksize", 0)) == 1


def _is_unit_pool(node: gs.Node) -> bool:
    ones = all(all(v == 1 for v in node.attrs.get(k, [1])) for k in ("kernel_shape", "strides", "dilations"))
    return ones and _is_same_shape(node) and len(node.outputs) == 1


def _is_same_size_resize(node: gs.Node) -> bool:
    """Equal sizes give equal grids in every coordinate mode but tf_crop_and_resize."""
    mode = node.attrs.get("coordinate_transformation_mode", "half_pixel")
    return mode != "tf_crop_and_resize" and _is_same_shape(node)


RULES: Mapping[str, Callable[[gs.Node], bool]] = {
    "Identity": _always,
    "Dropout": _is_inference_dropout,
    "Cast": _is_same_type,
    "Transpose": _is_identity_permutation,
    "Reshape": _is_same_shape,
    "Flatten": _is_same_shape,
    "Squeeze": _is_same_shape,
    "Unsqueeze": _is_same_shape,
    "Expand": _is_same_shape,
    "Pad": _is_empty_pad,
    "Slice": _is_full_slice,
    "Concat": _has_one_operand,
    "Sum": _has_one_operand,
    "Max": _has_one_operand,
    "Min": _has_one_operand,
    "Mean": _has_one_operand,
    "Tile": _is_single_tile,
    "Gather": _gathers_all,
    "DepthToSpace": _has_block_of_one,
    "SpaceToDepth": _has_block_of_one,
    "ReduceMean": _is_same_shape,
    "ReduceSum": _is_same_shape,
    "ReduceMax": _is_same_shape,
    "ReduceMin": _is_same_shape,
    "ReduceProd": _is_same_shape,
    "MaxPool": _is_unit_pool,
    "AveragePool": _is_unit_pool,
    "Resize": _is_same_size_resize,
}

"""Wrong rewrites, written by hand: what a faulty pass would do. Each must break the law on generated graphs.

A mutant edits the ModelProto of a case in one place, the first where it applies, and returns False where it does not
apply. They are the proof that the graphs and the tolerance can tell a wrong constant, axis, bias or mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

Mutant = Callable[[ModelProto], bool]


def _nodes(model: ModelProto, *ops: str) -> Iterator[NodeProto]:
    return (n for n in model.graph.node if n.op_type in ops)


def _attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def _set(node: NodeProto, name: str, value: Any) -> None:
    kept = [a for a in node.attribute if a.name != name]
    copies = [AttributeProto.FromString(a.SerializeToString()) for a in kept]
    del node.attribute[:]
    node.attribute.extend([*copies, helper.make_attribute(name, value)])


def _constants(model: ModelProto) -> dict[str, TensorProto]:
    found = {t.name: t for t in model.graph.initializer}
    found.update({n.output[0]: n.attribute[0].t for n in _nodes(model, "Constant")})
    return found


def _edit(model: ModelProto, name: str, change: Callable[[Any], Any]) -> bool:
    """Replace the value of a constant tensor for all its readers."""
    tensor = _constants(model).get(name)
    if tensor is None:
        return False
    before = numpy_helper.to_array(tensor)
    after = np.asarray(change(before.copy()), before.dtype)
    if np.array_equal(before, after):
        return False
    tensor.CopyFrom(numpy_helper.from_array(after, tensor.name))
    return True


def _bypass(node: NodeProto) -> bool:
    """The node becomes an Identity of its first input."""
    node.op_type = "Identity"
    del node.attribute[:]
    del node.input[1:]
    return True


def drop_conv_bias(model: ModelProto) -> bool:
    for node in _nodes(model, "Conv", "ConvTranspose"):
        if len(node.input) == 3:
            del node.input[2]
            return True
    return False


def swap_conv_pads(model: ModelProto) -> bool:
    """Begins and ends exchanged: the shape stays."""
    for node in _nodes(model, "Conv"):
        pads = _attribute(node, "pads")
        if pads:
            half = len(pads) // 2
            if pads[:half] != pads[half:]:
                _set(node, "pads", [*pads[half:], *pads[:half]])
                return True
    return False


def swap_same_upper_lower(model: ModelProto) -> bool:
    for node in _nodes(model, "Conv", "MaxPool", "AveragePool"):
        auto = _attribute(node, "auto_pad")
        if auto in (b"SAME_UPPER", b"SAME_LOWER"):
            _set(node, "auto_pad", "SAME_LOWER" if auto == b"SAME_UPPER" else "SAME_UPPER")
            return True
    return False


def flip_conv_kernel(model: ModelProto) -> bool:
    """Convolution for correlation."""
    return any(_edit(model, n.input[1], lambda w: w[..., ::-1]) for n in _nodes(model, "Conv"))


def transpose_conv_transpose_kernel(model: ModelProto) -> bool:
    return any(_edit(model, n.input[1], lambda w: w[..., ::-1]) for n in _nodes(model, "ConvTranspose"))


def _edit_input(model: ModelProto, position: int, *ops: str, change: Callable[[Any], Any]) -> bool:
    return any(len(n.input) > position and _edit(model, n.input[position], change) for n in _nodes(model, *ops))


def weight_off_by_a_thousandth(model: ModelProto) -> bool:
    def change(w: Any) -> Any:
        w.flat[int(np.abs(w).argmax())] *= 1.001
        return w

    return _edit_input(model, 1, "Conv", "Gemm", "MatMul", "ConvTranspose", change=change)


def batch_norm_forgets_mean(model: ModelProto) -> bool:
    return _edit_input(model, 3, "BatchNormalization", change=np.zeros_like)


def batch_norm_takes_variance_for_deviation(model: ModelProto) -> bool:
    return _edit_input(model, 4, "BatchNormalization", change=np.square)


def batch_norm_forgets_epsilon(model: ModelProto) -> bool:
    for node in _nodes(model, "BatchNormalization"):
        if _attribute(node, "epsilon", 1e-5) > 1e-4:
            _set(node, "epsilon", 0.0)
            return True
    return False


def batch_norm_shift_reversed(model: ModelProto) -> bool:
    return _edit_input(model, 2, "BatchNormalization", change=lambda v: v[::-1])


def batch_norm_folded_for_one_of_two_readers(model: ModelProto) -> bool:
    """Scale the weights of a Conv whose output is read by the norm and by another node."""
    for norm in _nodes(model, "BatchNormalization"):
        readers = [n for n in model.graph.node if norm.input[0] in n.input]
        made = [n for n in _nodes(model, "Conv") if n.output[0] == norm.input[0]]
        if len(readers) < 2 or not made:
            continue
        scale = _constants(model).get(norm.input[1])
        if scale is None:
            continue
        factor = numpy_helper.to_array(scale)
        if _edit(model, made[0].input[1], lambda w, f=factor: w * f.reshape(-1, *[1] * (w.ndim - 1))):  # type: ignore[misc]
            return True
    return False


def instance_norm_epsilon(model: ModelProto) -> bool:
    for node in _nodes(model, "InstanceNormalization", "LayerNormalization", "GroupNormalization"):
        if _attribute(node, "epsilon", 1e-5) >= 1e-3:
            _set(node, "epsilon", 1e-5)
            return True
    return False


def norm_loses_bias(model: ModelProto) -> bool:
    return _edit_input(
        model, 2, "InstanceNormalization", "LayerNormalization", "GroupNormalization", change=np.zeros_like
    )


def softmax_other_axis(model: ModelProto) -> bool:
    for node in _nodes(model, "Softmax", "LogSoftmax"):
        if _attribute(node, "axis") not in (None, 0):
            _set(node, "axis", 0)
            return True
    return False


def softmax_new_semantics_at_old_opset(model: ModelProto) -> bool:
    """An old Softmax on axis 1 flattens what lies behind; read as the last axis it does not."""
    if model.opset_import[0].version >= 13:
        return False
    for node in _nodes(model, "Softmax"):
        if _attribute(node, "axis", 1) == 1:
            _set(node, "axis", 2)
            return True
    return False


def leaky_relu_slope(model: ModelProto) -> bool:
    for node in _nodes(model, "LeakyRelu"):
        _set(node, "alpha", _attribute(node, "alpha", 0.01) * 1.1)
        return True
    return False


def elu_alpha(model: ModelProto) -> bool:
    for node in _nodes(model, "Elu", "Celu"):
        _set(node, "alpha", _attribute(node, "alpha", 1.0) * 1.1)
        return True
    return False


def hard_sigmoid_default_alpha(model: ModelProto) -> bool:
    for node in _nodes(model, "HardSigmoid"):
        if _attribute(node, "alpha", 0.2) != np.float32(0.2):
            _set(node, "alpha", 0.2)
            return True
    return False


def prelu_as_relu(model: ModelProto) -> bool:
    return _edit_input(model, 1, "PRelu", change=np.zeros_like)


def clip_loses_minimum(model: ModelProto) -> bool:
    """Every one of them: a single one often guards against a value that does not come up."""
    is_applied = False
    for node in _nodes(model, "Clip"):
        if len(node.input) > 1 and node.input[1]:
            node.input[1] = ""
            is_applied = True
        elif _attribute(node, "min") is not None:
            _set(node, "min", -1e30)
            is_applied = True
    return is_applied


def bypass_relu(model: ModelProto) -> bool:
    return any(_bypass(n) for n in _nodes(model, "Relu"))


def floor_taken_for_nothing(model: ModelProto) -> bool:
    """A rounding in front of a Cast to an integer dropped as if the Cast did it."""
    for node in _nodes(model, "Floor"):
        return _bypass(node)
    return False


def transpose_inverse(model: ModelProto) -> bool:
    for node in _nodes(model, "Transpose"):
        perm = list(_attribute(node, "perm") or [])
        inverse = [perm.index(i) for i in range(len(perm))]
        if inverse != perm:
            _set(node, "perm", inverse)
            return True
    return False


def depth_to_space_mode(model: ModelProto) -> bool:
    if model.opset_import[0].version < 11:
        return False
    for node in _nodes(model, "DepthToSpace"):
        _set(node, "mode", "DCR" if _attribute(node, "mode") == b"CRD" else "CRD")
        return True
    return False


def resize_coordinates(model: ModelProto) -> bool:
    if model.opset_import[0].version < 11:
        return False
    for node in _nodes(model, "Resize"):
        now = _attribute(node, "coordinate_transformation_mode", b"half_pixel")
        _set(node, "coordinate_transformation_mode", "half_pixel" if now == b"asymmetric" else "asymmetric")
        return True
    return False


def resize_nearest_rounding(model: ModelProto) -> bool:
    for node in _nodes(model, "Resize"):
        rounding = _attribute(node, "nearest_mode")
        if rounding is not None:
            _set(node, "nearest_mode", "ceil" if rounding != b"ceil" else "floor")
            return True
    return False


def upsample_other_mode(model: ModelProto) -> bool:
    for node in _nodes(model, "Upsample"):
        _set(node, "mode", "linear" if _attribute(node, "mode") == b"nearest" else "nearest")
        return True
    return False


def pad_reflect_as_edge(model: ModelProto) -> bool:
    for node in _nodes(model, "Pad"):
        if _attribute(node, "mode") == b"reflect":
            _set(node, "mode", "edge")
            return True
    return False


def pad_with_zero(model: ModelProto) -> bool:
    return _edit_input(model, 2, "Pad", change=np.zeros_like)


def pad_value_of_attribute_lost(model: ModelProto) -> bool:
    """A Pad of 0.5 taken for a zero Pad, in the opsets whose value is an attribute."""
    for node in _nodes(model, "Pad"):
        if _attribute(node, "value"):
            _set(node, "value", 0.0)
            return True
    return False


def average_pool_counts_pad(model: ModelProto) -> bool:
    for node in _nodes(model, "AveragePool"):
        if any(_attribute(node, "pads") or []):
            _set(node, "count_include_pad", 1 - _attribute(node, "count_include_pad", 0))
            return True
    return False


def pool_kind(model: ModelProto) -> bool:
    for node in _nodes(model, "GlobalAveragePool"):
        node.op_type = "GlobalMaxPool"
        return True
    return False


def cum_sum_direction(model: ModelProto) -> bool:
    for node in _nodes(model, "CumSum"):
        _set(node, "reverse", 1 - _attribute(node, "reverse", 0))
        return True
    return False


def gather_index(model: ModelProto) -> bool:
    return _edit_input(model, 1, "Gather", "GatherElements", change=lambda i: np.where(i > 0, i - 1, 0))


def scatter_update_lost(model: ModelProto) -> bool:
    return any(_bypass(n) for n in _nodes(model, "ScatterND", "ScatterElements", "Scatter"))


def concat_order(model: ModelProto) -> bool:
    for node in _nodes(model, "Concat"):
        names = list(node.input)
        if names != names[::-1]:
            del node.input[:]
            node.input.extend(names[::-1])
            return True
    return False


def swap_operands(model: ModelProto) -> bool:
    for node in _nodes(model, "Sub", "Div"):
        if node.input[0] != node.input[1]:
            node.input[0], node.input[1] = node.input[1], node.input[0]
            return True
    return False


def swap_where(model: ModelProto) -> bool:
    for node in _nodes(model, "Where"):
        if node.input[1] != node.input[2]:
            node.input[1], node.input[2] = node.input[2], node.input[1]
            return True
    return False


def swap_split_outputs(model: ModelProto) -> bool:
    for node in _nodes(model, "Split"):
        node.output[0], node.output[1] = node.output[1], node.output[0]
        return True
    return False


def reduce_mean_as_sum(model: ModelProto) -> bool:
    """Axes stay where the opset of both has them."""
    if not 9 <= model.opset_import[0].version < 13 and model.opset_import[0].version < 18:
        return False
    for node in _nodes(model, "ReduceMean"):
        node.op_type = "ReduceSum"
        return True
    return False


def reduce_max_as_min(model: ModelProto) -> bool:
    for node in _nodes(model, "ReduceMax"):
        node.op_type = "ReduceMin"
        return True
    return False


def gemm_loses_alpha(model: ModelProto) -> bool:
    for node in _nodes(model, "Gemm"):
        if _attribute(node, "alpha", 1.0) != 1.0:
            _set(node, "alpha", 1.0)
            return True
    return False


def gemm_loses_beta(model: ModelProto) -> bool:
    for node in _nodes(model, "Gemm"):
        if len(node.input) == 3 and _attribute(node, "beta", 1.0) != 1.0:
            _set(node, "beta", 1.0)
            return True
    return False


def gelu_exact_for_tanh(model: ModelProto) -> bool:
    for node in _nodes(model, "Gelu"):
        _set(node, "approximate", "none" if _attribute(node, "approximate") == b"tanh" else "tanh")
        return True
    return False


def spelled_epsilon_lost(model: ModelProto) -> bool:
    """The 1e-3 or 1e-2 added to a variance before Sqrt becomes 1e-5."""
    for root in _nodes(model, "Sqrt"):
        for add in _nodes(model, "Add"):
            if add.output[0] == root.input[0] and _edit(
                model, add.input[1], lambda e: np.where(e <= 2e-2, np.minimum(e, 1e-5), e)
            ):
                return True
    return False


def add_constant_lost(model: ModelProto) -> bool:
    return _edit_input(model, 1, "Add", change=np.zeros_like)


def top_k_smallest(model: ModelProto) -> bool:
    if model.opset_import[0].version < 11:
        return False
    for node in _nodes(model, "TopK"):
        _set(node, "largest", 1 - _attribute(node, "largest", 1))
        return True
    return False


def arg_max_last_index(model: ModelProto) -> bool:
    if model.opset_import[0].version < 12:
        return False
    for node in _nodes(model, "ArgMax", "ArgMin"):
        _set(node, "select_last_index", 1 - _attribute(node, "select_last_index", 0))
        return True
    return False


def wrong_branch_inlined(model: ModelProto) -> bool:
    for node in _nodes(model, "If"):
        then, other = _attribute(node, "then_branch"), _attribute(node, "else_branch")
        a, b = GraphProto.FromString(then.SerializeToString()), GraphProto.FromString(other.SerializeToString())
        _set(node, "then_branch", b)
        _set(node, "else_branch", a)
        return True
    return False


def one_trip_more(model: ModelProto) -> bool:
    return _edit_input(model, 0, "Loop", change=lambda n: n + 1)


def cse_ignores_attributes(model: ModelProto) -> bool:
    """Two nodes of the same op and inputs merged although their attributes differ."""
    first: dict[tuple[str, ...], NodeProto] = {}
    for node in model.graph.node:
        key = (node.op_type, *node.input)
        other = first.setdefault(key, node)
        if node.input and other is not node and len(node.output) == 1:
            a, b = ({x.name: x.SerializeToString() for x in n.attribute} for n in (node, other))
            if a != b and set(a) == set(b) and node.op_type in ("LeakyRelu", "Softmax", "Elu"):
                node.op_type = "Identity"
                del node.attribute[:], node.input[:]
                node.input.append(other.output[0])
                return True
    return False


def fold_into_shared_weight(model: ModelProto) -> bool:
    """A scale folded into a weight that another convolution reads too."""
    readers: dict[str, int] = {}
    for node in _nodes(model, "Conv"):
        readers[node.input[1]] = readers.get(node.input[1], 0) + 1
    return any(n > 1 and _edit(model, name, lambda w: w * 2) for name, n in readers.items())


def slice_reads_other_end(model: ModelProto) -> bool:
    """[0:-1] becomes [1:], of the same size."""
    for node in _nodes(model, "Slice"):
        if _attribute(node, "starts") == [0] and _attribute(node, "ends") == [-1]:
            _set(node, "starts", [1])
            _set(node, "ends", [2**31 - 1])
            return True
        given = [_constants(model).get(name) for name in node.input[1:3]]
        if len(given) < 2 or given[0] is None or given[1] is None:
            continue
        start, end = (numpy_helper.to_array(t) for t in given if t is not None)
        if start.size == 1 and start[0] == 0 and end[0] == -1:
            return _edit(model, node.input[1], lambda s: s + 1) and _edit(model, node.input[2], lambda e: e * 0 + 2**31)
    return False


def reshape_without_transpose(model: ModelProto) -> bool:
    """Reshape -> Transpose -> Reshape taken for one Reshape."""
    made = {n.output[0]: n for n in model.graph.node}
    for last in _nodes(model, "Reshape"):
        middle = made.get(last.input[0])
        if middle is not None and middle.op_type == "Transpose":
            first = made.get(middle.input[0])
            if first is not None and first.op_type == "Reshape":
                last.input[0] = first.input[0]
                return True
    return False


MUTANTS: tuple[Mutant, ...] = (
    drop_conv_bias,
    swap_conv_pads,
    swap_same_upper_lower,
    flip_conv_kernel,
    transpose_conv_transpose_kernel,
    weight_off_by_a_thousandth,
    batch_norm_forgets_mean,
    batch_norm_takes_variance_for_deviation,
    batch_norm_forgets_epsilon,
    batch_norm_shift_reversed,
    batch_norm_folded_for_one_of_two_readers,
    instance_norm_epsilon,
    norm_loses_bias,
    softmax_other_axis,
    softmax_new_semantics_at_old_opset,
    leaky_relu_slope,
    elu_alpha,
    hard_sigmoid_default_alpha,
    prelu_as_relu,
    clip_loses_minimum,
    bypass_relu,
    floor_taken_for_nothing,
    transpose_inverse,
    depth_to_space_mode,
    resize_coordinates,
    resize_nearest_rounding,
    upsample_other_mode,
    pad_reflect_as_edge,
    pad_with_zero,
    pad_value_of_attribute_lost,
    average_pool_counts_pad,
    pool_kind,
    cum_sum_direction,
    gather_index,
    scatter_update_lost,
    concat_order,
    swap_operands,
    swap_where,
    swap_split_outputs,
    reduce_mean_as_sum,
    reduce_max_as_min,
    gemm_loses_alpha,
    gemm_loses_beta,
    gelu_exact_for_tanh,
    spelled_epsilon_lost,
    add_constant_lost,
    top_k_smallest,
    arg_max_last_index,
    wrong_branch_inlined,
    one_trip_more,
    cse_ignores_attributes,
    fold_into_shared_weight,
    slice_reads_other_end,
    reshape_without_transpose,
)

"""Nodes on tensors of many axes become nodes on few: axes that stay together are merged, a Transpose is cut into several.

    elementwise   neighbours are one axis where every operand either has both or is 1 in both
    reductions    neighbours are one axis where both are reduced or neither is
    one axis      (before, axis, behind) for Concat, Softmax and LogSoftmax
    Slice         neighbours are one axis where neither is cut
    MatMul        the batch axes like elementwise
    Transpose     neighbours that stay neighbours are one axis; what is still too much is done in steps that each bring
                  one axis to its place, (done, between, axis, behind) -> (done, axis, between, behind)

Around the node stand Reshapes; a Reshape of a Reshape reads what the first one read, so that the tensor of many axes is
gone when all its readers are lowered. Refused: other operators, and tensors that need their axes: inputs and outputs of
the graph, forms that cannot be merged far enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_reading import constant, producer, reduce_axes, static_shape

MOST_RANK = 5
_ELEMENTWISE = """
Abs Add And Cast Ceil Celu Clip Cos Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity
LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Sigmoid Sign Sin
Softplus Softsign Sqrt Sub Sum Tan Tanh ThresholdedRelu Where Xor
"""
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
REDUCTIONS = frozenset(
    ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
     "ReduceSum", "ReduceSumSquare")
)  # fmt: skip
VIEWS = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze"))
ONE_AXIS = frozenset(("Concat", "Softmax", "LogSoftmax"))
OPS = (*sorted(ELEMENTWISE | REDUCTIONS | VIEWS | ONE_AXIS), "MatMul", "Slice", "Transpose")


def split_high_rank(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Brings every wanted node that can be to tensors of at most MOST_RANK axes."""

    def is_high(node: gs.Node) -> bool:
        shapes = [static_shape(t) for t in (*node.inputs, *node.outputs)]
        return max((len(s) for s in shapes if s is not None), default=0) > MOST_RANK

    # The view that gives the old shape back is gone when the readers are lowered too.
    passing = replace(choice, is_taken=lambda node: node.op in VIEWS or choice.is_taken(node))
    return lower_each(model, OPS, _replace, passing.where(is_high))


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    if node.op in VIEWS:
        return _view(nodes, node)
    value: gs.Tensor | str
    if node.op == "Transpose":
        value = permuted(nodes, _source(node.inputs[0]), nodes.shape(node.inputs[0]), _permutation(nodes, node))
    elif node.op in ELEMENTWISE:
        value = _elementwise(nodes, node)
    elif node.op in REDUCTIONS:
        value = _reduction(nodes, node)
    elif node.op in ONE_AXIS:
        value = _one_axis(nodes, node)
    else:
        value = _slice(nodes, node) if node.op == "Slice" else _matmul(nodes, node)
    return value if isinstance(value, str) else nodes.reshape(value, nodes.shape(node.outputs[0]))


def _source(tensor: gs.Tensor) -> gs.Tensor:
    """What a chain of views was made of, as far as it has few axes; the tensor itself where it has none."""
    found = tensor
    while True:
        view = next((v for op in sorted(VIEWS) if (v := producer(found, op)) is not None), None)
        if view is None:
            shape = static_shape(found)
            return found if shape is not None and len(shape) <= MOST_RANK else tensor
        found = view.inputs[0]


def _few_axes(nodes: NewNodes, tensor: gs.Tensor, shape: Sequence[int]) -> gs.Tensor:
    """The tensor in another shape, read from where it came from."""
    return nodes.reshape(_source(tensor) if not isinstance(tensor, gs.Constant) else tensor, shape)


def _view(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    source = _source(node.inputs[0])
    if source is node.inputs[0] or len(nodes.shape(node.outputs[0])) > MOST_RANK:
        return f"it leads to or from a tensor of more than {MOST_RANK} axes that something else needs"
    return nodes.reshape(source, nodes.shape(node.outputs[0]))


def _permutation(nodes: NewNodes, node: gs.Node) -> list[int]:
    rank = len(nodes.shape(node.inputs[0]))
    return [int(p) for p in node.attrs.get("perm") or range(rank)[::-1]]


def permuted(nodes: NewNodes, x: gs.Tensor, shape: Sequence[int], perm: Sequence[int]) -> gs.Tensor:
    """x, seen in a shape, with its axes in another order, by Transposes of at most MOST_RANK axes; in a shape of its own."""
    order = [p for p in perm if shape[p] != 1]
    groups = _runs(order)
    first = sorted(groups)
    sizes = [prod(shape[a] for a in group) for group in first]
    order = [first.index(g) for g in groups]
    if len(order) <= MOST_RANK:
        return nodes.transpose(nodes.reshape(x, sizes), order)
    current = list(range(len(sizes)))
    value = x
    for done, axis in enumerate(order):
        at = current.index(axis)
        if at == done:
            continue
        end = at + 1
        while (
            end < len(order)
            and done + end - at < len(order)
            and current[end : end + 1] == order[done + end - at : done + end - at + 1]
        ):
            end += 1  # what follows and belongs behind it comes along
        parts = [current[:done], current[done:at], current[at:end], current[end:]]
        value = nodes.reshape(value, [prod(sizes[i] for i in part) for part in parts])
        value = nodes.transpose(value, [0, 2, 1, 3])
        current = [*parts[0], *parts[2], *parts[1], *parts[3]]
    return value


def _runs(order: Sequence[int]) -> list[tuple[int, ...]]:
    """Neighbours of the source that stay neighbours; sizes of 1 are gone, so the next number need not be one higher."""
    present = sorted(order)
    groups: list[tuple[int, ...]] = []
    for axis in order:
        before = groups[-1][-1] if groups else None
        if before is not None and present.index(axis) == present.index(before) + 1:
            groups[-1] = (*groups[-1], axis)
        else:
            groups.append((axis,))
    return groups


def _merged(keys: Sequence[object]) -> list[tuple[int, ...]]:
    """Neighbouring axes with equal keys, grouped."""
    groups: list[list[int]] = []
    for axis, key in enumerate(keys):
        if groups and keys[groups[-1][-1]] == key:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return [tuple(g) for g in groups]


def _broadcast_groups(
    shapes: Sequence[tuple[int, ...]], full: tuple[int, ...]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Axes of `full` that can be merged, and the shapes filled up with ones from the left; axes of 1 in all join any."""
    padded = [(1,) * (len(full) - len(s)) + s for s in shapes]
    keys: list[object] = []
    for axis, n in enumerate(full):
        key: object = tuple(p[axis] == n for p in padded) if n != 1 else None
        keys.append(keys[-1] if key is None and keys else key)
    return _merged(keys), padded


def _elementwise(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    full = nodes.shape(node.outputs[0])
    inputs = [t for t in node.inputs if not (isinstance(t, gs.Variable) and t.is_empty())]
    groups, padded = _broadcast_groups([nodes.shape(t) for t in inputs], full)
    if len(groups) > MOST_RANK:
        return f"its operands broadcast in a way that needs {len(groups)} axes"
    scalars = node.op == "Clip"  # its bounds stay without axes
    small = {
        t.name: t if scalars and i else _few_axes(nodes, t, [prod(p[a] for a in g) for g in groups])
        for i, (t, p) in enumerate(zip(inputs, padded, strict=True))
    }
    again = [small.get(t.name, t) for t in node.inputs]
    return nodes.add(
        node.op, again, [prod(full[a] for a in g) for g in groups], dtype=node.outputs[0].dtype, **node.attrs
    )


def _reduction(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    shape = nodes.shape(node.inputs[0])
    axes = reduce_axes(node, nodes.opset)
    if axes is None:
        return "its axes are computed"
    groups = _merged([a in axes for a in range(len(shape))])
    if len(groups) > MOST_RANK:
        return f"its axes alternate in a way that needs {len(groups)} axes"
    small = _few_axes(nodes, node.inputs[0], [prod(shape[a] for a in g) for g in groups])
    return nodes.reduce(node.op, small, [i for i, g in enumerate(groups) if g[0] in axes], keepdims=True)


def _one_axis(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    result = nodes.shape(node.outputs[0])
    axis = int(node.attrs.get("axis", -1)) % len(result)
    small = []
    for tensor in node.inputs:
        shape = nodes.shape(tensor)
        small.append(_few_axes(nodes, tensor, [prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])]))
    return nodes.add(node.op, small, [prod(result[:axis]), result[axis], prod(result[axis + 1 :])], axis=1)


def _slice(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    bounds = [constant(t) for t in node.inputs[1:]]
    if any(b is None for b in bounds):
        return "its bounds are computed"
    shape = nodes.shape(node.inputs[0])
    starts, ends = (np.asarray(b).reshape(-1).tolist() for b in bounds[:2])
    axes = np.asarray(bounds[2]).reshape(-1).tolist() if len(bounds) > 2 else list(range(len(starts)))
    steps = np.asarray(bounds[3]).reshape(-1).tolist() if len(bounds) > 3 else [1] * len(starts)
    cuts = {
        a % len(shape): slice(s, e, k).indices(shape[a]) for a, s, e, k in zip(axes, starts, ends, steps, strict=True)
    }
    groups = _merged([a if a in cuts else "whole" for a in range(len(shape))])
    if len(groups) > MOST_RANK:
        return f"it cuts axes in a way that needs {len(groups)} axes"
    value = _few_axes(nodes, node.inputs[0], [prod(shape[a] for a in g) for g in groups])
    for i, group in enumerate(groups):
        if group[0] in cuts:
            value = nodes.slice(value, i, *cuts[group[0]])
    return value


def _matmul(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    a, b, full = (nodes.shape(t) for t in (*node.inputs, node.outputs[0]))
    if min(len(a), len(b)) < 2:
        return "one operand is a vector"
    groups, padded = _broadcast_groups([a[:-2], b[:-2]], full[:-2])
    if len(groups) + 2 > MOST_RANK:
        return f"its batches broadcast in a way that needs {len(groups) + 2} axes"
    small = [
        _few_axes(nodes, t, [*(prod(p[i] for i in g) for g in groups), *s[-2:]])
        for t, p, s in zip(node.inputs, padded, (a, b), strict=True)
    ]
    return nodes.matmul(*small)

"""A Concat that puts all parts of a tensor together again, in order, is that tensor.

    Concat(Split(x)) = x,   Concat(x[0:a], x[a:b], x[b:n]) = x       along the same axis

Requires: parts by Split or by Slice with constant borders and step 1, over a static axis; the parts may have other readers.
Does *not* join a run of parts that is less than the whole.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import bypass, finish
from fts_converters.passes.graph_reading import constant, label, rank, static_shape

# Source, axis, first index and end of a part.
Part = tuple[gs.Tensor, int, int, int]


def join_parts(model: Model) -> PassResult:
    """Bypasses each such Concat; one between a graph input and a graph output stays, with the reason."""
    graph = model.graph
    refusals = []
    is_changed = False
    for node in list(graph.nodes):
        if node.op != "Concat" or node.domain or len(node.inputs) < 2:
            continue
        whole = _whole(node)
        if whole is None:
            continue
        if bypass(graph, node, whole):
            is_changed = True
        else:
            refusals.append(Refusal(node=label(node), reason="it joins what was split, but names a graph output"))
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _whole(node: gs.Node) -> gs.Tensor | None:
    """The tensor whose parts the operands are, in order and without a gap."""
    first = _part(node.inputs[0])
    if first is None:
        return None
    source, axis, _, _ = first
    shape = static_shape(source)
    if shape is None or int(node.attrs.get("axis", 0)) % len(shape) != axis:
        return None
    at = 0
    for tensor in node.inputs:
        part = _part(tensor)
        if part is None or part[0] is not source or part[1] != axis or part[2] != at:
            return None
        at = part[3]
    return source if at == shape[axis] else None


def _part(tensor: gs.Tensor) -> Part | None:
    maker = tensor.inputs[0] if len(tensor.inputs) == 1 else None
    if maker is None or maker.domain or maker.op not in ("Split", "Slice"):
        return None
    axes = rank(maker.inputs[0])
    shape = static_shape(maker.inputs[0])
    if axes is None or shape is None:
        return None
    return _split_part(maker, tensor, axes) if maker.op == "Split" else _slice_part(maker, shape)


def _split_part(maker: gs.Node, tensor: gs.Tensor, axes: int) -> Part | None:
    axis = int(maker.attrs.get("axis", 0)) % axes
    begin = 0
    for output in maker.outputs:
        shape = static_shape(output)
        if shape is None:
            return None
        if output is tensor:
            return maker.inputs[0], axis, begin, begin + shape[axis]
        begin += shape[axis]
    return None


def _slice_part(maker: gs.Node, shape: tuple[int, ...]) -> Part | None:
    """Of a Slice along a single axis; opset 9 has attributes."""
    if len(maker.inputs) == 1:
        starts, ends = maker.attrs["starts"], maker.attrs["ends"]
        axes = maker.attrs.get("axes") or list(range(len(starts)))
    else:
        values = [constant(t) if t.name else None for t in maker.inputs[1:]]
        if (
            values[0] is None
            or values[1] is None
            or any(v is None and t.name for v, t in zip(values, maker.inputs[1:], strict=True))
        ):
            return None
        starts, ends = values[0].tolist(), values[1].tolist()
        given = values[2] if len(values) > 2 else None
        axes = list(range(len(starts))) if given is None else given.tolist()
        if len(values) > 3 and values[3] is not None and (values[3] != 1).any():
            return None
    if len(starts) != 1:
        return None
    axis = int(axes[0]) % len(shape)
    begin, end, _ = slice(int(starts[0]), int(ends[0])).indices(shape[axis])
    return maker.inputs[0], axis, begin, max(begin, end)

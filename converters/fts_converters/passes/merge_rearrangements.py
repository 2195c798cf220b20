"""A chain of nodes that only move elements becomes the shortest one that moves them the same way.

Reshape, Flatten, Squeeze, Unsqueeze, Transpose, DepthToSpace and SpaceToDepth split axes into factors, reorder the factors
and join them. The factors are followed by name through the chain:

    input (a0 a1) (b)  ->  Reshape (a0) (a1) (b)  ->  Transpose (b) (a0) (a1)  ->  Reshape (b) (a0 a1)   =   Transpose 1 0

Two chains with the same order of factors and the same shape are equal, and what is left to do is, the shortest first:
nothing; Reshape, Transpose, DepthToSpace or SpaceToDepth alone; Transpose and Reshape in either order; all three. It is
written when it has fewer nodes than go away.

Requires: static shapes without zeros. Ensures: a value in between that others read stays. Does *not* follow a Reshape that
cuts across factors (6 as 2 x 3 taken for 4 x ...): the chain begins or ends there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_editing import TensorNames, bypass, finish
from fts_converters.passes.graph_reading import is_output, static_shape

MOVES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "DepthToSpace", "SpaceToDepth"})
# Longer chains are merged from their end, piece by piece.
LONGEST_CHAIN = 12

# A factor of an input axis: where it begins in the input's flat order, as (stride, size) in elements.
Factor = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """Where the elements of a tensor come from.

    Attributes:
        factors: Of the source's flat index, (stride, size), outermost of this tensor first; sizes above 1 only, and
            neighbours that follow each other in the source too are one.
        shape: Of this tensor.
    """

    factors: tuple[Factor, ...]
    shape: tuple[int, ...]


def merge_rearrangements(model: Model) -> PassResult:
    """Shortens chains from their end until none gets shorter."""
    graph = model.graph
    names = TensorNames(graph)
    is_changed = False
    while True:
        is_round_changed = False
        own = {id(n) for n in graph.nodes}
        for node in reversed(list(graph.nodes)):
            if node.op in MOVES and not node.domain and node.outputs and _shorten(graph, node, own, names, model.opset):
                is_round_changed = True
        if not is_round_changed:
            return PassResult(is_changed=is_changed)
        finish(graph)
        is_changed = True


def _shorten(graph: gs.Graph, last: gs.Node, own: set[int], names: TensorNames, opset: int) -> bool:
    """Try each beginning of the chain that ends here, and take the one that saves most."""
    chain = _chain(last, own)
    best: tuple[int, gs.Tensor, list[Step]] | None = None
    for length in range(1, len(chain) + 1):
        nodes = chain[:length]
        arrangement = _arrangement(nodes[::-1])
        source = nodes[-1].inputs[0]
        shape = static_shape(source)
        if arrangement is None or shape is None:
            break
        steps = shortest(shape, arrangement, opset)
        saved = _dying(graph, nodes) - len(steps)
        if saved > 0 and (best is None or saved > best[0]):
            best = (saved, source, steps)
    if best is None:
        return False
    _write(graph, last, best[1], best[2], names)
    return True


def _chain(last: gs.Node, own: set[int]) -> list[gs.Node]:
    """Moving nodes upstream, the last one first."""
    chain = [last]
    while len(chain) < LONGEST_CHAIN:
        source = chain[-1].inputs[0]
        maker = source.inputs[0] if len(source.inputs) == 1 else None
        if maker is None or maker.op not in MOVES or maker.domain or id(maker) not in own:
            break
        chain.append(maker)
    return chain


def _dying(graph: gs.Graph, nodes: list[gs.Node]) -> int:
    """How many of a chain go when its end is made otherwise: up to the first value that others read."""
    count = 1
    for node in nodes[1:]:
        if len(node.outputs[0].outputs) != 1 or is_output(graph, node.outputs[0]):
            break
        count += 1
    return count


def _arrangement(nodes: Sequence[gs.Node]) -> Arrangement | None:
    """Of a chain's result with respect to its source, nodes in order; None when a shape is unknown or factors are cut."""
    shape = static_shape(nodes[0].inputs[0])
    if shape is None or 0 in shape:
        return None
    current: Arrangement | None = identity(shape)
    for node in nodes:
        after = static_shape(node.outputs[0])
        if current is None or after is None or math.prod(after) != math.prod(current.shape):
            return None
        current = _moved(node, current, after)
    return current


def _moved(node: gs.Node, before: Arrangement, after: tuple[int, ...]) -> Arrangement | None:
    """What one node makes of an arrangement."""
    if node.op == "Transpose":
        perm = [int(p) for p in node.attrs.get("perm") or range(len(before.shape))[::-1]]
        return transposed(before, perm)
    if node.op in ("DepthToSpace", "SpaceToDepth"):
        if len(before.shape) != 4:
            return None
        return _blocks(before, node.op, int(node.attrs["blocksize"]), _text(node.attrs.get("mode", "DCR")))
    return reshaped(before, after)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def identity(shape: tuple[int, ...]) -> Arrangement:
    """Of a tensor with respect to itself."""
    size = math.prod(shape)
    return Arrangement(factors=((1, size),) if size > 1 else (), shape=shape)


def reshaped(before: Arrangement, shape: tuple[int, ...]) -> Arrangement:
    """The flat order is the same."""
    return Arrangement(factors=before.factors, shape=shape)


def transposed(before: Arrangement, perm: Sequence[int]) -> Arrangement | None:
    """Axes in another order; None when the factors cannot be split at the borders of the axes."""
    axes = by_axis(before.factors, before.shape)
    if axes is None:
        return None
    factors = [f for p in perm for f in axes[p]]
    return Arrangement(factors=joined(factors), shape=tuple(before.shape[p] for p in perm))


def by_axis(factors: Sequence[Factor], shape: Sequence[int]) -> list[list[Factor]] | None:
    """Factors dealt to axes, outermost first, split where an axis ends inside of one."""
    rest = list(factors)
    axes: list[list[Factor]] = []
    for size in shape:
        mine: list[Factor] = []
        missing = size
        while missing > 1:
            stride, have = rest.pop(0)
            if missing % have == 0:
                mine.append((stride, have))
                missing //= have
            elif have % missing == 0:
                inner = have // missing
                mine.append((stride * inner, missing))
                rest.insert(0, (stride, inner))
                missing = 1
            else:
                return None
        axes.append(mine)
    return axes


def joined(factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """Neighbours that are contiguous in the source become one."""
    merged: list[Factor] = []
    for stride, size in factors:
        if merged and merged[-1][0] == stride * size:
            merged[-1] = (stride, merged[-1][1] * size)
        else:
            merged.append((stride, size))
    return tuple(merged)


def _blocks(before: Arrangement, op: str, block: int, mode: str) -> Arrangement | None:
    """DepthToSpace and SpaceToDepth by their definition: a Reshape to six axes, a Transpose, a Reshape.

    Source: onnx Operators.md, DepthToSpace-13 and SpaceToDepth-13.
    """
    n, c, h, w = before.shape
    if op == "SpaceToDepth":
        split, perm = (n, c, h // block, block, w // block, block), (0, 3, 5, 1, 2, 4)
        after = (n, c * block * block, h // block, w // block)
    else:
        deep = c // (block * block)
        is_dcr = mode == "DCR"
        split = (n, block, block, deep, h, w) if is_dcr else (n, deep, block, block, h, w)
        perm = (0, 3, 4, 1, 5, 2) if is_dcr else (0, 1, 4, 2, 5, 3)
        after = (n, deep, h * block, w * block)
    moved = transposed(reshaped(before, split), perm)
    return None if moved is None else reshaped(moved, after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One node of the replacement.

    Attributes:
        op: Reshape, Transpose, DepthToSpace or SpaceToDepth.
        numbers: Target shape or permutation.
        shape: Of the result.
        block: Block size.
        mode: Of DepthToSpace; "" where the operator has none.
    """

    op: str
    shape: tuple[int, ...]
    numbers: tuple[int, ...] = ()
    block: int = 0
    mode: str = ""


def shortest(shape: tuple[int, ...], wanted: Arrangement, opset: int) -> list[Step]:
    """Fewest nodes that make `wanted` of a tensor of this shape."""
    if identity(shape).factors == wanted.factors:
        return [] if shape == wanted.shape else [_reshape(wanted.shape)]
    perm = _permutation(shape, wanted)
    if perm is not None:
        turned = tuple(shape[p] for p in perm)
        turn = Step(op="Transpose", numbers=perm, shape=turned)
        if turned == wanted.shape:
            return [turn]
        if (block := _block_step(shape, wanted, opset)) is not None:
            return [block]
        return [turn, _reshape(wanted.shape)]
    if (block := _block_step(shape, wanted, opset)) is not None:
        return [block]
    sizes = [size for _, size in wanted.factors]
    order = sorted(range(len(sizes)), key=lambda i: -wanted.factors[i][0])
    split = tuple(sizes[i] for i in order)
    back = tuple(order.index(i) for i in range(len(order)))
    whole = _axes_of_factors(wanted)
    if whole is not None:
        return whole
    return [
        _reshape(split),
        Step(op="Transpose", numbers=back, shape=tuple(sizes)),
        _reshape(wanted.shape),
    ]


def _reshape(shape: tuple[int, ...]) -> Step:
    return Step(op="Reshape", numbers=shape, shape=shape)


def _permutation(shape: tuple[int, ...], wanted: Arrangement) -> tuple[int, ...] | None:
    """A permutation of the source's own axes that gives the wanted order; axes of size 1 go where they are wanted."""
    own = by_axis(identity(shape).factors, shape)
    if own is None:
        return None
    long = [a for a, n in enumerate(shape) if n > 1]
    ones = [a for a, n in enumerate(shape) if n == 1]
    order: list[int] = []
    left = list(long)
    rest = list(wanted.factors)
    while rest:
        stride, size = rest[0]
        # the axis whose outermost element step is that of the factor's outermost part
        found = next((a for a in left if own[a][0][0] * shape[a] == stride * size), None)
        if found is None or size % shape[found]:
            return None
        left.remove(found)
        order.append(found)
        if size == shape[found]:
            rest.pop(0)
        else:
            rest[0] = (stride, size // shape[found])
    placed: list[int] = []
    queue, spare = list(order), list(ones)
    for n in wanted.shape:
        if n == 1 and spare:
            placed.append(spare.pop(0))
        elif queue:
            placed.append(queue.pop(0))
    return tuple([*placed, *queue, *spare])


def _axes_of_factors(wanted: Arrangement) -> list[Step] | None:
    """Reshape and Transpose, when each wanted axis is one run of the source."""
    axes = by_axis(wanted.factors, wanted.shape)
    if axes is None:
        return None
    runs = [joined(a) for a in axes]
    if any(len(run) > 1 for run in runs):
        return None
    order = sorted(range(len(runs)), key=lambda i: -(runs[i][0][0] if runs[i] else math.inf))
    split = tuple(wanted.shape[i] for i in order)
    back = tuple(order.index(i) for i in range(len(order)))
    return [_reshape(split), Step(op="Transpose", numbers=back, shape=wanted.shape)]


def _block_step(shape: tuple[int, ...], wanted: Arrangement, opset: int) -> Step | None:
    """DepthToSpace or SpaceToDepth, when one of them does it alone."""
    if len(shape) != 4 or len(wanted.shape) != 4 or shape[0] != wanted.shape[0]:
        return None
    for op, small, large in (("DepthToSpace", shape, wanted.shape), ("SpaceToDepth", wanted.shape, shape)):
        block = large[2] // small[2]
        if block < 2 or (small[2] * block, small[3] * block) != large[2:] or small[1] != large[1] * block * block:
            continue
        modes = ("DCR", "CRD") if op == "DepthToSpace" and opset >= 11 else ("DCR",)
        for mode in modes:
            if _blocks(identity(shape), op, block, mode) == wanted:
                return Step(op=op, shape=wanted.shape, block=block, mode=mode if len(modes) > 1 else "")
    return None


def _write(graph: gs.Graph, last: gs.Node, source: gs.Tensor, steps: list[Step], names: TensorNames) -> None:
    result = last.outputs[0]
    name = last.name
    last.outputs.clear()
    last.inputs.clear()
    current = source
    for i, step in enumerate(steps):
        is_last = i == len(steps) - 1
        made = result if is_last else names.variable(f"{result.name}_moved", source, list(step.shape))
        inputs, attrs = [current], dict[str, Any]()
        if step.op == "Reshape":
            inputs.append(names.constant(f"{result.name}_shape", np.array(step.numbers, np.int64)))
        elif step.op == "Transpose":
            attrs["perm"] = list(step.numbers)
        else:
            attrs["blocksize"] = step.block
            if step.mode:
                attrs["mode"] = step.mode
        graph.nodes.append(
            gs.Node(op=step.op, name=name if is_last else "", attrs=attrs, inputs=inputs, outputs=[made])
        )
        current = made
    if not steps:
        bridge = gs.Node(op="Identity", inputs=[source], outputs=[result])
        graph.nodes.append(bridge)
        bypass(graph, bridge)

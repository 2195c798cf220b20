"""Operators that move values by constant indices, in all the forms that they take, and Transpose of high rank."""

from __future__ import annotations

import math

import numpy as np
from tests.generators.builder import F16, F32, I64, Builder, Emitter, Value


def _data(b: Builder, low: int = 1, high: int = 4) -> Value:
    """(d1 … dr) with low <= r <= high, float32 or now and then float16."""
    shape = b.shape(b.integer(low, high), (1, 2, 3, 4, 5))
    return b.input(shape, F16 if b.chance(0.15) else F32)


def _updates(b: Builder, shape: tuple[int, ...], like: Value) -> Value:
    if b.chance(0.5):
        return b.input(shape, like.dtype)
    return b.const(b.rng.uniform(-1, 1, shape), like.dtype)


def scatter_nd_case(b: Builder) -> Value:
    """Rows, blocks, strides or any points, without repetition; negative indices; reductions."""
    x = _data(b)
    depth = b.integer(1, x.rank)
    rows = math.prod(x.shape[:depth])
    style = b.choose(("block", "stride", "points", "all"))
    if style == "block":
        start = b.integer(0, rows - 1)
        flat = np.arange(start, b.integer(start + 1, rows))
    elif style == "stride":
        flat = np.arange(b.integer(0, rows - 1), rows, b.integer(1, 3))
    else:
        flat = b.rng.permutation(rows)[: rows if style == "all" else b.integer(1, rows)]
    index = np.stack(np.unravel_index(flat, x.shape[:depth]), axis=-1)
    if b.chance(0.3):
        index = index - np.array(x.shape[:depth])  # the same places, counted from the end
    lead = (1, len(flat)) if b.chance(0.2) else (len(flat),)
    updates = _updates(b, (*lead, *x.shape[depth:]), x)
    reduction = b.choose((None, None, "add", "mul", *(("max", "min") if b.opset >= 18 else ())))
    if b.opset < 16 or x.dtype == F16:
        reduction = None
    inputs = [x, b.const(index.reshape(*lead, depth), I64), updates]
    return b.node("ScatterND", inputs, x.shape, x.dtype, x.mag + 1, reduction=reduction)


def scatter_elements_case(b: Builder) -> Value:
    """Distinct places along an axis, whole slices or fewer."""
    x = _data(b)
    axis = b.integer(0, x.rank - 1)
    shape = [n if b.chance(0.5) else b.integer(1, n) for n in x.shape]
    order = np.argsort(b.rng.random((*shape[:axis], x.shape[axis], *shape[axis + 1 :])), axis=axis)
    index = np.take(order, range(shape[axis]), axis=axis)
    if b.chance(0.3):
        index = index - x.shape[axis]
    reduction = b.choose((None, None, "add", "mul", *(("max", "min") if b.opset >= 18 else ())))
    if b.opset < 16 or x.dtype == F16:
        reduction = None
    inputs = [x, b.const(index, I64), _updates(b, tuple(shape), x)]
    place = axis if b.chance(0.5) else axis - x.rank
    return b.node("ScatterElements", inputs, x.shape, x.dtype, x.mag + 1, axis=place, reduction=reduction)


def gather_nd_case(b: Builder) -> Value:
    x = _data(b)
    batch = b.integer(0, x.rank - 1) if b.chance(0.4) else 0
    depth = b.integer(1, x.rank - batch)
    lead = (*x.shape[:batch], *b.shape(b.integer(0 if batch else 1, 2), (1, 2, 3)))
    index = np.stack([b.rng.integers(-n, n, lead) for n in x.shape[batch : batch + depth]], axis=-1)
    shape = (*lead, *x.shape[batch + depth :])
    return b.node("GatherND", [x, b.const(index, I64)], shape, x.dtype, x.mag, batch_dims=batch or None)


def gather_elements_case(b: Builder) -> Value:
    x = _data(b)
    axis = b.integer(0, x.rank - 1)
    shape = tuple(b.integer(1, 6) if i == axis else b.integer(1, n) for i, n in enumerate(x.shape))
    index = b.rng.integers(-x.shape[axis], x.shape[axis], shape)
    return b.node("GatherElements", [x, b.const(index, I64)], shape, x.dtype, x.mag, axis=axis)


def gather_case(b: Builder) -> Value:
    """Runs, reversals, repetitions and single places."""
    x = _data(b)
    axis = b.integer(0, x.rank - 1)
    n = x.shape[axis]
    style = b.choose(("scalar", "run", "reverse", "any", "matrix"))
    index = {
        "scalar": np.array(b.integer(-n, n - 1)),
        "run": np.arange(b.integer(0, n - 1), n),
        "reverse": np.arange(n)[::-1],
        "any": b.rng.integers(-n, n, b.integer(1, 40)),
        "matrix": b.rng.integers(-n, n, (2, 3)),
    }[style]
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return b.node("Gather", [x, b.const(index, I64)], shape, x.dtype, x.mag, axis=axis)


def transpose_high_rank(b: Builder) -> Value:
    """Reshape -> Transpose -> Reshape with 4 to 8 axes in between, as pixel shuffles and window partitions are written."""
    rank = b.integer(4, 8)
    sizes = [b.choose((1, 2, 2, 3)) for _ in range(rank)]
    while math.prod(sizes) > 600:
        sizes[b.integer(0, rank - 1)] = 1
    x = b.input((sizes[0], math.prod(sizes[1:])))
    split = b.reshape(x, sizes)
    turned = b.transpose(split, [int(p) for p in b.rng.permutation(rank)])
    return b.reshape(turned, (turned.shape[0], -1))


def elementwise_high_rank(b: Builder) -> Value:
    """Arithmetic, broadcasting and a reduction on 6 or 7 axes."""
    rank = b.integer(6, 7)
    sizes = [b.choose((1, 2, 2, 3)) for _ in range(rank)]
    while math.prod(sizes) > 500:
        sizes[b.integer(0, rank - 1)] = 1
    x = b.reshape(b.input((math.prod(sizes),)), sizes)
    start = b.integer(0, rank)
    small = [n if b.chance(0.5) else 1 for n in sizes]
    y = b.binary("Mul", x, b.const(b.rng.uniform(-1, 1, small[start:] or [1]), F32), 3.0)
    if b.chance(0.4):
        z = b.reshape(b.input((math.prod(small),)), small)
        y = b.binary("Add", y, z, 6.0)
    if b.chance(0.5):
        y = b.node("Relu", [y], y.shape, F32, y.mag)
    if b.chance(0.6):
        axes = sorted({b.integer(0, rank - 1), b.integer(0, rank - 1)})
        y = b.reduce(b.choose(("ReduceMean", "ReduceSum", "ReduceMax")), y, axes, b.chance(0.5), 600.0)
    return b.reshape(y, (-1,))


def depth_to_space_case(b: Builder) -> Value:
    r, c = b.integer(1, 3), b.integer(1, 3)
    x = b.input((b.integer(1, 2), c * r * r, b.integer(1, 4), b.integer(1, 4)))
    shape = (x.shape[0], c, x.shape[2] * r, x.shape[3] * r)
    return b.node("DepthToSpace", [x], shape, F32, x.mag, blocksize=r, mode=b.choose((None, "DCR", "CRD")))


def space_to_depth_case(b: Builder) -> Value:
    r = b.integer(1, 3)
    x = b.input((b.integer(1, 2), b.integer(1, 3), r * b.integer(1, 3), r * b.integer(1, 3)))
    shape = (x.shape[0], x.shape[1] * r * r, x.shape[2] // r, x.shape[3] // r)
    return b.node("SpaceToDepth", [x], shape, F32, x.mag, blocksize=r)


def trilu_case(b: Builder) -> Value:
    x = _data(b, 2, 4)
    k = b.const(b.integer(-2, 3), I64) if b.chance(0.7) else None
    return b.node("Trilu", [x, k], x.shape, x.dtype, x.mag, upper=b.choose((None, 0, 1)))


def expand_case(b: Builder) -> Value:
    x = b.input(tuple(b.choose((1, 1, 2, 3)) for _ in range(b.integer(1, 4))))
    target = [n if n > 1 and b.chance(0.5) else 1 if n > 1 else b.integer(1, 4) for n in x.shape]
    target = target[b.integer(0, x.rank - 1) :] if b.chance(0.3) else [*[2] * b.integer(0, 1), *target]
    shape = np.broadcast_shapes(x.shape, tuple(target))
    return b.node("Expand", [x, b.ints(*target)], shape, F32, x.mag)


def pad_case(b: Builder) -> Value:
    """Every mode but constant, on any axes; wrap came with opset 19."""
    x = b.input(b.shape(b.integer(1, 4), (2, 3, 4, 5)))
    mode = b.choose(("reflect", "reflect", "edge", *(("wrap",) if b.opset >= 19 else ())))
    most = [n - 1 if mode == "reflect" else n for n in x.shape]
    pads = [b.integer(0, min(3, most[i % x.rank])) if b.chance(0.6) else 0 for i in range(2 * x.rank)]
    return b.pad(x, pads, mode)


EMITTERS = (
    Emitter(emit=pad_case),
    Emitter(emit=scatter_nd_case),
    Emitter(emit=scatter_elements_case),
    Emitter(emit=gather_nd_case),
    Emitter(emit=gather_elements_case),
    Emitter(emit=gather_case),
    Emitter(emit=transpose_high_rank),
    Emitter(emit=elementwise_high_rank),
    Emitter(emit=depth_to_space_case),
    Emitter(emit=space_to_depth_case),
    Emitter(emit=trilu_case, since=14),
    Emitter(emit=expand_case),
)

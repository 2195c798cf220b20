"""Emitters of operators that move elements: reshape, slice, gather, pad, and what shapes are made of."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper
from tests.generators.builder import F32, I64, Builder, Emitter, Value


def reshape(b: Builder) -> Value:
    x = b.pick((2, 3, 4))
    target = b.choose(
        ([x.shape[0], -1], [-1], [0, -1], [1, *x.shape], [*x.shape[::-1]], [0, 0, -1] if x.rank > 2 else [0, 0])
    )
    return b.reshape(x, target)


def flatten(b: Builder) -> Value:
    x = b.pick((2, 3, 4))
    axis = b.choose((None, 0, 1, x.rank, -1 if b.opset >= 11 else 1))
    cut = 1 if axis is None else axis % x.rank if axis < 0 else axis
    rows = int(np.prod(x.shape[:cut], dtype=np.int64))
    return b.node("Flatten", [x], (rows, x.size // rows), F32, x.mag, axis=axis)


def squeeze_unsqueeze(b: Builder) -> Value:
    x = b.pick((1, 2, 3))
    y = b.unsqueeze(x, b.choose(((0,), (1,), (0, 2) if x.rank > 1 else (0,))))
    if b.chance(0.5):
        return y
    ones = [i for i, n in enumerate(y.shape) if n == 1]
    return b.squeeze(b.node("Relu", [y], y.shape, F32, y.mag), [b.choose(ones)])


def transpose(b: Builder) -> Value:
    x = b.pick((2, 3, 4))
    if b.chance(0.15):
        return b.node("Transpose", [x], x.shape[::-1], F32, x.mag)
    return b.transpose(x, [int(p) for p in b.rng.permutation(x.rank)])


def transpose_chain(b: Builder) -> Value:
    """Two or three permutations that cancel or leave one; a Relu between them now and then."""
    x = b.pick((3, 4))
    perm = [int(p) for p in b.rng.permutation(x.rank)]
    y = b.transpose(x, perm)
    if b.chance(0.4):
        y = b.node("Relu", [y], y.shape, F32, y.mag)
    second = [perm.index(i) for i in range(x.rank)] if b.chance(0.6) else [int(p) for p in b.rng.permutation(x.rank)]
    return b.transpose(y, second)


def identity_chain(b: Builder) -> Value:
    x = b.pick()
    for _ in range(b.integer(1, 3)):
        if b.chance(0.3):
            x = b.cast(x, F32)
        elif b.chance(0.3) and b.opset >= 12:
            x = b.node("Dropout", [x, b.scalar(0.5)], x.shape, F32, x.mag)
        elif b.chance(0.3) and b.opset < 12:
            x = b.node("Dropout", [x], x.shape, F32, x.mag, ratio=0.3)
        else:
            x = b.node("Identity", [x], x.shape, F32, x.mag)
    return x


def concat(b: Builder) -> Value:
    x = b.pick((1, 2, 3, 4))
    same = [v for v in b.pool if v.dtype == F32 and v.shape == x.shape]
    others = [b.choose(same) for _ in range(b.integer(1, 2))]
    if b.chance(0.3):
        others.append(b.const(b.rng.uniform(-1, 1, x.shape), F32))
    axis = b.integer(-x.rank if b.opset >= 11 else 0, x.rank - 1)
    parts = [x, *others]
    shape = [n * len(parts) if i == axis % x.rank else n for i, n in enumerate(x.shape)]
    return b.node("Concat", parts, shape, F32, max(v.mag for v in parts), axis=axis)


def split(b: Builder) -> Value:
    x = b.pick((2, 3, 4), where=lambda v: max(v.shape) >= 2)
    axis = int(np.argmax(x.shape))
    n = x.shape[axis]
    first = b.integer(1, n - 1)
    if n % 2 == 0 and b.chance(0.3) and b.opset < 18:
        half = tuple(n // 2 if i == axis else m for i, m in enumerate(x.shape))
        return b.multi("Split", [x], [(half, F32, x.mag)] * 2, axis=axis)[1]
    return b.split(x, (first, n - first), axis)[b.integer(0, 1)]


def slice_(b: Builder) -> Value:
    x = b.pick((1, 2, 3, 4), where=lambda v: max(v.shape) >= 2)
    axis = int(np.argmax(x.shape))
    n = x.shape[axis]
    if b.opset >= 10 and b.chance(0.4):
        start, end, step = b.choose(((n - 1, -n - 1, -1), (0, n, 2), (-1, -(2**31), -1), (1, 2**31 - 1, 2)))
        return b.slice(x, [start], [end], [axis], [step])
    start, end = b.choose(((1, 2**31 - 1), (0, -1), (0, n), (-2, n), (n // 2, n)))
    return b.slice(x, [start], [end], [axis])


def no_op_pad_slice(b: Builder) -> Value:
    x = b.pick((3, 4))
    if b.chance(0.5):
        return b.pad(x, [0] * 2 * x.rank)
    return b.slice(x, [0], [2**31 - 1], [1])


def gather(b: Builder) -> Value:
    x = b.pick((1, 2, 3, 4))
    axis = b.integer(0, x.rank - 1)
    n = x.shape[axis]
    low = -n if b.opset >= 11 else 0
    index = b.rng.integers(low, n, b.choose(((), (1,), (2,), (2, 2))))
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return b.node("Gather", [x, b.const(index, I64)], shape, F32, x.mag, axis=axis)


def gather_elements(b: Builder) -> Value:
    x = b.pick((1, 2, 3))
    axis = b.integer(0, x.rank - 1)
    shape = [b.integer(1, n) for n in x.shape]
    index = b.rng.integers(0, x.shape[axis], shape)
    return b.node("GatherElements", [x, b.const(index, I64)], shape, F32, x.mag, axis=axis)


def gather_nd(b: Builder) -> Value:
    x = b.pick((2, 3))
    index = np.stack([b.rng.integers(0, n, 3) for n in x.shape[:2]], axis=1)
    return b.node("GatherND", [x, b.const(index, I64)], (3, *x.shape[2:]), F32, x.mag)


def scatter_nd(b: Builder) -> Value:
    x = b.pick((2, 3))
    rows = b.rng.permutation(x.shape[0])[: b.integer(1, x.shape[0])].reshape(-1, 1)
    shape = (len(rows), *x.shape[1:])
    same = [v for v in b.pool if v.dtype == F32 and v.shape == shape]
    update = b.choose(same) if same and b.chance(0.5) else b.const(b.rng.uniform(-1, 1, shape), F32)
    return b.node("ScatterND", [x, b.const(rows, I64), update], x.shape, F32, max(x.mag, update.mag))


def scatter_elements(b: Builder) -> Value:
    x = b.pick((2, 3), where=lambda v: v.shape[0] >= 2)
    index = np.full((1, *x.shape[1:]), b.integer(0, x.shape[0] - 1))
    update = b.const(b.rng.uniform(-1, 1, index.shape), F32)
    op = "ScatterElements" if b.opset >= 11 else "Scatter"
    return b.node(op, [x, b.const(index, I64), update], x.shape, F32, max(x.mag, 1), axis=0)


def expand_tile(b: Builder) -> Value:
    x = b.pick((1, 2, 3), where=lambda v: v.size <= 100)
    if b.chance(0.5):
        repeats = [b.integer(1, 2) for _ in x.shape]
        return b.node("Tile", [x, b.ints(*repeats)], [n * r for n, r in zip(x.shape, repeats, strict=True)], F32, x.mag)
    target = [2, *(n if b.chance(0.5) else 1 for n in x.shape)]
    return b.node("Expand", [x, b.ints(*target)], np.broadcast_shapes(x.shape, tuple(target)), F32, x.mag)


def pad(b: Builder) -> Value:
    x = b.pick((2, 3, 4), where=lambda v: v.size <= 300)
    mode = b.choose(("constant", "constant", "reflect", "edge"))
    if mode == "reflect":
        pads = [b.integer(0, min(2, n - 1)) for n in x.shape] * 2
        pads = [0 if i % x.rank < x.rank - 2 else p for i, p in enumerate(pads)]
    else:
        pads = [b.integer(0, 2) for _ in range(2 * x.rank)]
    if mode == "constant" and b.chance(0.15):
        i = int(np.argmax(x.shape))
        pads[i] = -1 if x.shape[i] > 2 else 0  # a negative pad crops
    return b.pad(x, pads, mode, b.choose((None, 0.0, 0.5, -1.0)) if mode == "constant" else None)


def depth_space(b: Builder) -> Value:
    if b.chance(0.6):
        least = b.choose((4, 8, 8))  # with one channel left the two modes agree
        x = b.pick(4, where=lambda v: v.shape[1] % 4 == 0 and v.shape[1] >= least)
        n, c, h, w = x.shape
        mode = b.choose((None, "DCR", "CRD")) if b.opset >= 11 else None
        return b.node("DepthToSpace", [x], (n, c // 4, 2 * h, 2 * w), F32, x.mag, blocksize=2, mode=mode)
    x = b.pick(4, where=lambda v: v.shape[2] % 2 == 0 and v.shape[3] % 2 == 0)
    n, c, h, w = x.shape
    return b.node("SpaceToDepth", [x], (n, 4 * c, h // 2, w // 2), F32, x.mag, blocksize=2)


def constant_of_shape(b: Builder) -> Value:
    x = b.pick((2, 3))
    value = (
        helper.make_tensor("value", TensorProto.FLOAT, [1], [float(b.rng.uniform(-1, 1))]) if b.chance(0.7) else None
    )
    ones = b.node("ConstantOfShape", [b.ints(*x.shape)], x.shape, F32, 1.0, value=value)
    return b.binary("Add", x, ones, x.mag + 1)


def shape_of(b: Builder) -> Value:
    """Shape as data: the sizes enter the arithmetic."""
    x = b.pick((2, 3, 4))
    sizes = b.node("Shape", [x], (x.rank,), I64, 64.0)
    scaled = b.binary("Mul", b.cast(sizes, F32), b.scalar(0.1), 6.4)
    if b.chance(0.3):
        count = b.node("Size", [x], (), I64, 2000.0)
        scaled = b.binary("Add", scaled, b.binary("Mul", b.cast(count, F32), b.scalar(0.001), 2.0), 8.4)
    return scaled


def range_(b: Builder) -> Value:
    """0, 1, ... up to a size, added along the last axis as a position."""
    x = b.pick((1, 2, 3, 4))
    n = x.shape[-1]
    if b.chance(0.5):
        sizes = b.node("Shape", [x], (x.rank,), I64, 64.0)
        stop = b.node("Gather", [sizes, b.const(-1 if b.opset >= 11 else x.rank - 1, I64)], (), I64, 64.0, axis=0)
    else:
        stop = b.const(n, I64)
    steps = b.node("Range", [b.const(0, I64), stop, b.const(1, I64)], (n,), I64, 64.0)
    return b.binary("Add", x, b.binary("Mul", b.cast(steps, F32), b.scalar(0.25), n * 0.25), x.mag + n * 0.25)


def one_hot_eye_trilu(b: Builder) -> Value:
    x = b.pick(2)
    if b.chance(0.4) and b.opset >= 14:
        k = b.choose((None, 1, -1))
        inputs = [x] if k is None else [x, b.const(k, I64)]
        return b.node("Trilu", inputs, x.shape, F32, x.mag, upper=b.choose((None, 0)))
    if b.chance(0.5):
        eye = b.node("EyeLike", [x], x.shape, F32, 1.0, k=b.choose((None, 1)))
        return b.binary("Add", x, eye, x.mag + 1)
    index = b.const(b.rng.integers(0, x.shape[1], x.shape[0]), I64)
    hot = b.node("OneHot", [index, b.const(x.shape[1], I64), b.const([0.0, 1.0], F32)], x.shape, F32, 1.0)
    return b.binary("Mul", x, hot, x.mag)


EMITTERS = (
    Emitter(emit=reshape, weight=1.5),
    Emitter(emit=flatten),
    Emitter(emit=squeeze_unsqueeze),
    Emitter(emit=transpose),
    Emitter(emit=transpose_chain, weight=1.5),
    Emitter(emit=identity_chain, weight=1.5),
    Emitter(emit=concat, weight=1.5),
    Emitter(emit=split),
    Emitter(emit=slice_, weight=1.5),
    Emitter(emit=no_op_pad_slice),
    Emitter(emit=gather, weight=1.5),
    Emitter(emit=gather_elements, since=11),
    Emitter(emit=gather_nd, since=11),
    Emitter(emit=scatter_nd, since=11),
    Emitter(emit=scatter_elements, weight=1.5),
    Emitter(emit=expand_tile),
    Emitter(emit=pad, weight=2),
    Emitter(emit=depth_space, weight=1.5),
    Emitter(emit=constant_of_shape),
    Emitter(emit=shape_of),
    Emitter(emit=range_, since=11),
    Emitter(emit=one_hot_eye_trilu, weight=1.5),
)

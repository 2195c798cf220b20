"""Emitters of chains that only move elements, and of parts that are put together again as they were."""

from __future__ import annotations

import math

import numpy as np
from tests.generators.builder import BOOL, F16, F32, F64, I64, Builder, Emitter, Value


def _factors(n: int) -> list[int]:
    """A factor of n, or n itself: [a, n / a]."""
    for a in (2, 3, 5):
        if n % a == 0 and n > a:
            return [a, n // a]
    return [n]


def _split_all(b: Builder, shape: tuple[int, ...]) -> list[int]:
    parts: list[int] = []
    for n in shape:
        parts += _factors(n) if b.chance(0.7) else [n]
    return parts if len(parts) <= 6 else list(shape)


def _merged(b: Builder, shape: tuple[int, ...]) -> list[int]:
    """Some neighbours multiplied, a 1 put in now and then."""
    merged: list[int] = []
    for n in shape:
        if merged and b.chance(0.5):
            merged[-1] *= n
        else:
            merged.append(n)
    if b.chance(0.2):
        merged.insert(b.integer(0, len(merged)), 1)
    return merged


def rearrangement(b: Builder) -> Value:
    """Up to six of Reshape, Transpose, Squeeze, Unsqueeze, Flatten, DepthToSpace; a value in between has another reader."""
    x = b.pick((2, 3, 4), where=lambda v: v.size <= 400)
    y = x
    for _ in range(b.integer(2, 6)):
        kind = b.choose(("split", "merge", "turn", "turn", "unsqueeze", "squeeze", "flatten", "depth"))
        if kind == "split":
            y = b.reshape(y, _split_all(b, y.shape))
        elif kind == "merge":
            y = b.reshape(y, _merged(b, y.shape))
        elif kind == "turn" and y.rank > 1:
            y = b.transpose(y, [int(p) for p in b.rng.permutation(y.rank)])
        elif kind == "unsqueeze" and y.rank < 6:
            y = b.unsqueeze(y, (b.integer(0, y.rank),))
        elif kind == "squeeze" and 1 in y.shape and y.rank > 1:
            y = b.squeeze(y, (y.shape.index(1),))
        elif kind == "flatten" and y.rank > 1:
            cut = b.integer(1, y.rank - 1)
            y = b.node("Flatten", [y], (math.prod(y.shape[:cut]), math.prod(y.shape[cut:])), F32, y.mag, axis=cut)
        elif kind == "depth" and y.rank == 4 and y.shape[1] % 4 == 0:
            n, c, h, w = y.shape
            y = b.node("DepthToSpace", [y], (n, c // 4, 2 * h, 2 * w), F32, y.mag, blocksize=2)
        if b.chance(0.08):
            b.node("Neg", [y], y.shape, F32, y.mag)
    return y


def there_and_back(b: Builder) -> Value:
    """A Reshape-Transpose-Reshape and its inverse behind it, whole or one part short."""
    x = b.pick(4, where=lambda v: v.shape[1] % 2 == 0)
    n, c, h, w = x.shape
    y = b.reshape(x, (n, 2, c // 2, h, w))
    y = b.reshape(b.transpose(y, (0, 2, 1, 3, 4)), (n, c, h, w))
    if b.chance(0.3):
        y = b.node("Relu", [y], y.shape, F32, y.mag)
    y = b.reshape(y, (n, c // 2, 2, h, w) if b.chance(0.8) else (n, 2, c // 2, h, w))
    y = b.transpose(y, (0, 2, 1, 3, 4))
    return b.reshape(y, (n, c, h, w)) if b.chance(0.8) else y


def space_to_depth_spelled(b: Builder) -> Value:
    """Both orders of a pixel unshuffle: the operator has one of them; through 6 axes, or with ones in between."""
    x = b.pick(4, where=lambda v: v.size <= 300)
    n, c, h, w = x.shape
    y = b.pad(x, [0, 0, 0, 0, 0, 0, h % 2, w % 2]) if h % 2 or w % 2 else x
    h, w = h + h % 2, w + w % 2
    z = b.reshape(y, (n, c, h // 2, 2, w // 2, 2))
    if b.chance(0.3):
        z = b.squeeze(b.unsqueeze(z, (1,)), (1,))
    perm = b.choose(((0, 3, 5, 1, 2, 4), (0, 1, 3, 5, 2, 4)))
    return b.reshape(b.transpose(z, perm), (n, 4 * c, h // 2, w // 2))


def parts_joined(b: Builder) -> Value:
    """Concat of all parts of a tensor, by Split or by Slices, in order or not quite."""
    x = b.pick((2, 3, 4), where=lambda v: max(v.shape) >= 2)
    axis = int(np.argmax(x.shape))
    n = x.shape[axis]
    cut = b.integer(1, n - 1)
    if b.chance(0.5):
        parts = b.split(x, (cut, n - cut), axis)
    else:
        parts = [b.slice(x, [0], [cut], [axis]), b.slice(x, [cut], [b.choose((n, 2**31 - 1))], [axis])]
    if b.chance(0.25) and 2 * cut == n:
        parts.reverse()
    if b.chance(0.2):
        parts.append(x)
    total = sum(p.shape[axis] for p in parts)
    shape = [total if a == axis else m for a, m in enumerate(x.shape)]
    return b.node("Concat", parts, shape, F32, x.mag, axis=axis)


def cancelling_pair(b: Builder) -> Value:
    """Neg Neg, Not Not, Relu Relu, Abs Neg Neg: the second undoes or repeats the first."""
    x = b.pick()
    kind = b.choose(("Neg", "Relu", "Abs", "Not", "Reciprocal"))
    if kind == "Not":
        y = b.binary("Greater", b.pick((1, 2), exact=True), b.scalar(0.1), 1.0, BOOL)
        y = b.node("Not", [b.node("Not", [y], y.shape, BOOL, 1.0)], y.shape, BOOL, 1.0)
        return b.cast(y, F32)
    if kind == "Reciprocal":
        y = b.positive(x)
        return b.node("Reciprocal", [b.node("Reciprocal", [y], y.shape, F32, 4.0)], y.shape, F32, y.mag)
    return b.node(kind, [b.node(kind, [x], x.shape, F32, x.mag)], x.shape, F32, x.mag)


def no_op_of_ones(b: Builder) -> Value:
    """A Gather of every index, a reduction over axes of size one, a Dropout with an unread mask, a block of one."""
    x = b.pick((2, 3, 4))
    kind = b.choose(("gather", "reduce", "dropout", "depth", "expand"))
    if kind == "gather":
        axis = b.integer(0, x.rank - 1)
        index = b.const(np.arange(x.shape[axis]), I64)
        return b.node("Gather", [x, index], x.shape, F32, x.mag, axis=axis)
    if kind == "reduce":
        y = b.unsqueeze(b.node("Relu", [x], x.shape, F32, x.mag), (1,))
        return b.reduce(b.choose(("ReduceMean", "ReduceSum", "ReduceMax")), y, (1,), True, x.mag)
    if kind == "dropout":
        inputs = [x, b.scalar(0.5)] if b.opset >= 12 else [x]
        mask = BOOL if b.opset >= 10 else F32
        y, _ = b.multi("Dropout", inputs, [(x.shape, F32, x.mag), (x.shape, mask, 1.0)], keep=False)
        b.pool.append(y)  # and not the mask, which inference left undefined before opset 12
        return y
    if kind == "depth" and x.rank == 4:
        return b.node("DepthToSpace", [x], x.shape, F32, x.mag, blocksize=1)
    return b.node("Expand", [x, b.ints(*x.shape)], x.shape, F32, x.mag)


def cast_chain(b: Builder) -> Value:
    """Casts there and back: through a wider type, which is exact, and through a narrower one, which is not."""
    x = b.pick()
    through = [F64, F32, F64, F32] if b.chance(0.4) else [F64, F32]
    if b.chance(0.2) and x.exact:
        through = [F16, F32]
    y = x
    for dtype in through:
        y = b.cast(y, dtype, keep=False)
    # onnxruntime 1.32 merges casts without looking into subgraphs, so none may read the last one
    return b.node("Neg", [y], y.shape, F32, y.mag)


EMITTERS = (
    Emitter(emit=rearrangement, weight=2.5),
    Emitter(emit=there_and_back, weight=1.2),
    Emitter(emit=space_to_depth_spelled, weight=1.2, since=9),
    Emitter(emit=parts_joined, weight=1.2),
    Emitter(emit=cancelling_pair),
    Emitter(emit=no_op_of_ones, weight=1.2),
    Emitter(emit=cast_chain),
)

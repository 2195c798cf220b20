"""Emitters of what exporters really write: operators spelled out, shape arithmetic, blocks of image nets."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, helper
from tests.generators.builder import F32, I64, Builder, Emitter, Value
from tests.generators.convolution import convolve


def _spread(v: Value) -> bool:
    return v.rank == 4 and v.shape[2] * v.shape[3] >= 6


def _norm_over(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """(x - mean) / sqrt(var + eps), in one of the spellings of the exporters."""
    mean = b.reduce("ReduceMean", x, axes, True, x.mag)
    centred = b.binary("Sub", x, mean, 2 * x.mag)
    square = b.choose(("Pow", "Mul", "Mul twice"))
    if square == "Pow":
        squared = b.binary("Pow", centred, b.scalar(2.0), 4 * x.mag**2)
    elif square == "Mul":
        squared = b.binary("Mul", centred, centred, 4 * x.mag**2)
    else:
        again = b.binary("Sub", x, mean, 2 * x.mag)
        squared = b.binary("Mul", again, again, 4 * x.mag**2)
    variance = b.reduce("ReduceMean", squared, axes, True, 4 * x.mag**2)
    shifted = b.binary("Add", variance, b.scalar(b.choose((1e-5, 1e-3, 1e-2))), variance.mag + 1)
    root = b.node("Sqrt", [shifted], shifted.shape, F32, math.sqrt(shifted.mag))
    bound = x.size**0.5
    if b.chance(0.6):
        return b.binary("Div", centred, root, bound)
    inverse = b.node("Reciprocal", [root], root.shape, F32, 320.0)
    return b.binary("Mul", centred, inverse, bound)


def _affine(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    y = b.binary("Mul", x, b.const(b.rng.uniform(0.4, 1.6, shape), F32), 1.6 * x.mag)
    return b.binary("Add", y, b.const(b.rng.uniform(-1, 1, shape), F32), y.mag + 1)


def spelled_instance_norm(b: Builder) -> Value:
    x = b.pick(4, where=_spread, mag=8.0)
    return _affine(b, _norm_over(b, x, (2, 3)), (1, x.shape[1], 1, 1))


def spelled_group_norm(b: Builder) -> Value:
    """Reshape to (n, groups, -1), InstanceNormalization with ones and zeros, Reshape back, scale and shift."""
    x = b.pick(4, where=lambda v: _spread(v) and v.shape[1] % 2 == 0, mag=8.0)
    groups = b.choose([g for g in range(1, x.shape[1] + 1) if x.shape[1] % g == 0])
    y = b.reshape(x, b.choose(((0, groups, -1), (x.shape[0], groups, -1))))
    y = b.node(
        "InstanceNormalization",
        [y, b.const(np.ones(groups), F32), b.const(np.zeros(groups), F32)],
        y.shape,
        F32,
        y.size**0.5,
        epsilon=1e-5,
    )
    return _affine(b, b.reshape(y, x.shape), (x.shape[1], 1, 1))


def spelled_layer_norm(b: Builder) -> Value:
    x = b.pick((2, 3), where=lambda v: v.shape[-1] >= 3, mag=8.0)
    return _affine(b, _norm_over(b, x, (x.rank - 1,)), (x.shape[-1],))


def spelled_rms_norm(b: Builder) -> Value:
    x = b.pick((2, 3, 4), mag=8.0)
    squared = b.binary("Pow", x, b.scalar(2.0), x.mag**2)
    mean = b.reduce("ReduceMean", squared, (x.rank - 1,), True, x.mag**2)
    shifted = b.binary("Add", mean, b.scalar(1e-2), mean.mag + 1)
    root = b.node("Sqrt", [shifted], shifted.shape, F32, x.mag + 1)
    scale = b.node("Reciprocal", [root], root.shape, F32, 10.0)
    return b.binary("Mul", b.binary("Mul", x, scale, 10.0), b.vector(x.shape[-1], 0.4, 1.6), 16.0)


def spelled_l2_normalize(b: Builder) -> Value:
    x = b.pick((2, 3, 4), mag=8.0)
    norm = b.reduce("ReduceL2", x, (1,), True, x.mag * x.shape[1])
    if b.chance(0.6):
        norm = b.clip(norm, 1e-1, None)
    else:
        norm = b.binary("Max", norm, b.scalar(0.1), norm.mag)
    if b.opset >= 8 and b.chance(0.5):
        norm = b.node("Expand", [norm, b.node("Shape", [x], (x.rank,), I64, 64.0)], x.shape, F32, norm.mag)
    return b.binary("Div", x, norm, 10 * x.mag)


def spelled_gelu(b: Builder) -> Value:
    x = b.pick(mag=8.0)
    if b.chance(0.5):
        inner = b.binary("Div", x, b.scalar(math.sqrt(2)), x.mag)
        gate = b.node("Erf", [inner], x.shape, F32, 1.0)
    else:
        cube = b.binary("Pow", x, b.scalar(3.0), x.mag**3)
        inner = b.binary("Add", x, b.binary("Mul", cube, b.scalar(0.044715), x.mag**3), x.mag**3 + x.mag)
        inner = b.binary("Mul", inner, b.scalar(math.sqrt(2 / math.pi)), inner.mag)
        gate = b.node("Tanh", [inner], x.shape, F32, 1.0)
    gate = b.binary("Add", gate, b.scalar(1.0), 2.0)
    if b.chance(0.5):
        return b.binary("Mul", b.binary("Mul", x, gate, 2 * x.mag), b.scalar(0.5), x.mag)
    return b.binary("Mul", x, b.binary("Mul", gate, b.scalar(0.5), 1.0), x.mag)


def spelled_silu(b: Builder) -> Value:
    x = b.pick()
    gate = b.node("Sigmoid", [x], x.shape, F32, 1.0)
    return b.binary("Mul", *((x, gate) if b.chance(0.5) else (gate, x)), mag=x.mag)


def spelled_hard_swish(b: Builder) -> Value:
    x = b.pick(mag=8.0)
    if b.chance(0.6):  # so that the lower bound takes part: feeds end at -3
        x = b.binary("Mul", x, b.scalar(2.5), 2.5 * x.mag)
    if b.chance(0.5):
        gate = b.node("HardSigmoid", [x], x.shape, F32, 1.0, alpha=1 / 6, beta=0.5)
        return b.binary("Mul", x, gate, x.mag)
    gate = b.clip(b.binary("Add", x, b.scalar(3.0), x.mag + 3), 0.0, 6.0)
    return b.binary("Div", b.binary("Mul", x, gate, 6 * x.mag), b.scalar(6.0), x.mag)


def spelled_pixel_shuffle(b: Builder) -> Value:
    least = b.choose((4, 8, 8))  # with one channel left the two orders agree
    x = b.pick(4, where=lambda v: v.shape[1] % 4 == 0 and v.shape[1] >= least)
    n, c, h, w = x.shape
    dcr = b.chance(0.5)
    split, perm = (
        ((n, 2, 2, c // 4, h, w), (0, 3, 4, 1, 5, 2)) if dcr else ((n, c // 4, 2, 2, h, w), (0, 1, 4, 2, 5, 3))
    )
    if b.chance(0.15):
        perm = (perm[0], perm[1], *perm[3:5], perm[2], perm[5])  # looks alike, is none
        y = b.transpose(b.reshape(x, split), perm)
        return b.reshape(y, (n, -1, h, w))
    y = b.transpose(b.reshape(x, split), perm)
    return b.reshape(y, (n, c // 4, 2 * h, 2 * w))


def channel_shuffle(b: Builder) -> Value:
    x = b.pick(4, where=lambda v: v.shape[1] % 2 == 0)
    n, c, h, w = x.shape
    return b.reshape(b.transpose(b.reshape(x, (n, 2, c // 2, h, w)), (0, 2, 1, 3, 4)), (n, c, h, w))


def attention(b: Builder) -> Value:
    x = b.pick(3, where=lambda v: v.shape[1] >= 2, mag=4.0)
    n, t, d = x.shape
    heads, width = b.choose((1, 2)), b.choose((2, 3))
    parts = []
    for _ in range(3):
        y = b.node("MatMul", [x, b.weight((d, heads * width), (0,))], (n, t, heads * width), F32, 1.5 * x.mag)
        y = b.binary("Add", y, b.vector(heads * width), y.mag + 1)
        parts.append(b.transpose(b.reshape(y, (n, t, heads, width)), (0, 2, 1, 3)))
    q, k, v = parts
    scores = b.node("MatMul", [q, b.transpose(k, (0, 1, 3, 2))], (n, heads, t, t), F32, q.mag * k.mag * width)
    scale = b.scalar(math.sqrt(width)) if b.chance(0.5) else None
    if scale is not None:
        scores = b.binary("Div", scores, scale, scores.mag)
    else:
        scores = b.binary("Mul", scores, b.scalar(1 / math.sqrt(width)), scores.mag)
    weights = b.node("Softmax", [scores], scores.shape, F32, 1.0, axis=3 if b.opset < 13 else -1)
    y = b.node("MatMul", [weights, v], v.shape, F32, v.mag)
    return b.reshape(b.transpose(y, (0, 2, 1, 3)), (n, t, heads * width))


def shape_gather_concat_reshape(b: Builder) -> Value:
    """x.view(x.shape[0], -1) and the like, as tracing writes it."""
    x = b.pick((3, 4))
    sizes = b.node("Shape", [x], (x.rank,), I64, 64.0)
    parts = []
    keep = b.integer(1, 2)
    for axis in range(keep):
        if b.chance(0.7):
            size = b.node("Gather", [sizes, b.const(axis, I64)], (), I64, 64.0, axis=0)
            if b.chance(0.2):
                size = b.binary("Mul", size, b.const(1, I64), 64.0)
            parts.append(b.unsqueeze(size, (0,)))
        else:
            parts.append(b.slice(sizes, [axis], [axis + 1], [0]))
    parts.append(b.ints(-1))
    target = b.node("Concat", parts, (keep + 1,), I64, 64.0, axis=0)
    return b.node("Reshape", [x, target], b._filled(x, (*x.shape[:keep], -1)), F32, x.mag)


def resize_to_shape_of(b: Builder) -> Value:
    """Resize to twice the size of x, sizes by Shape, Slice, Mul, Concat, as F.interpolate is traced."""
    x = b.pick(image=2)
    sizes = b.node("Shape", [x], (4,), I64, 64.0)
    front = b.slice(sizes, [0], [2], [0])
    back = b.slice(sizes, [2], [4], [0])
    doubled = b.binary("Mul", back, b.const([2, 2], I64), 64.0)
    target = b.node("Concat", [front, doubled], (4,), I64, 64.0, axis=0)
    empty = b.const(np.zeros(0), F32)
    mode = b.choose(("nearest", "linear"))
    return b.node(
        "Resize",
        [x, empty if b.opset < 13 else None, empty if b.opset < 13 else None, target],
        (*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]),
        F32,
        x.mag,
        mode=mode,
        coordinate_transformation_mode="asymmetric"
        if mode == "nearest"
        else b.choose(("half_pixel", "pytorch_half_pixel", "align_corners")),
        nearest_mode="floor" if mode == "nearest" else None,
    )


def sizes_scaled_in_float(b: Builder) -> Value:
    """Sizes cast to float, scaled, cast back to integers, and used to resize; the factor is no integer."""
    x = b.pick(image=2)
    sizes = b.cast(b.slice(b.node("Shape", [x], (4,), I64, 64.0), [2], [4], [0]), F32)
    factor = b.choose((0.5, 1.5, 2.5))
    scaled = b.node("Mul", [sizes, b.const([factor, factor], F32)], (2,), F32, 64.0)
    back = b.cast(b.node("Floor", [scaled], (2,), F32, 64.0) if b.chance(0.3) else scaled, I64)
    if b.chance(0.5):
        return back
    target = b.node(
        "Concat", [b.slice(b.node("Shape", [x], (4,), I64, 64.0), [0], [2], [0]), back], (4,), I64, 64.0, axis=0
    )
    empty = b.const(np.zeros(0), F32) if b.opset < 13 else None
    shape = (*x.shape[:2], *(int(n * factor) for n in x.shape[2:]))
    return b.node(
        "Resize",
        [x, empty, empty, target],
        shape,
        F32,
        x.mag,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def partial_shape(b: Builder) -> Value:
    """Shape with start and end, from opset 15 on, as data and as the target of a Reshape."""
    x = b.pick((3, 4))
    start, end = b.choose(((1, None), (None, 2), (-2, None), (None, -1), (1, -1), (0, 2)))
    sizes = x.shape[start or 0 : end]
    part = b.node("Shape", [x], (len(sizes),), I64, 64.0, start=start, end=end)
    if b.chance(0.4):
        return part
    target = b.node("Concat", [part, b.ints(-1)], (len(sizes) + 1,), I64, 64.0, axis=0)
    return b.node("Reshape", [x, target], (*sizes, x.size // math.prod(sizes)), F32, x.mag)


def pad_chain(b: Builder) -> Value:
    """nn.functional.pad as torch writes it: pads by ConstantOfShape, Concat, Reshape, Slice, Transpose, Cast."""
    x = b.pick(4, where=lambda v: min(v.shape[2:]) >= 2 and v.size <= 400)
    n, w_end = 1, b.choose((0, 1))
    given = b.ints(n, w_end, n, n)
    # torch's order is last axis first (w begin, w end, h begin, h end), then zeros for c and n
    zero = helper.make_tensor("value", TensorProto.INT64, [1], [0])
    rest = b.node("ConstantOfShape", [b.ints(4)], (4,), I64, 0.0, value=zero)
    pads = b.node("Concat", [given, rest], (8,), I64, 2.0, axis=0)
    pads = b.reshape(pads, (-1, 2))
    pads = b.slice(pads, [-1], [-(2**63) + 1], [0], [-1])
    pads = b.transpose(pads, (1, 0))
    pads = b.cast(b.reshape(pads, (-1,)), I64)
    shape = (*x.shape[:2], x.shape[2] + 2 * n, x.shape[3] + n + w_end)
    inputs: list[Value | None] = [x, pads]
    mode = b.choose(("constant", "reflect"))
    if mode == "constant" and b.chance(0.5):
        inputs.append(b.scalar(0.0))
    return convolve(b, b.node("Pad", inputs, shape, F32, x.mag, mode=mode))


def squeeze_excite(b: Builder) -> Value:
    x = b.pick(image=2)
    c = x.shape[1]
    y = b.node("GlobalAveragePool", [x], (x.shape[0], c, 1, 1), F32, x.mag)
    y = b.node("Conv", [y, b.weight((2, c, 1, 1), (1, 2, 3)), b.vector(2)], (x.shape[0], 2, 1, 1), F32, 1.5 * y.mag + 1)
    y = b.node("Relu", [y], y.shape, F32, y.mag)
    y = b.node("Conv", [y, b.weight((c, 2, 1, 1), (1, 2, 3)), b.vector(c)], (x.shape[0], c, 1, 1), F32, 1.5 * y.mag + 1)
    gate = b.node(b.choose(("Sigmoid", "HardSigmoid")), [y], y.shape, F32, 1.0)
    return b.binary("Mul", x, gate, x.mag)


def residual_block(b: Builder) -> Value:
    x = b.pick(image=2)
    y = convolve(b, x, x.shape[1], plain=True)
    y = b.node("Relu", [y], y.shape, F32, y.mag)
    y = convolve(b, y, x.shape[1], plain=True)
    return b.binary("Add", *((x, y) if b.chance(0.5) else (y, x)), mag=x.mag + y.mag)


def duplicate_subexpression(b: Builder) -> Value:
    """The same computation twice, and a third that differs in an attribute alone."""
    x = b.pick((2, 3, 4))
    first = b.node("Softmax", [x], x.shape, F32, 1.0, axis=1)
    second = b.node("Softmax", [x], x.shape, F32, 1.0, axis=1)
    other = b.node("LeakyRelu", [x], x.shape, F32, x.mag, alpha=0.1)
    third = b.node("LeakyRelu", [x], x.shape, F32, x.mag, alpha=0.3)
    both = b.binary("Add", first, second, 2.0)
    return b.binary("Add", both, b.binary("Sub", other, third, 2 * x.mag), 2 + 2 * x.mag)


def constant_arithmetic(b: Builder) -> Value:
    """A parameter computed from constants, as weight norm or a positional table is."""
    x = b.pick((2, 3, 4))
    n = x.shape[-1]
    table = b.binary("Mul", b.vector(n), b.scalar(0.5), 0.5)
    table = b.node("Tanh", [table], (n,), F32, 1.0)
    table = b.unsqueeze(table, (0,))
    table = b.binary("Add", table, b.const(b.rng.uniform(-0.5, 0.5, (1, 1)), F32), 1.5)
    return b.binary(b.choose(("Add", "Mul")), x, table, x.mag * 1.5 + 1.5)


def clamp_min_max(b: Builder) -> Value:
    x = b.pick()
    y = b.binary("Max", x, b.scalar(-0.5), max(x.mag, 0.5))
    return b.binary("Min", y, b.scalar(b.choose((0.5, 1.0))), 1.0)


EMITTERS = tuple(
    Emitter(emit=emit, since=since, weight=1.3)
    for emit, since in (
        (spelled_instance_norm, 9),
        (spelled_group_norm, 9),
        (spelled_layer_norm, 9),
        (spelled_rms_norm, 9),
        (spelled_l2_normalize, 9),
        (spelled_gelu, 9),
        (spelled_silu, 9),
        (spelled_hard_swish, 9),
        (spelled_pixel_shuffle, 9),
        (channel_shuffle, 9),
        (attention, 9),
        (shape_gather_concat_reshape, 9),
        (resize_to_shape_of, 11),
        (sizes_scaled_in_float, 11),
        (partial_shape, 15),
        (pad_chain, 11),
        (squeeze_excite, 9),
        (residual_block, 9),
        (duplicate_subexpression, 9),
        (constant_arithmetic, 9),
        (clamp_min_max, 9),
    )
)

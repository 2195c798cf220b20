"""Emitters of what exporters really write: operators spelled out, shape arithmetic, blocks of image nets."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, helper
from tests.generators.builder import F32, I64, Builder, Emitter, Value
from tests.generators.convolution import convolve


def _spread(v: Value) -> bool:
    return v.rank == 4 and v.shape[2] * v.shape[3] >= 6


def _mean_over(b: Builder, x: Value, axes: tuple[int, ...], mag: float) -> Value:
    """ReduceMean, a sum over the count, the mean with its axes put back, or the pooling that is one."""
    n = math.prod(x.shape[a] for a in axes)
    kinds = ["ReduceMean", "ReduceMean", "ReduceSum", "axes put back"]
    if x.rank == 4 and axes == (2, 3):
        kinds.append("GlobalAveragePool")
    kind = b.choose(kinds)
    if kind == "ReduceSum":
        total = b.reduce("ReduceSum", x, axes, True, n * mag)
        if b.chance(0.5):
            return b.binary("Div", total, b.scalar(n), mag)
        return b.binary("Mul", total, b.scalar(1 / n), mag)
    if kind == "axes put back":
        return b.unsqueeze(b.reduce("ReduceMean", x, axes, False, mag), axes)
    if kind == "GlobalAveragePool":
        return b.node("GlobalAveragePool", [x], (*x.shape[:2], 1, 1), F32, mag)
    return b.reduce("ReduceMean", x, axes, True, mag)


def _centred(b: Builder, x: Value, mean: Value) -> Value:
    if b.chance(0.15):
        return b.binary("Add", x, b.node("Neg", [mean], mean.shape, F32, mean.mag), 2 * x.mag)
    return b.binary("Sub", x, mean, 2 * x.mag)


def _variance(b: Builder, x: Value, mean: Value, centred: Value, axes: tuple[int, ...]) -> Value:
    """Mean of squares of what lies centred, now and then times n / (n - 1)."""
    mag = 4 * x.mag**2
    n = math.prod(x.shape[a] for a in axes)
    square = b.choose(("Pow", "Mul", "Mul twice", "reversed", "ReduceSumSquare"))
    if square == "ReduceSumSquare":
        total = b.reduce("ReduceSumSquare", centred, axes, True, n * mag)
        variance = b.binary("Div", total, b.scalar(n), mag)
    else:
        if square == "Mul twice":
            again = b.binary("Sub", x, mean, 2 * x.mag)
            squared = b.binary("Mul", again, again, mag)
        elif square == "reversed":
            squared = b.binary("Pow", b.binary("Sub", mean, x, 2 * x.mag), b.scalar(2.0), mag)
        elif square == "Pow":
            squared = b.binary("Pow", centred, b.scalar(2.0), mag)
        else:
            squared = b.binary("Mul", centred, centred, mag)
        variance = _mean_over(b, squared, axes, mag)
    if n > 2 and b.chance(0.15):
        variance = b.binary("Div", b.binary("Mul", variance, b.scalar(n), n * mag), b.scalar(n - 1), 2 * mag)
    return variance


def _inverse_root(b: Builder, x: Value) -> Value:
    """1 / sqrt(x), for x > 0."""
    kind = b.choose(("Reciprocal", "Div", "Pow", "Pow and Div"))
    if kind == "Pow":
        return b.binary("Pow", x, b.scalar(-0.5), 320.0)
    if kind == "Pow and Div":
        return b.binary("Div", b.scalar(1.0), b.binary("Pow", x, b.scalar(0.5), math.sqrt(x.mag)), 320.0)
    root = b.node("Sqrt", [x], x.shape, F32, math.sqrt(x.mag))
    if kind == "Div":
        return b.binary("Div", b.scalar(1.0), root, 320.0)
    return b.node("Reciprocal", [root], root.shape, F32, 320.0)


def _norm_over(b: Builder, x: Value, axes: tuple[int, ...], affine: tuple[int, ...] | None = None) -> Value:
    """(x - mean) / sqrt(var + eps), scaled and shifted where `affine` is a shape, in one of the exporters' spellings."""
    mean = _mean_over(b, x, axes, x.mag)
    centred = _centred(b, x, mean)
    variance = _variance(b, x, mean, centred, axes)
    shifted = b.binary("Add", variance, b.scalar(b.choose((1e-5, 1e-3, 1e-2))), variance.mag + 1)
    bound = x.size**0.5
    if affine is not None and b.chance(0.2):  # tf.nn.batch_normalization
        inverse = _inverse_root(b, shifted)
        factor = b.binary("Mul", inverse, b.const(b.rng.uniform(0.4, 1.6, affine), F32), 512.0)
        shift = b.const(b.rng.uniform(-1, 1, affine), F32)
        shift = b.binary("Sub", shift, b.binary("Mul", mean, factor, 512 * x.mag), 513 * x.mag)
        return b.binary("Add", b.binary("Mul", x, factor, 512 * x.mag), shift, 2 * bound + 1)
    if affine is not None and b.chance(0.2):  # the scale inside of the factor
        factor = b.binary("Mul", _inverse_root(b, shifted), b.const(b.rng.uniform(0.4, 1.6, affine), F32), 512.0)
        return b.binary("Mul", centred, factor, 2 * bound)
    if b.chance(0.6):
        root = b.node("Sqrt", [shifted], shifted.shape, F32, math.sqrt(shifted.mag))
        y = b.binary("Div", centred, root, bound)
    else:
        y = b.binary("Mul", centred, _inverse_root(b, shifted), bound)
    return y if affine is None else _affine(b, y, affine)


def _affine(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    y = b.binary("Mul", x, b.const(b.rng.uniform(0.4, 1.6, shape), F32), 1.6 * x.mag)
    return b.binary("Add", y, b.const(b.rng.uniform(-1, 1, shape), F32), y.mag + 1)


def spelled_instance_norm(b: Builder) -> Value:
    x = b.pick(4, where=_spread, mag=8.0)
    return _norm_over(b, x, (2, 3), (1, x.shape[1], 1, 1))


def spelled_group_norm(b: Builder) -> Value:
    """Reshape to (n, groups, -1), InstanceNormalization with ones and zeros, Reshape back, scale and shift."""
    x = b.pick(4, where=lambda v: _spread(v) and v.shape[1] % 2 == 0, mag=8.0)
    groups = b.choose([g for g in range(1, x.shape[1] + 1) if x.shape[1] % g == 0])
    if b.chance(0.25):
        return _group_norm_by_means(b, x, groups)
    y = b.reshape(x, b.choose(((0, groups, -1), (x.shape[0], groups, -1))))
    y = b.node(
        "InstanceNormalization",
        [y, b.const(np.ones(groups), F32), b.const(np.zeros(groups), F32)],
        y.shape,
        F32,
        y.size**0.5,
        epsilon=1e-5,
    )
    if b.chance(0.2):
        y = _affine(b, y, (groups, 1))
    return _affine(b, b.reshape(y, x.shape), b.choose(((x.shape[1], 1, 1), (1, x.shape[1], 1, 1))))


def _group_norm_by_means(b: Builder, x: Value, groups: int) -> Value:
    n, c, h, w = x.shape
    y = b.reshape(x, (n, groups, c // groups, h, w))
    if b.chance(0.5):
        return b.reshape(_norm_over(b, y, (2, 3, 4), (1, groups, c // groups, 1, 1)), x.shape)
    return _affine(b, b.reshape(_norm_over(b, y, (2, 3, 4)), x.shape), (c, 1, 1))


def spelled_layer_norm(b: Builder) -> Value:
    x = b.pick((2, 3), where=lambda v: v.shape[-1] >= 3, mag=8.0)
    return _norm_over(b, x, (x.rank - 1,), (x.shape[-1],))


def spelled_rms_norm(b: Builder) -> Value:
    x = b.pick((2, 3, 4), mag=8.0)
    squared = b.binary("Pow", x, b.scalar(2.0), x.mag**2) if b.chance(0.5) else b.binary("Mul", x, x, x.mag**2)
    mean = _mean_over(b, squared, (x.rank - 1,), x.mag**2)
    shifted = b.binary("Add", mean, b.scalar(1e-2), mean.mag + 1)
    if b.chance(0.3):
        y = b.binary("Div", x, b.node("Sqrt", [shifted], shifted.shape, F32, x.mag + 1), 10.0)
    else:
        y = b.binary("Mul", x, _inverse_root(b, shifted), 10.0)
    return b.binary("Mul", y, b.vector(x.shape[-1], 0.4, 1.6), 16.0)


def spelled_l2_normalize(b: Builder) -> Value:
    x = b.pick((2, 3, 4), mag=8.0)
    axis = b.choose((1, x.rank - 1))
    mag = x.mag * x.shape[axis]
    kind = b.choose(("ReduceL2", "ReduceL2", "ReduceSum", "ReduceSumSquare", "summand"))
    if kind == "ReduceL2":
        norm = b.reduce("ReduceL2", x, (axis,), True, mag)
    else:
        if kind == "ReduceSumSquare":
            total = b.reduce("ReduceSumSquare", x, (axis,), True, mag**2)
        else:
            squared = b.binary("Pow", x, b.scalar(2.0), x.mag**2) if b.chance(0.5) else b.binary("Mul", x, x, x.mag**2)
            total = b.reduce("ReduceSum", squared, (axis,), True, mag**2)
        if kind == "summand":
            total = b.binary("Add", total, b.scalar(1e-2), total.mag + 1)
        elif b.chance(0.5):  # the derivative of a root is infinite at 0: keep the tolerance meaningful
            total = b.binary("Max", total, b.scalar(1e-2), total.mag)
        norm = b.node("Sqrt", [total], total.shape, F32, mag + 1)
    if b.chance(0.4):
        norm = b.clip(norm, 1e-1, None)
    else:
        norm = b.binary("Max", norm, b.scalar(0.1), norm.mag)
    if b.opset >= 8 and b.chance(0.5):
        norm = b.node("Expand", [norm, b.node("Shape", [x], (x.rank,), I64, 64.0)], x.shape, F32, norm.mag)
    if b.chance(0.2):
        return b.binary("Mul", x, b.node("Reciprocal", [norm], norm.shape, F32, 10.0), 10 * x.mag)
    return b.binary("Div", x, norm, 10 * x.mag)


def _gelu_gate(b: Builder, x: Value) -> Value:
    """erf(x / sqrt 2), or its replacement by tanh."""
    if b.chance(0.5):
        if b.chance(0.6):
            inner = b.binary("Div", x, b.scalar(b.choose((math.sqrt(2), 1.41421))), x.mag)
        else:
            inner = b.binary("Mul", x, b.scalar(math.sqrt(0.5)), x.mag)
        return b.node("Erf", [inner], x.shape, F32, 1.0)
    root = b.scalar(math.sqrt(2 / math.pi))
    if b.chance(0.3):  # x sqrt(2 / pi) (1 + 0.044715 x x)
        inner = b.binary("Mul", b.binary("Mul", x, b.scalar(0.044715), x.mag), x, x.mag**2)
        inner = b.binary("Add", inner, b.scalar(1.0), x.mag**2 + 1)
        inner = b.binary("Mul", b.binary("Mul", x, root, x.mag), inner, x.mag**3 + x.mag)
    else:
        if b.chance(0.5):
            cube = b.binary("Pow", x, b.scalar(3.0), x.mag**3)
        else:
            cube = b.binary("Mul", b.binary("Mul", x, x, x.mag**2), x, x.mag**3)
        inner = b.binary("Add", x, b.binary("Mul", cube, b.scalar(0.044715), x.mag**3), x.mag**3 + x.mag)
        inner = b.binary("Mul", inner, root, inner.mag)
    return b.node("Tanh", [inner], x.shape, F32, 1.0)


def spelled_gelu(b: Builder) -> Value:
    x = b.pick(mag=8.0)
    gate = _gelu_gate(b, x)
    half = b.scalar(0.5)
    kind = b.choose(("product last", "gate halved", "x halved", "halves added", "sum of two"))
    if kind == "halves added":  # x (0.5 + 0.5 gate)
        return b.binary("Mul", x, b.binary("Add", b.binary("Mul", gate, half, 0.5), half, 1.0), x.mag)
    if kind == "sum of two":  # 0.5 x + 0.5 x gate
        part = b.binary("Mul", x, half, x.mag)
        return b.binary("Add", part, b.binary("Mul", part, gate, x.mag), x.mag)
    gate = b.binary("Add", gate, b.scalar(1.0), 2.0)
    if kind == "product last":
        return b.binary("Mul", b.binary("Mul", x, gate, 2 * x.mag), half, x.mag)
    if kind == "x halved":
        return b.binary("Mul", b.binary("Mul", half, x, x.mag), gate, x.mag)
    return b.binary("Mul", x, b.binary("Mul", gate, half, 1.0), x.mag)


def _one_plus_exp_of_minus(b: Builder, x: Value) -> Value:
    if b.chance(0.7):
        minus = b.node("Neg", [x], x.shape, F32, x.mag)
    else:
        minus = b.binary("Mul", x, b.scalar(-1.0), x.mag)
    return b.binary("Add", b.node("Exp", [minus], x.shape, F32, math.exp(x.mag)), b.scalar(1.0), math.exp(x.mag) + 1)


def _spelled_sigmoid(b: Builder, x: Value) -> Value:
    kind = b.choose(("Reciprocal", "Div", "Pow", "Tanh"))
    if kind == "Tanh":
        y = b.node("Tanh", [b.binary("Mul", x, b.scalar(0.5), x.mag)], x.shape, F32, 1.0)
        return b.binary("Add", b.binary("Mul", y, b.scalar(0.5), 0.5), b.scalar(0.5), 1.0)
    below = _one_plus_exp_of_minus(b, x)
    if kind == "Reciprocal":
        return b.node("Reciprocal", [below], x.shape, F32, 1.0)
    if kind == "Pow":
        return b.binary("Pow", below, b.scalar(-1.0), 1.0)
    return b.binary("Div", b.scalar(1.0), below, 1.0)


def spelled_sigmoid(b: Builder) -> Value:
    return _spelled_sigmoid(b, b.pick(mag=16.0))


def spelled_softplus(b: Builder) -> Value:
    """log(1 + exp(x)), its form that does not overflow, and x tanh of either (Mish)."""
    x = b.pick(mag=8.0)
    kind = b.choose(("plain", "stable", "operator"))
    if kind == "operator":
        y = b.node("Softplus", [x], x.shape, F32, x.mag + 1)
    elif kind == "plain":
        y = b.node("Exp", [x], x.shape, F32, math.exp(x.mag))
        y = b.node("Log", [b.binary("Add", b.scalar(1.0), y, y.mag + 1)], x.shape, F32, x.mag + 1)
    else:
        y = b.node("Neg", [b.node("Abs", [x], x.shape, F32, x.mag)], x.shape, F32, x.mag)
        y = b.binary("Add", b.node("Exp", [y], x.shape, F32, 1.0), b.scalar(1.0), 2.0)
        y = b.binary("Add", b.node("Relu", [x], x.shape, F32, x.mag), b.node("Log", [y], x.shape, F32, 0.7), x.mag + 1)
    if b.chance(0.5):
        return y
    return b.binary("Mul", x, b.node("Tanh", [y], x.shape, F32, 1.0), x.mag)


def spelled_silu(b: Builder) -> Value:
    x = b.pick(mag=16.0)
    if b.chance(0.25):
        return b.binary("Div", x, _one_plus_exp_of_minus(b, x), x.mag)
    inner = b.binary("Mul", x, b.scalar(1.702), 2 * x.mag) if b.chance(0.2) else x
    gate = b.node("Sigmoid", [inner], x.shape, F32, 1.0) if b.chance(0.6) else _spelled_sigmoid(b, inner)
    return b.binary("Mul", *((x, gate) if b.chance(0.5) else (gate, x)), mag=x.mag)


def spelled_hard_swish(b: Builder) -> Value:
    """x relu6(x + 3) / 6, or the gate alone, whatever is multiplied first."""
    x = b.pick(mag=8.0)
    if b.chance(0.6):  # so that the lower bound takes part: feeds end at -3
        x = b.binary("Mul", x, b.scalar(2.5), 2.5 * x.mag)
    if b.chance(0.3):
        gate = b.node("HardSigmoid", [x], x.shape, F32, 1.0, alpha=1 / 6, beta=0.5)
        return b.binary("Mul", x, gate, x.mag)
    above = b.binary("Add", x, b.scalar(3.0), x.mag + 3)
    kind = b.choose(("Clip", "Clip", "Min of Relu", "Min of Max"))
    if kind == "Clip":
        gate = b.clip(above, 0.0, 6.0)
    else:
        if kind == "Min of Relu":
            low = b.node("Relu", [above], x.shape, F32, above.mag)
        else:
            low = b.binary("Max", above, b.scalar(0.0), above.mag)
        gate = b.binary("Min", low, b.scalar(6.0), 6.0)
    if b.chance(0.5):
        return b.binary("Div", b.binary("Mul", x, gate, 6 * x.mag), b.scalar(6.0), x.mag)
    gate = b.binary("Mul", gate, b.scalar(1 / 6), 1.0) if b.chance(0.5) else b.binary("Div", gate, b.scalar(6.0), 1.0)
    return gate if b.chance(0.3) else b.binary("Mul", x, gate, x.mag)


def spelled_hard_sigmoid(b: Builder) -> Value:
    """clip(0.2 x + 0.5, 0, 1), as Keras writes it."""
    x = b.pick(mag=8.0)
    alpha = b.choose((0.2, 1 / 6, 0.25))
    y = b.binary("Mul", x, b.scalar(alpha), x.mag)
    return b.clip(b.binary("Add", y, b.scalar(0.5), y.mag + 0.5), 0.0, 1.0)


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


def spelled_pixel_unshuffle(b: Builder) -> Value:
    """(n, c, h / 2, 2, w / 2, 2): channels first (PyTorch) or block first (TensorFlow), into a convolution or not."""
    x = b.pick(4, where=lambda v: v.shape[2] % 2 == 0 and v.shape[3] % 2 == 0)
    n, c, h, w = x.shape
    split = b.reshape(x, (n, c, h // 2, 2, w // 2, 2))
    y = b.transpose(split, b.choose(((0, 1, 3, 5, 2, 4), (0, 3, 5, 1, 2, 4))))
    y = b.reshape(y, (n, 4 * c, h // 2, w // 2))
    if b.chance(0.4):
        return y
    return b.node("Conv", [y, b.weight((3, 4 * c, 1, 1), (1, 2, 3))], (n, 3, h // 2, w // 2), F32, 1.5 * y.mag)


def channel_shuffle(b: Builder) -> Value:
    x = b.pick(4, where=lambda v: v.shape[1] % 2 == 0)
    n, c, h, w = x.shape
    return b.reshape(b.transpose(b.reshape(x, (n, 2, c // 2, h, w)), (0, 2, 1, 3, 4)), (n, c, h, w))


def attention(b: Builder) -> Value:
    """softmax(q k^T / sqrt(d) + mask) v: the factor on the scores, on q or on both; k turned once or twice."""
    x = b.pick(3, where=lambda v: v.shape[1] >= 2, mag=4.0)
    n, t, d = x.shape
    heads, width = b.choose((1, 2)), b.choose((2, 3))
    turned_once = b.chance(0.4)
    parts = []
    for position in range(3):
        y = b.node("MatMul", [x, b.weight((d, heads * width), (0,))], (n, t, heads * width), F32, 1.5 * x.mag)
        y = b.binary("Add", y, b.vector(heads * width), y.mag + 1)
        perm = (0, 2, 3, 1) if position == 1 and turned_once else (0, 2, 1, 3)
        parts.append(b.transpose(b.reshape(y, (n, t, heads, width)), perm))
    q, k, v = parts
    k = k if turned_once else b.transpose(k, (0, 1, 3, 2))
    where = b.choose(("Div", "Mul", "q", "both", "none"))
    if where in ("q", "both"):
        factor = width**-0.5 if where == "q" else width**-0.25
        q = b.binary("Mul", q, b.scalar(factor), q.mag)
        k = b.binary("Mul", k, b.scalar(factor), k.mag) if where == "both" else k
    scores = b.node("MatMul", [q, k], (n, heads, t, t), F32, q.mag * k.mag * width)
    if where == "Div":
        scores = b.binary("Div", scores, b.scalar(math.sqrt(width)), scores.mag)
    elif where == "Mul":
        scores = b.binary("Mul", scores, b.scalar(1 / math.sqrt(width)), scores.mag)
    if b.chance(0.4):
        mask = b.const(b.rng.choice((0.0, -8.0), b.choose(((t, t), (1, 1, t, t), (1, 1, 1, t)))), F32)
        scores = b.binary("Add", scores, mask, scores.mag + 8)
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
        (spelled_sigmoid, 9),
        (spelled_softplus, 9),
        (spelled_hard_swish, 9),
        (spelled_hard_sigmoid, 9),
        (spelled_pixel_shuffle, 9),
        (spelled_pixel_unshuffle, 9),
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

"""Emitters of a scale and shift in front of a convolution or product, and of BatchNormalization behind a Concat."""

from __future__ import annotations

import numpy as np
from tests.generators.builder import F32, Builder, Emitter, Value
from tests.generators.convolution import convolve


def _operand(b: Builder, rank: int, axis: int, channels: int, low: float, high: float) -> Value:
    """One number, or one value a channel along an axis, with as many leading ones as the exporter liked."""
    kind = b.choose(("number", "channel", "channel", "equal"))
    if kind == "number":
        return b.const(b.rng.uniform(low, high, b.choose(((), (1,)))), F32)
    shape = [channels, *[1] * (rank - 1 - axis)]
    if b.chance(0.5):
        shape = [1] * axis + shape
    values = b.rng.uniform(low, high, shape) if kind == "channel" else np.full(shape, b.rng.uniform(low, high))
    return b.const(values, F32)


def _normalised(b: Builder, x: Value, axis: int) -> Value:
    """(x - mean) / std, x * s + t, or parts of it."""
    for op in b.choose((("Sub", "Div"), ("Mul", "Add"), ("Div", "Sub", "Mul"), ("Mul",), ("Add",), ("Sub", "Mul"))):
        low, high = (0.5, 2.0) if op in ("Mul", "Div") else (-1.0, 1.0)
        channels = 3 if x.shape[axis] == 1 and b.chance(0.5) else x.shape[axis]  # one channel may become three
        k = _operand(b, x.rank, axis, channels, low, high)
        is_swapped = op in ("Mul", "Add", "Sub") and b.chance(0.3)
        x = b.binary(op, *((k, x) if is_swapped else (x, k)), mag=2 * x.mag + 1)
    return x


def scale_in_front_of_conv(b: Builder) -> Value:
    """Straight, behind a Transpose from NHWC, or with a Pad of copies in between."""
    kind = b.choose(("plain", "plain", "nhwc", "pad"))
    x = b.pick(image=2, mag=4.0)
    if kind == "nhwc":
        last = b.transpose(x, (0, 2, 3, 1))
        y = b.transpose(_normalised(b, b.node("Relu", [last], last.shape, F32, last.mag), 3), (0, 3, 1, 2))
    else:
        y = _normalised(b, x, 1)
    if kind == "pad":
        y = b.pad(y, [0, 0, 1, 1, 0, 0, 1, 1], b.choose(("reflect", "edge")))
    c = y.shape[1]
    if b.chance(0.25):
        b.node("Relu", [y], y.shape, F32, y.mag)
    groups = b.choose([g for g in (1, 2, c) if c % g == 0])
    outputs = groups * b.integer(1, 2)
    pad = b.choose((0, 0, 1))
    w = b.weight((outputs, c // groups, 3, 3), (1, 2, 3))
    inputs = [y, w, b.vector(outputs)] if b.chance(0.6) else [y, w]
    h, width = (n + 2 * pad - 2 for n in y.shape[2:])
    return b.node("Conv", inputs, (y.shape[0], outputs, h, width), F32, 1.5 * y.mag + 1, pads=[pad] * 4, group=groups)


def scale_in_front_of_transposed_conv(b: Builder) -> Value:
    x = b.pick(image=2, mag=4.0)
    y = _normalised(b, x, 1)
    groups = 2 if y.shape[1] % 2 == 0 and b.chance(0.5) else 1
    w = b.weight((y.shape[1], 2, 2, 2), (0,))
    shape = (y.shape[0], 2 * groups, 2 * y.shape[2], 2 * y.shape[3])
    return b.node("ConvTranspose", [y, w], shape, F32, 6 * y.mag, strides=[2, 2], group=groups)


def scale_in_front_of_product(b: Builder) -> Value:
    """Gemm with and without transB, MatMul with and without a summand behind it."""
    if b.chance(0.5):
        x = _normalised(b, b.pick(2, mag=4.0), 1)
        flip = b.chance(0.5)
        w = b.weight((3, x.shape[1]) if flip else (x.shape[1], 3), (1 if flip else 0,))
        inputs = [x, w, b.vector(3)] if b.chance(0.6) or b.opset < 11 else [x, w]
        return b.node("Gemm", inputs, (x.shape[0], 3), F32, 2 * x.mag + 1, transB=int(flip))
    x = _normalised_last(b, b.pick((2, 3), mag=4.0))
    y = b.node("MatMul", [x, b.weight((x.shape[-1], 3), (0,))], (*x.shape[:-1], 3), F32, 2 * x.mag)
    return b.binary("Add", y, b.vector(3), y.mag + 1) if b.chance(0.6) else y


def _normalised_last(b: Builder, x: Value) -> Value:
    return _normalised(b, x, x.rank - 1)


def _batchnorm(b: Builder, x: Value) -> Value:
    c = x.shape[1]
    parameters = [b.vector(c, 0.5, 1.5), b.vector(c), b.vector(c), b.vector(c, 0.5, 2.0)]
    return b.node("BatchNormalization", [x, *parameters], x.shape, F32, 3 * x.mag + 4, epsilon=1e-3)


def batchnorm_in_front_of_conv(b: Builder) -> Value:
    x = b.pick(image=2, mag=4.0)
    y = _batchnorm(b, x)
    c = y.shape[1]
    pad = b.choose((0, 1))
    h, w = (n + 2 * pad - 2 for n in y.shape[2:])
    return b.node(
        "Conv", [y, b.weight((2, c, 3, 3), (1, 2, 3))], (y.shape[0], 2, h, w), F32, 1.5 * y.mag, pads=[pad] * 4
    )


def batchnorm_behind_concat(b: Builder) -> Value:
    """Of two convolutions, one of which is read elsewhere or is none, now and then."""
    x = b.pick(image=2, mag=4.0)
    first = convolve(b, x, b.integer(1, 3), plain=True)
    kind = b.choose(("convs", "convs", "other", "read", "twice"))
    if kind == "other":
        second = b.node("Relu", [x], x.shape, F32, x.mag)
    elif kind == "twice":
        second = first
    else:
        second = convolve(b, x, b.integer(1, 3), plain=True)
    if kind == "read":
        b.node("Relu", [second], second.shape, F32, second.mag)
    shape = (x.shape[0], first.shape[1] + second.shape[1], *first.shape[2:])
    joined = b.node("Concat", [first, second], shape, F32, max(first.mag, second.mag), axis=1)
    return _batchnorm(b, joined)


EMITTERS = (
    Emitter(emit=scale_in_front_of_conv, weight=2),
    Emitter(emit=scale_in_front_of_transposed_conv),
    Emitter(emit=scale_in_front_of_product, weight=1.5),
    Emitter(emit=batchnorm_in_front_of_conv),
    Emitter(emit=batchnorm_behind_concat, weight=1.2),
)

"""Emitters of pooling and of resampling."""

from __future__ import annotations

import math

import numpy as np
from tests.generators.builder import F32, I64, Builder, Emitter, Value


def _pool(b: Builder, op: str) -> Value:
    x = b.pick(image=b.choose((1, 2, 2)))
    spatial = x.rank - 2
    kernel = [b.integer(2, 3) for _ in range(spatial)]
    stride = [b.integer(1, 2) for _ in range(spatial)]
    pads = [b.integer(0, 1) for _ in range(2 * spatial)] if b.chance(0.6) else [0] * 2 * spatial
    ceil = b.opset >= 10 and b.chance(0.35)
    auto = None if ceil or b.chance(0.85) else b.choose(("SAME_UPPER", "SAME_LOWER"))
    if auto:
        sizes = [-(-n // s) for n, s in zip(x.shape[2:], stride, strict=True)]
    else:
        room = [n + pads[i] + pads[i + spatial] - kernel[i] for i, n in enumerate(x.shape[2:])]
        sizes = [-(-r // s) + 1 for r, s in zip(room, stride, strict=True)]
        # opsets disagree on a window that begins in the end padding
        disputed = any((sizes[i] - 1) * stride[i] >= n + pads[i] for i, n in enumerate(x.shape[2:]))
        if not ceil or disputed:
            ceil, sizes = False, [r // s + 1 for r, s in zip(room, stride, strict=True)]
    return b.node(
        op,
        [x],
        (*x.shape[:2], *sizes),
        F32,
        x.mag,
        kernel_shape=kernel,
        strides=stride,
        pads=None if auto else pads,
        auto_pad=auto,
        ceil_mode=int(ceil) or None,
        count_include_pad=b.choose((None, 1)) if op == "AveragePool" else None,
    )


def max_pool(b: Builder) -> Value:
    return _pool(b, "MaxPool")


def average_pool(b: Builder) -> Value:
    return _pool(b, "AveragePool")


def lp_pool(b: Builder) -> Value:
    x = b.positive(b.pick(image=2))
    sizes = [n - 1 for n in x.shape[2:]]
    return b.node("LpPool", [x], (*x.shape[:2], *sizes), F32, 4 * x.mag, kernel_shape=[2, 2], p=b.choose((1, 2)))


def global_pool(b: Builder) -> Value:
    x = b.pick(image=b.choose((1, 2, 2, 3)))
    op = b.choose(("GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool"))
    y = b.node(op, [x], (*x.shape[:2], *[1] * (x.rank - 2)), F32, x.mag)
    return b.node("Flatten", [y], y.shape[:2], F32, y.mag) if b.chance(0.4) else y


def resize(b: Builder) -> Value:
    """Opset 10 has scales alone; from 11 on a region of interest, coordinate modes, and scales or sizes."""
    x = b.pick(image=2)
    scales = [1.0, 1.0, *(b.choose((1.0, 2.0, 2.0, 1.5, 0.5)) for _ in range(2))]
    shape = [math.floor(n * s) for n, s in zip(x.shape, scales, strict=True)]
    mode = b.choose(("nearest", "nearest", "linear", "cubic"))
    factors = b.const(scales, F32)
    if b.opset < 11:
        return b.node("Resize", [x, factors], shape, F32, x.mag, mode="nearest" if mode == "cubic" else mode)
    coordinates = b.choose((None, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    rounding = None
    if mode == "nearest":
        coordinates = b.choose((None, "half_pixel", "asymmetric"))
        rounding = b.choose((None, "floor", "round_prefer_floor", "round_prefer_ceil", "ceil"))
    roi = b.const(np.zeros(0), F32) if b.opset < 13 else None
    by_size = b.chance(0.4)
    # a size that no scale gives exactly would leave the scale to the runtime's own division
    if by_size and all(float(n * s).is_integer() for n, s in zip(x.shape, scales, strict=True)):
        empty = b.const(np.zeros(0), F32) if b.opset < 13 else None
        inputs = [x, roi, empty, b.const(shape, I64)]
    else:
        inputs = [x, roi, factors]
    return b.node(
        "Resize",
        inputs,
        shape,
        F32,
        2 * x.mag,
        mode=mode,
        coordinate_transformation_mode=coordinates,
        nearest_mode=rounding,
        cubic_coeff_a=b.choose((None, -0.5)) if mode == "cubic" else None,
    )


def upsample(b: Builder) -> Value:
    x = b.pick(image=2)
    scales = [1.0, 1.0, b.choose((1.0, 2.0)), 2.0]
    shape = [int(n * s) for n, s in zip(x.shape, scales, strict=True)]
    return b.node("Upsample", [x, b.const(scales, F32)], shape, F32, x.mag, mode=b.choose(("nearest", "linear")))


EMITTERS = (
    Emitter(emit=max_pool, weight=1.5),
    Emitter(emit=average_pool, weight=1.5),
    Emitter(emit=lp_pool, since=11, weight=0.5),
    Emitter(emit=global_pool, weight=1.2),
    Emitter(emit=resize, since=10, weight=2.5),
    Emitter(emit=upsample, until=9, weight=6),
)

"""Einsum in every form, spelled activations and reductions, and operators of several operands."""

from __future__ import annotations

import math

import numpy as np
from tests.generators.builder import F32, I64, Builder, Emitter, Value


def einsum_case(b: Builder) -> Value:
    """One to three operands over at most five letters; diagonals, ellipses, implicit outputs."""
    letters = "abcde"
    sizes = {c: b.choose((1, 2, 3, 4)) for c in letters}
    middle = tuple(b.choose((1, 2, 3)) for _ in range(b.integer(1, 2)))
    has_ellipsis = b.chance(0.35)
    terms, values, used = [], [], []
    for _ in range(b.choose((1, 2, 2, 2, 3))):
        term = [b.choose(letters) for _ in range(b.integer(1, 4))]
        if not b.chance(0.2):
            term = list(dict.fromkeys(term))  # without diagonals
        shape = [sizes[c] for c in term]
        text = "".join(term)
        if has_ellipsis and b.chance(0.8):
            at = b.integer(0, len(term))
            shape[at:at] = middle
            text = text[:at] + "..." + text[at:]
        terms.append(text)
        used.extend(term)
        values.append(b.input(tuple(shape)))
    dots = [
        v.shape[t.index(".") : v.rank - (len(t) - t.index(".") - 3)]
        for t, v in zip(terms, values, strict=True)
        if "." in t
    ]
    spread = np.broadcast_shapes(*dots) if dots else ()
    equation = ",".join(terms)
    if b.chance(0.2):
        kept = sorted(c for c in set(used) if used.count(c) == 1)
        shape = [*spread, *(sizes[c] for c in kept)]
    else:
        kept = [str(c) for c in b.rng.permutation(sorted(set(used)))]
        kept = kept[: b.integer(1, len(kept))] if b.chance(0.8) else kept[:0]
        at = b.integer(0, len(kept)) if dots else 0
        text = "".join(kept[:at]) + ("..." if dots else "") + "".join(kept[at:])
        shape = [*(sizes[c] for c in kept[:at]), *spread, *(sizes[c] for c in kept[at:])]
        equation += f"->{text}" if b.chance(0.5) else f" -> {text}"
    return b.node("Einsum", values, shape, F32, 1e4, equation=equation)


def activation_case(b: Builder) -> Value:
    x = b.input(b.shape(b.integer(1, 4)))
    choices: list[tuple[str, dict[str, object]]] = [
        ("HardSigmoid", {"alpha": b.choose((None, 0.3)), "beta": b.choose((None, 0.4))}),
        ("LeakyRelu", {"alpha": b.choose((None, 0.3, -0.2))}),
        ("Celu", {"alpha": b.choose((None, 0.5, 2.0))}),
        ("Elu", {"alpha": b.choose((None, 0.5))}),
        ("Selu", {"alpha": b.choose((None, 1.5))}),
        ("Softsign", {}),
        ("Softplus", {}),
        ("ThresholdedRelu", {"alpha": b.choose((None, 0.5))}),
        ("Shrink", {"lambd": b.choose((None, 0.25)), "bias": b.choose((None, 0.5))}),
        *([("HardSwish", {})] if b.opset >= 14 else []),
        *([("Mish", {})] if b.opset >= 18 else []),
        *([("Gelu", {"approximate": b.choose((None, "none", "tanh"))})] if b.opset >= 20 else []),
    ]
    op, attributes = b.choose(choices)
    return b.node(op, [x], x.shape, F32, 20.0, **attributes)


def prelu_case(b: Builder) -> Value:
    x = b.input(b.shape(b.integer(2, 4)))
    slope_shape = [n if b.chance(0.5) else 1 for n in x.shape][b.integer(0, x.rank - 1) :]
    return b.node("PRelu", [x, b.const(b.rng.uniform(-1, 1, slope_shape), F32)], x.shape, F32, x.mag)


def log_softmax_case(b: Builder) -> Value:
    x = b.input(b.shape(b.integer(1, 4)))
    return b.node("LogSoftmax", [x], x.shape, F32, 20.0, axis=b.choose((None, -1, 0, x.rank - 1)))


def reduction_case(b: Builder) -> Value:
    x = b.input(b.shape(b.integer(1, 4)))
    op = b.choose(
        (
            "ReduceL1",
            "ReduceL2",
            "ReduceSumSquare",
            "ReduceLogSum",
            "ReduceLogSumExp",
            "ReduceProd",
            "ReduceMean",
            "ReduceSum",
        )
    )
    if op in ("ReduceLogSum", "ReduceL2"):
        x = b.positive(x)
    axes = sorted({b.integer(0, x.rank - 1) for _ in range(b.integer(1, 2))})
    if b.chance(0.3):
        axes = [a - x.rank for a in axes]
    if op == "ReduceProd":
        axes = axes[:1]
    keep = b.chance(0.6)
    if b.chance(0.2) and op != "ReduceProd":
        shape = [1] * x.rank if keep else []
        return b.node(op, [x], shape, F32, 1e4, keepdims=int(keep))
    return b.reduce(op, x, axes, keep, 1e4)


def cum_sum_case(b: Builder) -> Value:
    x = b.input(b.shape(b.integer(1, 4)))
    axis = b.integer(-x.rank, x.rank - 1)
    return b.node(
        "CumSum",
        [x, b.const(axis, I64)],
        x.shape,
        F32,
        30.0,
        exclusive=b.choose((None, 1)),
        reverse=b.choose((None, 1)),
    )


def nary_case(b: Builder) -> Value:
    """1 to 5 operands that broadcast against each other."""
    op = b.choose(("Max", "Min", "Sum", "Mean"))
    shape = b.shape(b.integer(1, 4))
    operands = []
    for i in range(b.integer(1, 5)):
        own = shape if i == 0 else [n if b.chance(0.7) else 1 for n in shape][b.integer(0, len(shape) - 1) :]
        operands.append(b.input(tuple(own)))
    return b.node(op, operands, shape, F32, 15.0)


def gemm_case(b: Builder) -> Value:
    m, k, n = (b.integer(1, 6) for _ in range(3))
    a_turned, b_turned = b.chance(0.5), b.chance(0.5)
    x = b.input((k, m) if a_turned else (m, k))
    w = b.const(b.rng.uniform(-1, 1, (n, k) if b_turned else (k, n)), F32)
    c_shape = b.choose((None, (n,), (1, n), (m, 1), (m, n), (1,), ()))
    c = None if c_shape is None else b.const(b.rng.uniform(-1, 1, c_shape), F32)
    return b.node(
        "Gemm",
        [x, w, c],
        (m, n),
        F32,
        30.0,
        alpha=b.choose((None, 0.5, 1.3)),
        beta=b.choose((None, 0.5, 0.0)),
        transA=int(a_turned) or None,
        transB=int(b_turned) or None,
    )


def pool_1d(b: Builder) -> Value:
    """Pooling and convolution over one spatial axis."""
    x = b.input((b.integer(1, 2), b.integer(1, 4), b.integer(5, 9)))
    kernel, stride = b.integer(1, 3), b.integer(1, 2)
    pads = [b.integer(0, kernel - 1), b.integer(0, kernel - 1)]
    op = b.choose(("MaxPool", "AveragePool"))
    size = (x.shape[2] + sum(pads) - kernel) // stride + 1
    include = b.choose((None, 1)) if op == "AveragePool" else None
    return b.node(
        op,
        [x],
        (*x.shape[:2], size),
        F32,
        x.mag,
        kernel_shape=[kernel],
        strides=[stride],
        pads=pads,
        count_include_pad=include,
    )


def global_pool_case(b: Builder) -> Value:
    x = b.input(b.image_shape(b.integer(1, 3)))
    op = b.choose(("GlobalAveragePool", "GlobalMaxPool"))
    return b.node(op, [x], (*x.shape[:2], *[1] * (x.rank - 2)), F32, x.mag)


def conv_transpose_case(b: Builder) -> Value:
    """Kernel, stride, pads, output padding, dilation and groups."""
    groups, per_in, per_out = b.integer(1, 2), b.integer(1, 3), b.integer(1, 3)
    x = b.input((b.integer(1, 2), groups * per_in, b.integer(2, 5), b.integer(2, 5)))
    kernel, stride, dilation = ([b.integer(1, high) for _ in range(2)] for high in (4, 3, 2))
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    begin = [b.integer(0, r // 2) for r in reach]
    end = [b.integer(0, r // 2) for r in reach]
    extra = [b.integer(0, s - 1) for s in stride]
    size = [
        (n - 1) * s + r + 1 - p - q + e
        for n, s, r, p, q, e in zip(x.shape[2:], stride, reach, begin, end, extra, strict=True)
    ]
    inputs = [x, b.weight((groups * per_in, per_out, *kernel), (0, 2, 3))]
    if b.chance(0.6):
        inputs.append(b.vector(groups * per_out))
    return b.node(
        "ConvTranspose",
        inputs,
        (x.shape[0], groups * per_out, *size),
        F32,
        6.0,
        kernel_shape=kernel,
        strides=stride,
        dilations=dilation,
        pads=begin + end,
        output_padding=extra,
        group=groups,
    )


def leaky_slope(b: Builder) -> Value:
    """A slope outside 0..1, where max(x, a x) is another function."""
    x = b.input(b.shape(b.integer(2, 4)))
    return b.node("LeakyRelu", [x], x.shape, F32, 6.0, alpha=b.choose((-0.5, 1.5, 0.1, 0.0)))


def mod_case(b: Builder) -> Value:
    x = b.input(b.shape(b.integer(1, 3)))
    y = b.positive(b.input((1,)), 0.5)
    return b.node("Mod", [x, y], np.broadcast_shapes(x.shape, y.shape), F32, 4.0, fmod=1)


def vector_matmul(b: Builder) -> Value:
    """A vector on the left, on the right, or on both sides."""
    k, lead = b.integer(1, 5), tuple(b.integer(1, 3) for _ in range(b.integer(0, 2)))
    left, right = b.choose((((k,), (*lead, k, 3)), ((*lead, 3, k), (k,)), ((k,), (k,))))
    shape = np.matmul(np.zeros(left), np.zeros(right)).shape
    y = b.input(right) if b.chance(0.5) else b.const(b.rng.uniform(-1, 1, right), F32)
    return b.node("MatMul", [b.input(left), y], shape, F32, 50.0)


def spatial_mean(b: Builder) -> Value:
    """A mean over the spatial axes, as a global pooling or as a reduction, of sizes up to 40."""
    x = b.input((1, b.integer(1, 3), b.choose((1, 2, 6, 8, 11, 16, 37, 40)), b.choose((1, 3, 7, 12, 13, 25))))
    if b.chance(0.5):
        return b.node("GlobalAveragePool", [x], (*x.shape[:2], 1, 1), F32, x.mag)
    return b.reduce("ReduceMean", x, b.choose(((2, 3), (-1, -2), (2,), (3,))), b.chance(0.7), x.mag)


def high_dimensional_matmul(b: Builder) -> Value:
    """Batches that broadcast, and vectors."""
    m, k, n = (b.integer(1, 5) for _ in range(3))
    lead = tuple(b.choose((1, 2, 3)) for _ in range(b.integer(0, 4)))
    x = b.input((*lead, m, k))
    other = tuple(d if b.chance(0.6) else 1 for d in lead)
    y = b.input((*other, k, n))
    assert math.prod(x.shape) < 3000
    return b.node("MatMul", [x, y], (*np.broadcast_shapes(lead, other), m, n), F32, 50.0)


EMITTERS = (
    Emitter(emit=einsum_case),
    Emitter(emit=activation_case),
    Emitter(emit=prelu_case),
    Emitter(emit=log_softmax_case),
    Emitter(emit=reduction_case),
    Emitter(emit=cum_sum_case, since=14),
    Emitter(emit=nary_case),
    Emitter(emit=gemm_case),
    Emitter(emit=pool_1d),
    Emitter(emit=global_pool_case),
    Emitter(emit=conv_transpose_case),
    Emitter(emit=leaky_slope),
    Emitter(emit=mod_case),
    Emitter(emit=vector_matmul),
    Emitter(emit=spatial_mean),
    Emitter(emit=high_dimensional_matmul),
)

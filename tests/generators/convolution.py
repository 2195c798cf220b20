"""Emitters of the weighted operators and of what exporters write around them."""

from __future__ import annotations

from tests.generators.builder import F32, Builder, Emitter, Value


def _window(n: int, kernel: int, stride: int, dilation: int, pads: int) -> int:
    return (n + pads - dilation * (kernel - 1) - 1) // stride + 1


def convolve(
    b: Builder, x: Value, out_channels: int | None = None, *, bias: bool | None = None, plain: bool = False
) -> Value:
    """A Conv of x, of any rank, with drawn geometry (`plain`: 3 wide, stride 1, same size)."""
    spatial = x.rank - 2
    c = x.shape[1]
    group = b.choose([g for g in range(1, c + 1) if c % g == 0])
    group = 1 if plain or b.chance(0.5) else c if b.chance(0.5) else group
    out = out_channels or group * b.integer(1, 3)
    if out % group:
        group = 1
    kernel = [3] * spatial if plain else [b.integer(1, min(3, n)) for n in x.shape[2:]]
    stride = [1] * spatial if plain or b.chance(0.5) else [b.integer(1, 2) for _ in kernel]
    dilation = [1] * spatial
    if not plain and b.chance(0.25):
        dilation = [2 if n >= 2 * (k - 1) + 1 else 1 for n, k in zip(x.shape[2:], kernel, strict=True)]
    pads = [1] * (2 * spatial) if plain else [b.integer(0, min(1, k - 1)) for k in kernel * 2]
    sides = [pads[i] + pads[i + spatial] for i in range(spatial)]
    auto = None
    if not plain and max(dilation) == 1 and b.chance(0.2):
        auto = b.choose(("SAME_UPPER", "SAME_LOWER", "VALID"))
        sizes = [
            -(-n // s) if auto != "VALID" else _window(n, k, s, 1, 0)
            for n, k, s in zip(x.shape[2:], kernel, stride, strict=True)
        ]
    else:
        sizes = [_window(n, kernel[i], stride[i], dilation[i], sides[i]) for i, n in enumerate(x.shape[2:])]
    weight = b.weight((out, c // group, *kernel), tuple(range(1, 2 + spatial)))
    inputs: list[Value | None] = [x, weight]
    if bias if bias is not None else b.chance(0.6):
        inputs.append(b.vector(out))
    return b.node(
        "Conv",
        inputs,
        (x.shape[0], out, *sizes),
        F32,
        1.5 * x.mag + 1,
        kernel_shape=kernel if b.chance(0.8) else None,
        strides=stride if max(stride) > 1 or b.chance(0.7) else None,
        dilations=dilation if max(dilation) > 1 or b.chance(0.5) else None,
        pads=pads if auto is None and (any(pads) or b.chance(0.5)) else None,
        auto_pad=auto,
        group=group if group > 1 or b.chance(0.5) else None,
    )


def conv(b: Builder) -> Value:
    return convolve(b, b.pick(image=b.choose((1, 2, 2, 2, 3))))


def conv_transpose(b: Builder) -> Value:
    x = b.pick(image=b.choose((1, 2, 2)))
    spatial, c = x.rank - 2, x.shape[1]
    group = c if b.chance(0.2) else 1
    out = group * b.integer(1, 3)
    kernel = [b.integer(1, 4) for _ in range(spatial)]
    stride = [b.integer(1, 2) for _ in range(spatial)]
    pads = [b.integer(0, min(1, k - 1)) for k in kernel * 2]
    extra = [b.integer(0, s - 1) for s in stride]
    sizes = [
        (n - 1) * stride[i] + kernel[i] + extra[i] - pads[i] - pads[i + spatial] for i, n in enumerate(x.shape[2:])
    ]
    weight = b.weight((c, out // group, *kernel), (0, *range(2, 2 + spatial)))
    inputs: list[Value | None] = [x, weight]
    if b.chance(0.6):
        inputs.append(b.vector(out))
    return b.node(
        "ConvTranspose",
        inputs,
        (x.shape[0], out, *sizes),
        F32,
        1.5 * x.mag + 1,
        kernel_shape=kernel,
        strides=stride,
        pads=pads,
        output_padding=extra if any(extra) or b.chance(0.3) else None,
        group=group,
    )


def gemm(b: Builder) -> Value:
    x = b.pick(2)
    trans_a, trans_b = b.chance(0.2), b.chance(0.5)
    m, k = (x.shape[1], x.shape[0]) if trans_a else x.shape
    n = b.integer(1, 5)
    w = b.weight((n, k) if trans_b else (k, n), (1,) if trans_b else (0,))
    inputs: list[Value | None] = [x, w]
    if b.opset < 11 or b.chance(0.7):
        inputs.append(b.const(b.rng.uniform(-1, 1, b.choose(((n,), (1, n), (m, n)))), F32))
    return b.node(
        "Gemm",
        inputs,
        (m, n),
        F32,
        2 * 1.5 * x.mag + 2,
        alpha=b.choose((None, 0.5, 1.5)),
        beta=b.choose((None, 0.5, 2.0)),
        transA=int(trans_a) or None,
        transB=int(trans_b) or None,
    )


def matmul(b: Builder) -> Value:
    x = b.pick((1, 2, 3, 4))
    if x.rank >= 2 and b.chance(0.25):
        y = b.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])
        small = b.bounded(x, 1.0)
        return b.node("MatMul", [small, y], (*x.shape[:-1], x.shape[-2]), F32, x.mag * x.shape[-1])
    n = b.integer(1, 5)
    shape = (x.shape[-1], n)
    if x.rank >= 3 and b.chance(0.3):
        shape = (*x.shape[:-2], *shape)
    w = b.weight(shape, (len(shape) - 2,))
    return b.node("MatMul", [x, w], (*x.shape[:-1], n), F32, 1.5 * x.mag)


def einsum(b: Builder) -> Value:
    x = b.pick(3)
    i, j, k = x.shape
    n = b.integer(1, 4)
    equation, shape, out, axis = b.choose(
        (
            ("bij,jk->bik", (k, n), (i, j, n), 0),
            ("bij,kj->bki", (n, k), (i, n, j), 1),
            ("bij,bjk->bik", (i, k, n), (i, j, n), 1),
            ("bij,ij->bi", (j, k), (i, j), 1),
        )
    )
    return b.node("Einsum", [x, b.weight(shape, (axis,))], out, F32, 1.5 * x.mag, equation=equation)


def batch_norm(b: Builder, x: Value) -> Value:
    c = x.shape[1]
    parts = [b.vector(c, 0.4, 1.6), b.vector(c), b.vector(c), b.vector(c, 0.05, 2.0)]
    mag = 1.6 * (x.mag + 1) / 0.05**0.5 + 1
    return b.node(
        "BatchNormalization",
        [x, *parts],
        x.shape,
        F32,
        mag,
        epsilon=b.choose((None, 1e-5, 1e-3)),
        momentum=b.choose((None, 0.1)),
    )


def batch_normalization(b: Builder) -> Value:
    return batch_norm(b, b.pick((2, 3, 4), where=lambda v: v.shape[1] <= 16, mag=8.0))


def conv_batch_norm(b: Builder) -> Value:
    y = batch_norm(b, convolve(b, b.pick(image=b.choose((1, 2, 2)), mag=8.0)))
    return b.node("Relu", [y], y.shape, F32, y.mag) if b.chance(0.7) else y


def conv_transpose_batch_norm(b: Builder) -> Value:
    return batch_norm(b, b.bounded(conv_transpose(b), 8.0))


def conv_batch_norm_two_readers(b: Builder) -> Value:
    """The convolution's own output is read a second time, so the norm cannot go into its weights alone."""
    c = convolve(b, b.pick(image=2, mag=8.0))
    y = batch_norm(b, c)
    return b.binary("Add", y, c, y.mag + c.mag)


def batch_norm_behind_concat(b: Builder) -> Value:
    x = b.pick(image=2, mag=8.0)
    left, right = convolve(b, x, plain=True), convolve(b, x, plain=True)
    both = b.node(
        "Concat", [left, right], (x.shape[0], left.shape[1] + right.shape[1], *x.shape[2:]), F32, left.mag, axis=1
    )
    y = batch_norm(b, both)
    if b.chance(0.5):
        b.node("Sigmoid", [left], left.shape, F32)
    return y


def conv_scaled(b: Builder) -> Value:
    """Conv, then Mul and Add of per-channel constants."""
    y = convolve(b, b.pick(image=2))
    for op in b.choose((("Mul",), ("Add",), ("Mul", "Add"), ("Sub",), ("Div",))):
        shape = b.choose(((y.shape[1], 1, 1), (1, y.shape[1], 1, 1), ()))
        y = b.binary(op, y, b.const(b.rng.uniform(0.5, 1.5, shape), F32), 2 * y.mag + 1.5)
    return y


def pad_conv(b: Builder) -> Value:
    x = b.pick(image=2)
    n = b.choose((1, 2))
    mode = b.choose(("constant", "constant", "reflect", "edge"))
    number = b.choose((None, 0.0, 0.0, 0.5)) if mode == "constant" else None
    return convolve(b, b.pad(x, (0, 0, n, n, 0, 0, n, b.choose((n, 1))), mode, number))


def input_normalisation_conv(b: Builder) -> Value:
    x = b.input((1, 3, b.choose((5, 6)), 5))
    mean = b.const(b.rng.uniform(0.3, 0.6, (1, 3, 1, 1)), F32)
    std = b.const(b.rng.uniform(0.2, 0.5, (1, 3, 1, 1)), F32)
    y = b.binary("Div", b.binary("Sub", x, mean, 4.0), std, 20.0)
    return convolve(b, y)


def conv_shared_weight(b: Builder) -> Value:
    x = b.pick(image=2)
    c = x.shape[1]
    w = b.weight((c, c, 3, 3), (1, 2, 3))
    attributes = {"pads": [1, 1, 1, 1]}
    y = b.node("Conv", [x, w], x.shape, F32, 1.5 * x.mag, **attributes)
    y = b.node("Relu", [y], x.shape, F32, y.mag)
    y = b.node("Conv", [y, w, b.vector(c)], x.shape, F32, 1.5 * y.mag + 1, **attributes)
    b.patterns.add("shared_weight")
    return batch_norm(b, b.bounded(y, 8.0)) if b.chance(0.5) else y


EMITTERS = (
    Emitter(emit=conv, weight=3),
    Emitter(emit=conv_transpose, weight=1.5),
    Emitter(emit=gemm, weight=1.5),
    Emitter(emit=matmul, weight=1.5),
    Emitter(emit=einsum, since=12),
    Emitter(emit=batch_normalization),
    Emitter(emit=conv_batch_norm, weight=1.5),
    Emitter(emit=conv_transpose_batch_norm),
    Emitter(emit=conv_batch_norm_two_readers),
    Emitter(emit=batch_norm_behind_concat),
    Emitter(emit=conv_scaled),
    Emitter(emit=pad_conv, weight=1.2),
    Emitter(emit=input_normalisation_conv, weight=0.7),
    Emitter(emit=conv_shared_weight),
)

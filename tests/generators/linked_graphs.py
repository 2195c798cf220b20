"""Random image nets whose channels hang together: weighted operators with what a channel's scale passes or does not.

`random_graph` draws operators of all kinds, so that two weighted ones with nothing but piecewise linear operators in
between are rare in it. Here every graph is one chain of such operators over (N, C, H, W), with residual adds, concats,
splits, gates and channels that move, and now and then an operator that no scale passes. Feeds and weights are those of
`builder`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper
from tests.generators.builder import F32, I64, LARGEST, Builder, Value
from tests.generators.convolution import convolve
from tests.generators.random_graphs import Case

OPSETS = (11, 12, 13, 15, 17, 18, 21)
MOST_CHANNELS = 12


def relu(b: Builder, x: Value) -> Value:
    return b.node("Relu", [x], x.shape, F32, x.mag)


def leaky_relu(b: Builder, x: Value) -> Value:
    return b.node("LeakyRelu", [x], x.shape, F32, x.mag, alpha=b.choose((None, 0.1, 0.3)))


def prelu(b: Builder, x: Value) -> Value:
    shape = b.choose(((x.shape[1], 1, 1), (1, 1, 1), (1,)))
    return b.node("PRelu", [x, b.const(b.rng.uniform(0.0, 0.5, shape), F32)], x.shape, F32, x.mag)


def absolute(b: Builder, x: Value) -> Value:
    return b.node(b.choose(("Abs", "Neg", "Identity")), [x], x.shape, F32, x.mag)


def max_constant(b: Builder, x: Value) -> Value:
    bound = b.const(b.rng.uniform(-0.3, 0.3, b.choose(((), (1,), (x.shape[1], 1, 1)))), F32)
    bound = b.scalar(0.0) if b.chance(0.4) else bound
    return b.binary(b.choose(("Max", "Min")), *((x, bound) if b.chance(0.7) else (bound, x)), mag=x.mag + 0.3)


def clip(b: Builder, x: Value) -> Value:
    return b.clip(x, *b.choose(((0.0, None), (None, 0.0), (0.0, 6.0), (-1.0, 1.0))))


def max_pool(b: Builder, x: Value) -> Value:
    return b.node("MaxPool", [x], x.shape, F32, x.mag, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])


def average_pool(b: Builder, x: Value) -> Value:
    include = b.choose((None, 1))
    return b.node("AveragePool", [x], x.shape, F32, x.mag, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=include)


def add_of_global_pool(b: Builder, x: Value) -> Value:
    pooled_shape = (*x.shape[:2], 1, 1)
    kind = b.choose(("GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceMax"))
    if kind.startswith("Global"):
        y = b.node(kind, [x], pooled_shape, F32, x.mag)
    else:
        y = b.reduce(kind, x, (2, 3), True, x.mag)
    return b.binary("Add", x, y, 2 * x.mag)


def subtract_channel_mean(b: Builder, x: Value) -> Value:
    return b.binary("Sub", x, b.reduce("ReduceMean", x, (1,), True, x.mag), 2 * x.mag)


def pad(b: Builder, x: Value) -> Value:
    mode = b.choose(("reflect", "edge", "constant", "constant"))
    number = b.choose((None, 0.0, 0.0, 0.5)) if mode == "constant" else None
    return convolve(b, b.pad(x, (0, 0, 1, 0, 0, 0, 1, 1), mode, number))


def pad_channels(b: Builder, x: Value) -> Value:
    return b.pad(x, (0, 1, 0, 0, 0, 0, 0, 0), "constant")


def resize(b: Builder, x: Value) -> Value:
    if x.size > LARGEST // 4:
        return max_pool(b, x)
    mode = b.choose(("nearest", "linear", "cubic"))
    roi = b.const(np.zeros(0), F32) if b.opset < 13 else None
    coordinates = "asymmetric" if mode == "nearest" else b.choose(("half_pixel", "align_corners"))
    return b.node(
        "Resize",
        [x, roi, b.const((1.0, 1.0, 2.0, 2.0), F32)],
        (*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]),
        F32,
        2 * x.mag,
        mode=mode,
        coordinate_transformation_mode=coordinates,
        nearest_mode="floor" if mode == "nearest" else None,
    )


def concat(b: Builder, x: Value) -> Value:
    other = b.choose(("conv", "self", "constant"))
    if other == "conv":
        y = convolve(b, x, b.integer(1, 4), plain=True)
    elif other == "self":
        y = x
    else:
        y = b.const(b.rng.uniform(-1, 1, (x.shape[0], 1, *x.shape[2:])), F32)
    parts = [x, y] if b.chance(0.5) else [y, x]
    channels = x.shape[1] + y.shape[1]
    return b.node("Concat", parts, (x.shape[0], channels, *x.shape[2:]), F32, max(x.mag, y.mag), axis=b.choose((1, -3)))


def concat_rows(b: Builder, x: Value) -> Value:
    y = relu(b, convolve(b, x, x.shape[1], plain=True))
    return b.node("Concat", [x, y], (*x.shape[:2], 2 * x.shape[2], x.shape[3]), F32, max(x.mag, y.mag), axis=2)


def split_and_swap(b: Builder, x: Value) -> Value:
    if x.shape[1] < 2:
        return relu(b, x)
    first = b.integer(1, x.shape[1] - 1)
    front, back = b.split(x, (first, x.shape[1] - first), 1)
    if b.chance(0.4):
        front = b.node("Sigmoid", [front], front.shape, F32, 1.0)
    return b.node("Concat", [back, front], x.shape, F32, x.mag + 1, axis=1)


def slice_channels(b: Builder, x: Value) -> Value:
    if x.shape[1] < 2:
        return relu(b, x)
    return b.slice(x, [1], [x.shape[1]], [1])


def gather_channels(b: Builder, x: Value) -> Value:
    order = b.rng.integers(0, x.shape[1], x.shape[1])
    return b.node("Gather", [x, b.const(order, I64)], x.shape, F32, x.mag, axis=1)


def residual(b: Builder, x: Value) -> Value:
    y = convolve(b, relu(b, convolve(b, x, x.shape[1], plain=True)), x.shape[1], plain=True)
    return b.binary(b.choose(("Add", "Add", "Sub")), *((x, y) if b.chance(0.5) else (y, x)), mag=x.mag + y.mag)


def add_constant(b: Builder, x: Value) -> Value:
    shape = b.choose(((x.shape[1], 1, 1), (1, x.shape[1], 1, 1), (), x.shape[1:]))
    values = b.const(b.rng.uniform(-0.5, 0.5, shape), F32)
    op = b.choose(("Add", "Sub", "Sum"))
    return b.node(op, [x, values] if b.chance(0.5) else [values, x], x.shape, F32, x.mag + 0.5)


def multiply_constant(b: Builder, x: Value) -> Value:
    shape = b.choose(((x.shape[1], 1, 1), (1, x.shape[1], 1, 1), ()))
    return b.binary(b.choose(("Mul", "Div")), x, b.const(b.rng.uniform(0.6, 1.5, shape), F32), 2 * x.mag)


def batch_norm(b: Builder, x: Value) -> Value:
    c = x.shape[1]
    parts = [b.vector(c, 0.4, 1.6), b.vector(c), b.vector(c), b.vector(c, 0.5, 2.0)]
    return b.node("BatchNormalization", [x, *parts], x.shape, F32, 2.5 * x.mag + 3, epsilon=b.choose((None, 1e-3)))


def depthwise(b: Builder, x: Value) -> Value:
    c = x.shape[1]
    times = b.integer(1, 2)
    weight = b.weight((times * c, 1, 3, 3), (1, 2, 3))
    shape = (x.shape[0], times * c, *x.shape[2:])
    return b.node("Conv", [x, weight, b.vector(times * c)], shape, F32, 1.5 * x.mag + 1, pads=[1] * 4, group=c)


def conv(b: Builder, x: Value) -> Value:
    return convolve(b, x, plain=b.chance(0.5))


def conv_transpose(b: Builder, x: Value) -> Value:
    c = x.shape[1]
    group = b.choose([g for g in (1, 2, c) if c % g == 0])
    out = b.integer(1, 2)
    shape = (x.shape[0], out * group, x.shape[2] + 1, x.shape[3] + 1)
    weight = b.weight((c, out, 2, 2), (0, 2, 3))
    inputs: list[Value | None] = [x, weight, b.vector(out * group) if b.chance(0.5) else None]
    return b.node("ConvTranspose", inputs, shape, F32, 1.5 * x.mag + 1, group=group)


def depth_to_space(b: Builder, x: Value) -> Value:
    y = convolve(b, x, 4 * b.integer(1, 2), plain=True)
    if y.size > LARGEST:
        return y
    shape = (y.shape[0], y.shape[1] // 4, 2 * y.shape[2], 2 * y.shape[3])
    return b.node("DepthToSpace", [y], shape, F32, y.mag, blocksize=2, mode=b.choose((None, "DCR", "CRD")))


def space_to_depth(b: Builder, x: Value) -> Value:
    n, c, h, w = x.shape
    if h % 2 or w % 2 or 4 * c > MOST_CHANNELS:
        return relu(b, x)
    return b.node("SpaceToDepth", [x], (n, 4 * c, h // 2, w // 2), F32, x.mag, blocksize=2)


def last_axis_matmul(b: Builder, x: Value) -> Value:
    """NCHW -> NHWC, a MatMul over the channels, and back."""
    c, n = x.shape[1], b.integer(2, 5)
    y = b.transpose(x, (0, 2, 3, 1))
    y = b.node("MatMul", [y, b.weight((c, n), (0,))], (*y.shape[:3], n), F32, 1.5 * y.mag)
    y = b.binary("Add", y, b.vector(n), y.mag + 1)
    return b.transpose(y, (0, 3, 1, 2))


def reshape_and_back(b: Builder, x: Value) -> Value:
    n, c, h, w = x.shape
    y = b.reshape(x, (n, c, h * w))
    return b.reshape(relu(b, y), (n, c, h, w))


def channel_shuffle(b: Builder, x: Value) -> Value:
    n, c, h, w = x.shape
    if c % 2:
        return relu(b, x)
    return b.reshape(b.transpose(b.reshape(x, (n, 2, c // 2, h, w)), (0, 2, 1, 3, 4)), (n, c, h, w))


def gate(b: Builder, x: Value) -> Value:
    n, c = x.shape[:2]
    y = b.node("GlobalAveragePool", [x], (n, c, 1, 1), F32, x.mag)
    y = relu(b, b.node("Conv", [y, b.weight((2, c, 1, 1), (1,)), b.vector(2)], (n, 2, 1, 1), F32, 1.5 * y.mag + 1))
    y = b.node("Conv", [y, b.weight((c, 2, 1, 1), (1,)), b.vector(c)], (n, c, 1, 1), F32, 1.5 * y.mag + 1)
    y = b.node(b.choose(("Sigmoid", "HardSigmoid")), [y], y.shape, F32, 1.0)
    return b.binary("Mul", *((x, y) if b.chance(0.5) else (y, x)), mag=x.mag)


def product(b: Builder, x: Value) -> Value:
    y = convolve(b, x, x.shape[1], plain=True)
    return b.bounded(b.binary("Mul", x, y, x.mag * y.mag), 8.0)


def where(b: Builder, x: Value) -> Value:
    condition = b.const(b.rng.random((1, 1, *x.shape[2:])) < 0.5, np.dtype(bool))
    other = convolve(b, x, x.shape[1], plain=True) if b.chance(0.5) else b.scalar(0.25)
    return b.node("Where", [condition, x, other], x.shape, F32, max(x.mag, other.mag))


def instance_norm(b: Builder, x: Value) -> Value:
    c = x.shape[1]
    parts = [b.vector(c, 0.4, 1.6), b.vector(c)]
    return b.node("InstanceNormalization", [x, *parts], x.shape, F32, 12.0, epsilon=b.choose((1e-5, 1e-2)))


def opaque(b: Builder, x: Value) -> Value:
    """No scale passes."""
    if b.chance(0.2):
        return b.node("Softmax", [x], x.shape, F32, 1.0, axis=1)
    return b.node(b.choose(("Sigmoid", "Tanh", "Elu")), [x], x.shape, F32, max(x.mag, 1.0))


Step = Callable[[Builder, Value], Value]
STEPS: tuple[Step, ...] = (
    relu, leaky_relu, prelu, absolute, max_constant, clip, max_pool, average_pool, add_of_global_pool,
    subtract_channel_mean, pad, pad_channels, resize, concat, concat_rows, split_and_swap, slice_channels,
    gather_channels, residual, add_constant, multiply_constant, batch_norm, depthwise, conv, conv_transpose,
    depth_to_space, space_to_depth, last_axis_matmul, reshape_and_back, channel_shuffle, gate, product, where,
    instance_norm, opaque,
)  # fmt: skip
WEIGHTED: tuple[Step, ...] = (conv, conv, depthwise, conv_transpose, last_axis_matmul)


def random_linked_graph(seed: int) -> Case:
    """The case of a seed."""
    b = Builder(
        rng=np.random.default_rng([20261130, seed]),
        opset=OPSETS[seed % len(OPSETS)],
        ir_version=8 + (seed % 7 == 6) * 2,
    )
    x = b.input((b.integer(1, 2), b.integer(2, 4), b.choose((4, 6)), b.choose((4, 5, 6))))
    y = convolve(b, x, b.integer(2, 6), plain=True)
    for _ in range(b.integer(2, 7)):
        step: Step = b.choose(WEIGHTED if b.chance(0.25) else STEPS)
        y = b.bounded(step(b, y), 50.0)
        b.patterns.add(step.__name__)
        if y.shape[1] > MOST_CHANNELS or y.size > LARGEST or min(y.shape[2:]) < 3:
            break
    outputs = [_head(b, y)]
    made = [v for v in b.pool if v.rank == 4 and v.name != x.name and v.size <= LARGEST]
    if b.chance(0.2):
        outputs.append(b.choose(made))
        b.patterns.add("read_output")
    infos = [helper.make_tensor_value_info(v.name, 1, v.shape) for v in {v.name: v for v in outputs}.values()]
    graph = helper.make_graph(b.nodes, f"linked_{seed}", [*b.inputs, *b.initializer_inputs], infos, b.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", b.opset)], ir_version=b.ir_version)
    return Case(
        model=model, feeds=b.feeds, ops=frozenset(b.ops), opset=b.opset, seed=seed, patterns=frozenset(b.patterns)
    )


def _head(b: Builder, y: Value) -> Value:
    """What the chain ends in: a convolution, or a Gemm behind Flatten."""
    kind = b.choose(("conv", "flatten", "pooled"))
    b.patterns.add(f"head_{kind}")
    if kind == "conv":
        return convolve(b, y, plain=True)
    if kind == "pooled":
        y = b.node("GlobalAveragePool", [y], (*y.shape[:2], 1, 1), F32, y.mag)
    n, k = y.shape[0], y.size // y.shape[0]
    flat = b.node("Flatten", [y], (n, k), F32, y.mag, axis=1)
    transposed = b.chance(0.5)
    weight = b.weight((3, k) if transposed else (k, 3), (1,) if transposed else (0,))
    return b.node("Gemm", [flat, weight, b.vector(3)], (n, 3), F32, 1.5 * y.mag + 1, transB=int(transposed) or None)

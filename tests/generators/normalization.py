"""Emitters of normalization operators, of softmax and of the reductions."""

from __future__ import annotations

from tests.generators.builder import F32, I64, Builder, Emitter, Value

EPSILONS = (1e-5, 1e-3, 1e-2)


def _has_spread(v: Value) -> bool:
    """A norm over fewer than 4 numbers divides by a variance that is often nearly nothing."""
    return v.size // (v.shape[0] * v.shape[1]) >= 4 if v.rank >= 3 else False


def _wide_last(v: Value) -> bool:
    return v.rank >= 2 and v.shape[-1] >= 3


def instance_norm(b: Builder) -> Value:
    x = b.pick((3, 4, 5), where=_has_spread)
    c = x.shape[1]
    n = x.size // (x.shape[0] * c)
    return b.node(
        "InstanceNormalization",
        [x, b.vector(c, 0.4, 1.6), b.vector(c)],
        x.shape,
        F32,
        1.6 * n**0.5 + 1,
        epsilon=b.choose(EPSILONS),
    )


def layer_norm(b: Builder) -> Value:
    x = b.pick(where=_wide_last)
    axis = b.choose((-1, x.rank - 1))
    n = x.shape[-1]
    inputs: list[Value | None] = [x, b.vector(n, 0.4, 1.6)]
    if b.chance(0.7):
        inputs.append(b.vector(n))
    return b.node("LayerNormalization", inputs, x.shape, F32, 1.6 * n**0.5 + 1, axis=axis, epsilon=b.choose(EPSILONS))


def group_norm(b: Builder) -> Value:
    x = b.pick((3, 4), where=lambda v: _has_spread(v) and v.shape[1] % 2 == 0)
    c = x.shape[1]
    return b.node(
        "GroupNormalization",
        [x, b.vector(c, 0.4, 1.6), b.vector(c)],
        x.shape,
        F32,
        1.6 * x.size**0.5 + 1,
        num_groups=2,
        epsilon=b.choose(EPSILONS),
    )


def lp_normalization(b: Builder) -> Value:
    x = b.positive(b.pick((2, 3, 4)))
    axis = b.choose((-1, 1))
    return b.node("LpNormalization", [x], x.shape, F32, 1.0, axis=axis, p=b.choose((1, 2)))


def lrn(b: Builder) -> Value:
    x = b.pick(image=2)
    return b.node("LRN", [x], x.shape, F32, x.mag, size=b.choose((1, 3)), alpha=0.1, beta=0.75, bias=1.0)


def softmax(b: Builder) -> Value:
    """Before opset 13 the default axis is 1 and everything behind it is flattened into one distribution."""
    x = b.pick((1, 2, 3, 4), mag=20.0)
    op = b.choose(("Softmax", "Softmax", "LogSoftmax"))
    axis = b.choose((None, -1, 0, x.rank - 1, min(1, x.rank - 1)))
    if axis is None and x.rank == 1 and b.opset < 13:
        axis = 0
    if axis is not None and axis < 0 and b.opset < 11:
        axis = x.rank - 1
    return b.node(op, [x], x.shape, F32, 1.0 if op == "Softmax" else 2 * x.mag + 8, axis=axis)


def reduction(b: Builder) -> Value:
    x = b.pick((2, 3, 4))
    op = b.choose(
        (
            "ReduceMean",
            "ReduceSum",
            "ReduceMax",
            "ReduceMin",
            "ReduceMean",
            "ReduceSumSquare",
            "ReduceL1",
            "ReduceL2",
            "ReduceProd",
        )
    )
    if op == "ReduceProd":
        x = b.bounded(b.pick((2, 3, 4), where=lambda v: v.shape[-1] <= 3), 2.0)
    if op == "ReduceL2":
        x = b.positive(x)
    axes = b.choose(((1,), (-1,), (0, 1), tuple(range(x.rank)))) if op != "ReduceProd" else (-1,)
    if b.opset < 11:
        axes = tuple(a % x.rank for a in axes)
    n = x.size
    mag = {"ReduceMean": x.mag, "ReduceMax": x.mag, "ReduceMin": x.mag, "ReduceProd": 8.0}.get(
        op, n * max(x.mag, x.mag**2)
    )
    return b.reduce(op, x, axes, b.chance(0.6), mag)


def reduce_log_sum_exp(b: Builder) -> Value:
    x = b.pick((2, 3), mag=4.0)
    return b.reduce(b.choose(("ReduceLogSumExp", "ReduceLogSum")), b.positive(x), (x.rank - 1,), b.chance(0.5), 12.0)


def arg_max(b: Builder) -> Value:
    x = b.pick((2, 3, 4), exact=True)
    if b.chance(0.5):
        x = b.node("Floor", [x], x.shape, F32, x.mag + 1)  # ties
    axis, keep = b.integer(0, x.rank - 1), b.chance(0.5)
    shape = [1 if i == axis else n for i, n in enumerate(x.shape) if keep or i != axis]
    last = b.choose((None, 0, 1)) if b.opset >= 12 else None
    return b.node(
        b.choose(("ArgMax", "ArgMin")), [x], shape, I64, 7.0, axis=axis, keepdims=int(keep), select_last_index=last
    )


def top_k(b: Builder) -> Value:
    x = b.pick((1, 2, 3), exact=True, where=lambda v: v.shape[-1] >= 2)
    k = b.integer(1, x.shape[-1])
    specs = [((*x.shape[:-1], k), F32, x.mag), ((*x.shape[:-1], k), I64, 7.0)]
    if b.opset < 10:
        return b.multi("TopK", [x], specs, k=k, axis=-1)[0]
    largest = b.choose((None, 0)) if b.opset >= 11 else None
    return b.multi("TopK", [x, b.ints(k)], specs, axis=b.choose((-1, None)), largest=largest)[0]


def cum_sum(b: Builder) -> Value:
    x = b.pick((1, 2, 3))
    axis = b.integer(0, x.rank - 1)
    return b.node(
        "CumSum",
        [x, b.const(axis, I64)],
        x.shape,
        F32,
        x.mag * x.shape[axis],
        exclusive=b.choose((None, 1)),
        reverse=b.choose((None, 1)),
    )


EMITTERS = (
    Emitter(emit=instance_norm, weight=1.5),
    Emitter(emit=layer_norm, since=17, weight=2),
    Emitter(emit=group_norm, since=21, weight=6),
    Emitter(emit=lp_normalization),
    Emitter(emit=lrn, weight=0.6),
    Emitter(emit=softmax, weight=2),
    Emitter(emit=reduction, weight=3),
    Emitter(emit=reduce_log_sum_exp),
    Emitter(emit=arg_max),
    Emitter(emit=top_k),
    Emitter(emit=cum_sum, since=11),
)

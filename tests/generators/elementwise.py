"""Emitters of elementwise operators: activations, arithmetic, comparisons, casts."""

from __future__ import annotations

import math

from tests.generators.builder import BOOL, F16, F32, F64, I64, Builder, Emitter, Value


def _unary(b: Builder, op: str, x: Value, mag: float, **attributes: float) -> Value:
    return b.node(op, [x], x.shape, x.dtype, mag, **attributes)


def relu_family(b: Builder) -> Value:
    x = b.pick()
    op = b.choose(("Relu", "LeakyRelu", "Elu", "Selu", "Celu" if b.opset >= 12 else "Relu"))
    if op == "LeakyRelu":
        return _unary(b, op, x, x.mag, alpha=b.choose((None, 0.2, 0.1)))
    if op == "Elu":
        return _unary(b, op, x, max(x.mag, 1.5), alpha=b.choose((None, 0.5, 1.5)))
    if op == "Celu":
        return _unary(b, op, x, max(x.mag, 1.5), alpha=b.choose((0.5, 1.5)))
    return _unary(b, op, x, x.mag if op == "Relu" else 1.8 * x.mag + 2)


def prelu(b: Builder) -> Value:
    x = b.pick((2, 3, 4))
    c = x.shape[1]
    shape = b.choose(((1,), (c, *[1] * (x.rank - 2))))
    slope = b.const(b.rng.uniform(0.05, 0.5, shape), F32)
    return b.node("PRelu", [x, slope], x.shape, F32, x.mag)


def sigmoid_family(b: Builder) -> Value:
    x = b.pick()
    op = b.choose(("Sigmoid", "Tanh", "Softplus", "Softsign", "HardSigmoid", "Erf", "Atan", "Sin", "Cos"))
    if op == "HardSigmoid":
        return _unary(b, op, x, 1.0, alpha=b.choose((None, 1 / 6, 0.3)), beta=b.choose((None, 0.4)))
    return _unary(b, op, x, x.mag + 1 if op == "Softplus" else 1.6)


def hard_swish(b: Builder) -> Value:
    x = b.pick()
    return _unary(b, "HardSwish", x, x.mag)


def mish(b: Builder) -> Value:
    x = b.pick()
    return _unary(b, "Mish", x, x.mag)


def gelu(b: Builder) -> Value:
    x = b.pick()
    return b.node("Gelu", [x], x.shape, F32, x.mag, approximate=b.choose((None, "none", "tanh")))


def clip(b: Builder) -> Value:
    x = b.pick()
    low, high = b.choose(((-1.0, 1.0), (0.0, 6.0), (None, 0.75), (-0.5, None), (0.0, None), (None, None), (0.0, 1.0)))
    return b.clip(x, low, high)


def exp_log(b: Builder) -> Value:
    x = b.pick(mag=3.0)
    op = b.choose(("Exp", "Log", "Sqrt", "Reciprocal"))
    if op == "Exp":
        return _unary(b, "Exp", x, math.exp(x.mag))
    y = b.positive(x)
    return _unary(b, op, y, 4.0 if op != "Sqrt" else math.sqrt(y.mag) + 1)


def sign_family(b: Builder) -> Value:
    x = b.pick()
    return _unary(b, b.choose(("Abs", "Neg", "Abs")), x, x.mag)


def rounding(b: Builder) -> Value:
    x = b.pick(exact=True)
    op = b.choose(("Floor", "Ceil", "Sign", "Round" if b.opset >= 11 else "Floor"))
    return _unary(b, op, x, x.mag + 1)


def _partner(b: Builder, x: Value, low: float = -1.5, high: float = 1.5) -> Value:
    """Another tensor that broadcasts with x: of the same shape, a constant, a channel vector, a scalar."""
    same = [v for v in b.pool if v.dtype == x.dtype and v.shape == x.shape and v.mag <= 50]
    if same and b.chance(0.5):
        return b.choose(same)
    kind = b.integer(0, 3)
    if kind == 0 or x.rank == 0:
        return b.scalar(float(b.rng.uniform(low, high)), x.dtype)
    if kind == 1:
        return b.const(b.rng.uniform(low, high, x.shape[-1:]), x.dtype)
    if kind == 2 and x.rank >= 3:
        return b.const(b.rng.uniform(low, high, (x.shape[1], *[1] * (x.rank - 2))), x.dtype)
    shape = tuple(n if b.chance(0.6) else 1 for n in x.shape)
    return b.const(b.rng.uniform(low, high, shape), x.dtype)


def arithmetic(b: Builder) -> Value:
    x = b.pick()
    y = _partner(b, x)
    op = b.choose(("Add", "Sub", "Mul", "Add", "Mul"))
    if b.chance(0.3):
        x, y = y, x
    return b.binary(op, x, y, x.mag * y.mag if op == "Mul" else x.mag + y.mag)


def division(b: Builder) -> Value:
    x = b.pick()
    y = b.const(b.rng.uniform(0.4, 2.0, x.shape[-1:]), F32) if b.chance(0.5) else b.positive(x, 0.5)
    return b.binary("Div", x, y, x.mag / 0.4)


def power(b: Builder) -> Value:
    x = b.pick(mag=4.0)
    if b.chance(0.5):
        return b.binary("Pow", x, b.scalar(b.choose((2.0, 3.0))), x.mag**3)
    y = b.positive(x)
    return b.binary("Pow", y, b.scalar(b.choose((0.5, -0.5, 1.5, -1.0))), 10.0)


def min_max_mean(b: Builder) -> Value:
    x = b.pick()
    y = _partner(b, x)
    op = b.choose(("Min", "Max", "Sum", "Mean"))
    values = [x, y] if b.chance(0.7) else [x, y, x]
    shape = x.shape
    for v in values:
        shape = tuple(max(p, q) for p, q in zip(_wide(shape, v.rank), _wide(v.shape, len(shape)), strict=True))
    return b.node(op, values, shape, F32, sum(v.mag for v in values))


def _wide(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * max(0, rank - len(shape)) + shape


def compare_where(b: Builder) -> Value:
    x = b.pick(exact=True)
    op = b.choose(("Greater", "Less"))
    cond = b.binary(op, x, b.scalar(b.choose((0.0, 0.25, -0.5))), 1.0, BOOL)
    if b.chance(0.5):
        cond = b.node("Not", [cond], cond.shape, BOOL)
    if b.chance(0.4):
        other = b.binary("Less", x, b.scalar(1.0), 1.0, BOOL)
        cond = b.binary(b.choose(("And", "Or", "Xor")), cond, other, 1.0, BOOL)
    same = [v for v in b.pool if v.shape == x.shape and v.dtype == F32]
    y = b.choose(same)
    z = _partner(b, x)
    return b.node("Where", [cond, y, z], x.shape, F32, max(y.mag, z.mag)) if b.chance(0.8) else b.cast(cond, F32)


def equal_ints(b: Builder) -> Value:
    x = b.pick(exact=True)
    whole = b.cast(b.node("Floor", [x], x.shape, F32, x.mag + 1), I64)
    same = b.binary("Equal", whole, b.const(1, I64), 1.0, BOOL)
    return b.cast(same, b.choose((F32, I64)))


def cast_islands(b: Builder) -> Value:
    """A stretch in float16, float64 or int64 between two Casts."""
    kind = b.choose((F16, F64, I64))
    if kind == I64:
        x = b.pick(exact=True)
        y = b.cast(b.node("Floor", [x], x.shape, F32, x.mag + 1), I64)
        y = b.binary("Add", b.binary("Mul", y, b.const(3, I64), 3 * y.mag), b.const(-1, I64), 3 * y.mag + 1)
        b.patterns.add("island_int64")
        return b.cast(y, F32)
    b.patterns.add(f"island_{kind.name}")
    x = b.pick(mag=8.0)
    y = b.cast(x, kind)
    for _ in range(b.integer(1, 3)):
        op = b.choose(("Add", "Mul", "Neg", "Abs") if kind == F16 else ("Add", "Mul", "Relu", "Sub"))
        if op in ("Add", "Mul", "Sub"):
            y = b.binary(op, y, b.scalar(b.choose((0.5, 1.25, -0.3)), kind), y.mag + 1.25)
        else:
            y = b.node(op, [y], y.shape, kind, y.mag)
    return b.cast(y, F32)


EMITTERS = (
    Emitter(emit=relu_family, weight=2.5),
    Emitter(emit=prelu),
    Emitter(emit=sigmoid_family, weight=2.5),
    Emitter(emit=hard_swish, since=14),
    Emitter(emit=mish, since=18, weight=2),
    Emitter(emit=gelu, since=20, weight=3),
    Emitter(emit=clip, weight=1.5),
    Emitter(emit=exp_log, weight=1.5),
    Emitter(emit=sign_family),
    Emitter(emit=rounding, weight=2),
    Emitter(emit=arithmetic, weight=3),
    Emitter(emit=division),
    Emitter(emit=power),
    Emitter(emit=min_max_mean, weight=1.2),
    Emitter(emit=compare_where, weight=1.5),
    Emitter(emit=equal_ints, since=11),
    Emitter(emit=cast_islands, weight=1.5),
)

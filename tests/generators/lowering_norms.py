"""Norms over all ranks, axes and group counts, over data whose mean is large against its deviation now and then."""

from __future__ import annotations

import math

from tests.generators.builder import F32, Builder, Emitter, Value

EPSILONS = (None, 1e-3, 1e-2)


def _image(b: Builder, channels: int, spatial: int) -> Value:
    while True:
        sizes = [b.choose((1, 2, 3, 5)) for _ in range(spatial)]
        if math.prod(sizes) >= 4:
            break
    x = b.input((b.integer(1, 2), channels, *sizes))
    return b.node("Add", [x, b.scalar(b.choose((4.0, 16.0)))], x.shape, F32, 20.0) if b.chance(0.3) else x


def instance_norm_case(b: Builder) -> Value:
    channels = b.integer(1, 4)
    x = _image(b, channels, b.integer(1, 4))
    inputs = [x, b.vector(channels, 0.4, 1.6), b.vector(channels)]
    return b.node("InstanceNormalization", inputs, x.shape, F32, 10.0, epsilon=b.choose(EPSILONS))


def group_norm_case(b: Builder) -> Value:
    groups, per_group = b.integer(1, 3), b.integer(1, 3)
    channels = groups * per_group
    x = _image(b, channels, b.integer(1, 3))
    inputs = [x, b.vector(channels, 0.4, 1.6), b.vector(channels)]
    return b.node("GroupNormalization", inputs, x.shape, F32, 10.0, num_groups=groups, epsilon=b.choose(EPSILONS))


def layer_norm_case(b: Builder) -> Value:
    """Over any tail of the axes."""
    x = _image(b, b.integer(2, 4), b.integer(1, 3))
    axis = b.integer(1, x.rank - 1)
    while math.prod(x.shape[axis:]) < 4:
        axis -= 1
    shape = x.shape[axis:] if b.chance(0.7) else (x.shape[-1],)
    inputs: list[Value | None] = [x, b.const(b.rng.uniform(0.4, 1.6, shape), F32)]
    if b.chance(0.6):
        inputs.append(b.const(b.rng.uniform(-1, 1, shape), F32))
    at = axis if b.chance(0.5) else axis - x.rank
    return b.node("LayerNormalization", inputs, x.shape, F32, 10.0, axis=at, epsilon=b.choose(EPSILONS))


def batch_norm_case(b: Builder) -> Value:
    channels = b.integer(1, 4)
    x = _image(b, channels, b.integer(1, 3))
    inputs = [x, b.vector(channels, 0.4, 1.6), b.vector(channels), b.vector(channels), b.vector(channels, 0.1, 2.0)]
    return b.node("BatchNormalization", inputs, x.shape, F32, 40.0, epsilon=b.choose(EPSILONS))


def mean_variance_norm_case(b: Builder) -> Value:
    x = _image(b, b.integer(1, 3), 2)
    axes = b.choose(([2, 3], [0, 2, 3], [0, 1, 2, 3]))
    return b.node("MeanVarianceNormalization", [x], x.shape, F32, 10.0, axes=axes)


def lp_norm_case(b: Builder) -> Value:
    x = b.positive(_image(b, b.integer(1, 4), b.integer(1, 2)))
    axis = b.integer(-x.rank, x.rank - 1)
    return b.node("LpNormalization", [x], x.shape, F32, 1.0, axis=axis, p=b.choose((None, 1, 2)))


EMITTERS = (
    Emitter(emit=instance_norm_case),
    Emitter(emit=group_norm_case, since=21),
    Emitter(emit=layer_norm_case, since=17),
    Emitter(emit=batch_norm_case),
    Emitter(emit=mean_variance_norm_case),
    Emitter(emit=lp_norm_case),
)

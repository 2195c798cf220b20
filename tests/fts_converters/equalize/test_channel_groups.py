"""Which links a factor passes, and what blocks it: small nets between two convolutions, one link each."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from tests.generators.run_plain import run_plain

from fts_converters.equalize.channel_groups import ChannelGroups, channel_groups
from fts_converters.equalize.factors import factors_of_groups
from fts_converters.passes.equalize import equalize

X = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Link:
    """Nodes from `a` (1, 4, 6, 6) to `b`, and how many groups of a's four channels stay free of each other."""

    id: str
    nodes: str
    free: int = 4
    made: int = 4
    side: str = "6, 6"
    opset: int = 17
    constants: dict[str, np.ndarray] = field(default_factory=dict)


C = weights(4, 1, 1, seed=5)
LINKS = (
    Link(id="relu", nodes="b = Relu(a)"),
    Link(id="leaky relu", nodes="b = LeakyRelu<alpha = 0.2>(a)"),
    Link(id="prelu", nodes="b = PRelu(a, k)", constants={"k": np.abs(C)}),
    Link(id="abs and neg", nodes="t = Abs(a) b = Neg(t)"),
    Link(id="max with 0", nodes="b = Max(a, k)", constants={"k": np.zeros((), np.float32)}),
    Link(id="min with a bound a channel", nodes="b = Min(k, a)", constants={"k": C}),
    Link(id="clip at 0", nodes="b = Clip(a, k)", constants={"k": np.zeros((), np.float32)}),
    Link(id="max pool", nodes="b = MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(a)"),
    Link(id="average pool", nodes="b = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(a)"),
    Link(id="global pool added", nodes="t = GlobalAveragePool(a) b = Add(a, t)"),
    Link(id="mean over space", nodes="t = ReduceMean<axes = [2, 3]>(a) b = Sub(a, t)"),
    Link(
        id="linear resize",
        nodes="b = Resize<mode = \"linear\">(a, , k)",
        side="12, 12",
        constants={"k": np.array([1, 1, 2, 2], np.float32)},
    ),
    Link(
        id="cubic resize",
        nodes="b = Resize<mode = \"cubic\">(a, , k)",
        side="12, 12",
        constants={"k": np.array([1, 1, 2, 2], np.float32)},
    ),
    Link(id="reflect pad", nodes="b = Pad<mode = \"reflect\">(a, k)", side="8, 8", constants={"k": np.array([0, 0, 1, 1] * 2)}),
    Link(id="zero pad", nodes="b = Pad(a, k)", side="8, 8", constants={"k": np.array([0, 0, 1, 1] * 2)}),
    Link(
        id="rows sliced",
        nodes="b = Slice(a, k, l, m)",
        side="5, 6",
        constants={"k": np.array([1]), "l": np.array([6]), "m": np.array([2])},
    ),
    Link(id="constant added a channel", nodes="b = Add(k, a)", constants={"k": C}),
    Link(id="one constant added", nodes="b = Sub(a, k)", constants={"k": np.float32([0.3])}),
    Link(id="one factor", nodes="b = Mul(a, k)", constants={"k": np.float32([0.3])}),
    Link(id="a factor a channel", nodes="b = Mul(a, k)", constants={"k": C}),
    Link(id="divided by a constant", nodes="b = Div(a, k)", constants={"k": C}),
    Link(id="gate", nodes="t = GlobalAveragePool(a) u = Sigmoid(t) b = Mul(a, u)", free=0),
    Link(id="gate from elsewhere", nodes="t = ReduceMean<axes = [1]>(x) u = Sigmoid(t) b = Mul(u, a)"),
    Link(
        id="transposed and back",
        nodes="t = Transpose<perm = [0, 2, 3, 1]>(a) u = Relu(t) b = Transpose<perm = [0, 3, 1, 2]>(u)",
    ),
    Link(
        id="reshaped and back",
        nodes="t = Reshape(a, k) u = Relu(t) b = Reshape(u, l)",
        constants={"k": np.array([1, 4, 36]), "l": np.array([1, 4, 6, 6])},
    ),
    Link(
        id="shuffled",
        nodes="t = Reshape(a, k) u = Transpose<perm = [0, 2, 1, 3, 4]>(t) b = Reshape(u, l)",
        free=2,  # each half has one factor: no single axis of (1, 2, 2, 6, 6) tells all four apart
        constants={"k": np.array([1, 2, 2, 6, 6]), "l": np.array([1, 4, 6, 6])},
    ),
    Link(id="depth to space", nodes="b = DepthToSpace<blocksize = 2>(a)", free=1, made=1, side="12, 12"),
    Link(id="space to depth", nodes="b = SpaceToDepth<blocksize = 2>(a)", made=16, side="3, 3"),
    Link(id="split and swapped", nodes="t, u = Split<axis = 1>(a) b = Concat<axis = 1>(u, t)"),
    Link(id="concat with what is scaled too", nodes="t = Relu(a) b = Concat<axis = 1>(a, t)", made=8),
    Link(id="concat with an input", nodes="b = Concat<axis = 1>(x, a)", made=7),
    Link(
        id="concat with a constant",
        nodes="b = Concat<axis = 1>(a, k)",
        made=5,
        constants={"k": weights(1, 1, 6, 6)},
    ),
    Link(id="one channel through a sigmoid", nodes="t, u = Split<axis = 1>(a, k) p = Sigmoid(u) b = Concat<axis = 1>(t, p)",
         free=3, constants={"k": np.array([3, 1])}),
    Link(id="channels gathered", nodes="b = Gather<axis = 1>(a, k)", made=3, constants={"k": np.array([3, 1, 1])}),
    Link(id="mean over channels", nodes="t = ReduceMean<axes = [1]>(a) b = Sub(a, t)", free=1),
    Link(id="chosen by position", nodes="b = Where(k, a, l)",
         constants={"k": np.eye(6, dtype=bool), "l": np.float32(0.5)}),
    Link(id="expanded", nodes="t = GlobalMaxPool(a) b = Expand(t, k)", constants={"k": np.array([1, 4, 6, 6])}),
    Link(id="relu6", nodes="b = Clip(a, k, l)", free=0, constants={"k": np.float32(0), "l": np.float32(6)}),
    Link(id="sigmoid", nodes="b = Sigmoid(a)", free=0),
    Link(id="hard swish", nodes="b = HardSwish(a)", free=0),
    Link(id="softmax", nodes="b = Softmax<axis = 1>(a)", free=0),
    Link(id="filled with 1", nodes="b = Pad(a, k, l)", free=0, side="8, 8",
         constants={"k": np.array([0, 0, 1, 1] * 2), "l": np.float32(1)}),
    Link(id="multiplied by itself", nodes="b = Mul(a, a)", free=0),
    Link(id="in double precision", nodes="t = Cast<to = 11>(a) u = Relu(t) b = Cast<to = 1>(u)", free=0),
)  # fmt: skip


def net_of(bench, link: Link) -> onnx.ModelProto:
    text = (
        f"net (float[1, 3, 6, 6] x) => (float[1, 2, {link.side}] y) {{ a = Conv<pads = [1, 1, 1, 1]>(x, w, v) {link.nodes} "
        "y = Conv(b, r) }"
    )
    return bench.net(
        text, link.opset, w=weights(4, 3, 3, 3), v=weights(4), r=weights(2, link.made, 1, 1), **link.constants
    )


def check_bits(proto: onnx.ModelProto, groups: ChannelGroups, model) -> None:
    """Factors 2^1, 2^2 … for the free groups: the constants change and the outputs do not."""
    exponents = np.zeros(groups.count, np.int64)
    exponents[groups.free] = np.arange(1, len(groups.free) + 1)
    result = equalize(model, factors_of_groups(groups, exponents))
    assert result.is_changed
    assert result.refusals == ()
    for before, after in zip(run_plain(proto, {"x": X}), run_plain(model.to_proto(), {"x": X}), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.id)
def test_link(bench, link: Link) -> None:
    proto = net_of(bench, link)
    model = bench.model(proto)
    groups = channel_groups(model)
    free = set(groups.free.tolist()) & set(groups.channels["a"].ids.tolist())
    assert len(free) == link.free
    if free:
        check_bits(proto, groups, model)
    else:
        assert groups.refusals


def test_the_refusal_names_the_node_that_blocks(bench) -> None:
    proto = bench.net(
        "net (float[1, 3, 6, 6] x) => (float[1, 2, 6, 6] y) { a = Conv(x, w) b = Relu(a) [gate] c = Sigmoid(b) y = Conv(c, r) }",
        w=weights(4, 3, 1, 1),
        r=weights(2, 4, 1, 1),
    )
    refusals = {r.node: r.reason for r in channel_groups(bench.model(proto)).refusals}
    assert refusals["gate"] == "no factor passes through Sigmoid"


def test_a_residual_add_ties_both_sides_channel_by_channel(bench) -> None:
    proto = bench.net(
        "net (float[1, 3, 6, 6] x) => (float[1, 2, 6, 6] y) "
        "{ a = Conv(x, w) t = Relu(a) u = Conv(t, m) b = Add(a, u) y = Conv(b, r) }",
        w=weights(4, 3, 1, 1),
        m=weights(4, 4, 1, 1),
        r=weights(2, 4, 1, 1),
    )
    model = bench.model(proto)
    groups = channel_groups(model)
    np.testing.assert_array_equal(groups.channels["a"].ids, groups.channels["u"].ids)
    assert len(groups.free) == 4
    check_bits(proto, groups, model)


def test_a_residual_add_to_the_input_blocks(bench) -> None:
    proto = bench.net(
        "net (float[1, 3, 6, 6] x) => (float[1, 2, 6, 6] y) { u = Conv(x, m) b = Add(x, u) y = Conv(b, r) }",
        m=weights(3, 3, 1, 1),
        r=weights(2, 3, 1, 1),
    )
    assert channel_groups(bench.model(proto)).free.size == 0


@pytest.mark.parametrize("group", [4, 2], ids=["depthwise", "grouped"])
def test_a_grouped_convolution_reads_and_makes_channels(bench, group: int) -> None:
    proto = bench.net(
        "net (float[1, 3, 6, 6] x) => (float[1, 2, 6, 6] y) "
        f"{{ a = Conv(x, w) b = Conv<group = {group}>(a, m, n) c = Relu(b) y = Conv(c, r) }}",
        w=weights(4, 3, 1, 1),
        m=weights(8, 4 // group, 1, 1),
        n=weights(8),
        r=weights(2, 8, 1, 1),
    )
    model = bench.model(proto)
    groups = channel_groups(model)
    assert len(groups.free) == 12
    check_bits(proto, groups, model)


def test_a_grouped_transposed_convolution_reads_and_makes_channels(bench) -> None:
    proto = bench.net(
        "net (float[1, 3, 6, 6] x) => (float[1, 2, 7, 7] y) "
        "{ a = Conv(x, w) b = ConvTranspose<group = 2>(a, m, n) y = Conv(b, r) }",
        w=weights(4, 3, 1, 1),
        m=weights(4, 3, 2, 2),
        n=weights(6),
        r=weights(2, 6, 1, 1),
    )
    model = bench.model(proto)
    groups = channel_groups(model)
    assert len(groups.free) == 10
    check_bits(proto, groups, model)


def test_flatten_spreads_a_channel_over_the_columns_of_a_gemm(bench) -> None:
    proto = bench.net(
        "net (float[1, 3, 6, 6] x) => (float[1, 5] y) { a = Conv(x, w) b = Flatten(a) y = Gemm<transB = 1>(b, r, s) }",
        w=weights(4, 3, 1, 1),
        r=weights(5, 144),
        s=weights(5),
    )
    model = bench.model(proto)
    groups = channel_groups(model)
    np.testing.assert_array_equal(groups.channels["b"].ids, np.repeat(groups.channels["a"].ids, 36))
    check_bits(proto, groups, model)


def test_a_shared_weight_keeps_its_other_reader(bench) -> None:
    proto = bench.net(
        "net (float[1, 4, 6, 6] x) => (float[1, 4, 6, 6] y, float[1, 4, 6, 6] z) "
        "{ a = Conv(x, w) b = Relu(a) y = Conv(b, w) z = Conv(x, w) }",
        w=weights(4, 4, 1, 1),
    )
    model = bench.model(proto)
    groups = channel_groups(model)
    exponents = np.zeros(groups.count, np.int64)
    exponents[groups.free] = 3
    assert equalize(model, factors_of_groups(groups, exponents)).is_changed
    x = {"x": weights(1, 4, 6, 6, seed=9)}
    for before, after in zip(run_plain(proto, x), run_plain(model.to_proto(), x), strict=True):
        np.testing.assert_array_equal(before, after)


def test_what_a_subgraph_reads_is_blocked(bench) -> None:
    proto = bench.net(
        "net (float[1, 3, 6, 6] x, bool c) => (float[1, 4, 6, 6] y) { a = Conv(x, w) b = Relu(a) "
        "y = If(c) <then_branch = t () => (float[1, 4, 6, 6] p) { p = Conv(b, m) }, "
        "else_branch = e () => (float[1, 4, 6, 6] q) { q = Identity(b) }> }",
        w=weights(4, 3, 1, 1),
        m=weights(4, 4, 1, 1),
    )
    groups = channel_groups(bench.model(proto))
    assert groups.free.size == 0
    assert any("subgraph" in r.reason for r in groups.refusals)


def test_a_batch_norm_decouples_what_is_in_front_of_it_from_what_is_behind(bench) -> None:
    proto = bench.net(
        "net (float[1, 3, 6, 6] x) => (float[1, 2, 6, 6] y) "
        "{ a = Conv(x, w) b = BatchNormalization(a, g, h, m, v) y = Conv(b, r) }",
        w=weights(4, 3, 1, 1),
        g=weights(4),
        h=weights(4),
        m=weights(4),
        v=np.abs(weights(4)),
        r=weights(2, 4, 1, 1),
    )
    model = bench.model(proto)
    groups = channel_groups(model)
    assert len(groups.free) == 8
    check_bits(proto, groups, model)

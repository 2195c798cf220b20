"""Choosing factors: from weights alone, and from ranges."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from fts_calibration.statistics.collect import collect_statistics
from fts_calibration.statistics.norm_variance import least_norm_variances
from fts_calibration.statistics.statistics import Statistics
from fts_converters.equalize.channel_groups import channel_groups
from fts_converters.equalize.factors import Factors
from fts_converters.equalize.factors_from_ranges import factors_from_ranges
from fts_converters.equalize.factors_from_weights import factors_from_weights
from fts_converters.equalize.scaled_statistics import scaled_statistics
from fts_converters.passes.equalize import applicable_factors, equalize

UNEVEN = np.exp2(np.array([0, -3, -6, 2, -1, 0, 4, -5], np.float32))


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def uneven_chain(bench, spread: np.ndarray = UNEVEN) -> onnx.ModelProto:
    """Three convolutions; the channels between the first two have ranges as uneven as `spread`, undone behind them."""
    return bench.net(
        "net (float[1, 3, 12, 12] x) => (float[1, 4, 12, 12] y) "
        "{ a = Conv(x, w, v) b = Relu(a) c = Conv(b, m) d = LeakyRelu(c) y = Conv(d, r) }",
        w=weights(8, 3, 1, 1) * spread[:, None, None, None],
        v=weights(8) * spread,
        m=weights(8, 8, 1, 1, seed=1) / spread[:, None, None],
        r=weights(4, 8, 1, 1, seed=2),
    )


def statistics_of(proto: onnx.ModelProto, feeds, tensors=("a", "b", "c", "d")) -> Statistics:
    return collect_statistics(proto, feeds, sorted({*tensors, "x", "y"}), dict.fromkeys(tensors, 4))


ROUNDED = ("b", "d")


def test_weights_on_both_sides_of_a_channel_become_equal(bench) -> None:
    model = bench.model(uneven_chain(bench))
    factors = factors_from_weights(channel_groups(model))
    assert factors.exponents
    equalize(model, factors)
    found = {t.name: np.abs(onnx.numpy_helper.to_array(t)) for t in model.to_proto().graph.initializer}
    made, read = found["w_equalized"].max(axis=(1, 2, 3)), found["m_equalized"].max(axis=(0, 2, 3))
    assert np.abs(np.log2(read / made)).max() <= 1.0 + 1e-5  # half a power of two on either side
    assert not equalize(model, factors_from_weights(channel_groups(model))).is_changed


def test_factors_undo_any_powers_of_two_that_someone_put_in(bench) -> None:
    """What comes out does not depend on how the net was scaled when it came in."""
    plain, scaled = (bench.model(uneven_chain(bench, s)) for s in (np.ones(8, np.float32), UNEVEN))
    for model in (plain, scaled):
        equalize(model, factors_from_weights(channel_groups(model)))
    a, b = (
        {t.name.split("_")[0]: onnx.numpy_helper.to_array(t) for t in m.to_proto().graph.initializer}
        for m in (plain, scaled)
    )
    for name in "wmr":
        np.testing.assert_allclose(np.abs(np.log2(np.abs(a[name] / b[name]))).max(), 0.0, atol=1.0)


def test_dead_channels_keep_their_scale(bench) -> None:
    spread = UNEVEN.copy()
    proto = uneven_chain(bench)
    w = weights(8, 3, 1, 1) * spread[:, None, None, None]
    w[2] = 0
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(w, "w"))
    factors = factors_from_weights(channel_groups(bench.model(proto)))
    assert factors.exponents["b"][2] == 0
    assert any(factors.exponents["b"])


def test_a_channel_that_asks_for_more_than_a_net_can_mean_is_refused(bench) -> None:
    spread = UNEVEN.copy()
    spread[1] = 2.0**-40
    factors = factors_from_weights(channel_groups(bench.model(uneven_chain(bench, spread))))
    assert factors.exponents["b"][1] == 0
    assert any("as good as dead" in r.reason for r in factors.refusals)


def test_ranges_make_quiet_channels_louder_and_lower_the_noise(bench) -> None:
    proto = uneven_chain(bench)
    feeds = bench.feeds(proto, 4)
    model = bench.model(proto)
    factors = factors_from_ranges(channel_groups(model), statistics_of(proto, feeds), rounded=ROUNDED)
    up = np.array(factors.exponents["b"])
    assert up[2] > up[0] >= up[6]  # 2^-6 beside 1 beside 2^4
    equalize(model, factors)
    before, after = (bench.trial(net, feeds).sqnr_db() for net in (proto, model.to_proto()))
    assert after > before + 6


def test_ranges_of_the_scaled_net_ask_for_no_further_factors(bench) -> None:
    proto = uneven_chain(bench)
    feeds = bench.feeds(proto, 2)
    model = bench.model(proto)
    statistics = statistics_of(proto, feeds)
    groups = channel_groups(model)
    factors = applicable_factors(model, factors_from_ranges(groups, statistics, rounded=ROUNDED))
    equalize(model, factors)
    said = scaled_statistics(statistics, factors, groups)
    seen = statistics_of(model.to_proto(), feeds)  # to the last bit, without running it
    assert (said.ranges, said.channel_ranges, said.samples) == (seen.ranges, seen.channel_ranges, seen.samples)
    assert said.histograms
    assert said.histograms.items() <= seen.histograms.items()  # where all channels share a factor
    assert factors_from_ranges(channel_groups(model), said, rounded=ROUNDED).exponents == {}


def test_even_channels_need_no_factors(bench) -> None:
    w = np.tile(weights(1, 3, 1, 1), (8, 1, 1, 1))
    proto = uneven_chain(bench)
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(w, "w"))
    proto.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(np.full(8, 0.5, np.float32), "v"))
    proto.graph.initializer[2].CopyFrom(onnx.numpy_helper.from_array(np.sign(weights(8, 8, 1, 1)), "m"))
    statistics = statistics_of(proto, bench.feeds(proto, 2))
    assert factors_from_ranges(channel_groups(bench.model(proto)), statistics, rounded=("b",)).exponents == {}


@pytest.mark.parametrize(("epsilon", "is_scaled"), [(1e-9, True), (1.0, False)], ids=["allowed", "refused"])
def test_in_front_of_a_norm_ranges_choose_what_its_epsilon_allows(bench, epsilon: float, is_scaled: bool) -> None:
    proto = bench.net(
        "net (float[1, 3, 12, 12] x) => (float[1, 2, 12, 12] y) "
        f"{{ a = Conv(x, w) b = InstanceNormalization<epsilon = {epsilon}>(a, g, h) c = Relu(b) y = Conv(c, r) }}",
        w=weights(8, 3, 1, 1) * UNEVEN[:, None, None, None],
        g=np.ones(8, np.float32),
        h=np.zeros(8, np.float32),
        r=weights(2, 8, 1, 1),
    )
    feeds = bench.feeds(proto, 2)
    groups = channel_groups(bench.model(proto))
    variances = least_norm_variances(proto, feeds, {n.tensor: n.view for n in groups.norms})
    statistics = statistics_of(proto, feeds, ("a", "c"))
    factors = factors_from_ranges(groups, statistics, variances)
    assert ("a" in factors.exponents) == is_scaled
    assert any("beside an epsilon" in r.reason for r in factors.refusals) != is_scaled
    assert "a" not in factors_from_ranges(groups, statistics).exponents


def test_nothing_to_scale_gives_no_factors(bench) -> None:
    proto = bench.net("net (float[1, 3, 6, 6] x) => (float[1, 3, 6, 6] y) { y = Relu(x) }")
    groups = channel_groups(bench.model(proto))
    assert factors_from_weights(groups) == Factors(exponents={})
    assert factors_from_ranges(groups, Statistics(ranges={}, samples=0)) == Factors(exponents={})

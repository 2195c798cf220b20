"""Applying factors: what is refused and why, what a norm allows, what follows for statistics."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from tests.generators.run_plain import run_plain

from fts.errors import CalibrationError
from fts_calibration.statistics.collect import collect_statistics
from fts_calibration.statistics.norm_variance import least_norm_variances
from fts_calibration.statistics.statistics import Statistics, TensorRange
from fts_converters.equalize.channel_groups import channel_groups
from fts_converters.equalize.factors import Factors
from fts_converters.equalize.factors_from_ranges import factors_from_ranges
from fts_converters.equalize.norm_condition import TOLERANCE, relative_change
from fts_converters.equalize.scaled_statistics import scaled_statistics, scaled_variances
from fts_converters.passes import DEFAULT_PASSES
from fts_converters.passes.equalize import applicable_factors, equalize

X = {"x": np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)}


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def chain(bench, w: np.ndarray | None = None, r: np.ndarray | None = None) -> onnx.ModelProto:
    return bench.net(
        "net (float[1, 3, 6, 6] x) => (float[1, 2, 6, 6] y) { a = Conv(x, w, v) b = Relu(a) y = Conv(b, r) }",
        w=weights(4, 3, 1, 1) if w is None else w,
        v=weights(4),
        r=weights(2, 4, 1, 1) if r is None else r,
    )


def normed(
    bench, op: str = "InstanceNormalization", attributes: str = "epsilon = 1e-3", size: int = 4
) -> onnx.ModelProto:
    return bench.net(
        "net (float[1, 3, 6, 6] x) => (float[1, 2, 6, 6] y) "
        f"{{ a = Conv(x, w) b = {op}<{attributes}>(a, g, h) c = Relu(b) y = Conv(c, r) }}",
        opset=21,
        w=weights(4, 3, 1, 1),
        g=weights(4),
        h=weights(4),
        r=weights(2, 4, 1, 1),
    )


def constants(model) -> dict[str, np.ndarray]:
    return {t.name: onnx.numpy_helper.to_array(t) for t in model.to_proto().graph.initializer}


def test_it_is_no_default_pass() -> None:
    assert "equalize" not in dict(DEFAULT_PASSES)


def test_the_constants_take_the_factors_up(bench) -> None:
    proto = chain(bench)
    model = bench.model(proto)
    assert equalize(model, Factors(exponents={"a": (1, -2, 0, 3)})).is_changed
    s = np.exp2(np.float32([1, -2, 0, 3]))
    found = constants(model)
    np.testing.assert_array_equal(found["w_equalized"], weights(4, 3, 1, 1) * s[:, None, None, None])
    np.testing.assert_array_equal(found["v_equalized"], weights(4) * s)
    np.testing.assert_array_equal(found["r_equalized"], weights(2, 4, 1, 1) / s[:, None, None])
    np.testing.assert_array_equal(run_plain(proto, X)[0], run_plain(model.to_proto(), X)[0])


def test_factors_of_1_change_nothing(bench) -> None:
    model = bench.model(chain(bench))
    before = model.to_proto().SerializeToString(deterministic=True)
    assert not equalize(model, Factors(exponents={"a": (0, 0, 0, 0)})).is_changed
    assert model.to_proto().SerializeToString(deterministic=True) == before


def test_different_factors_for_tied_channels_are_refused(bench) -> None:
    model = bench.model(chain(bench))
    result = equalize(model, Factors(exponents={"a": (1, 2, 0, 0), "b": (1, 3, 0, 0)}))
    assert [r.reason for r in result.refusals] == ["channels that must share a factor were given different ones"]
    assert applicable_factors(
        bench.model(chain(bench)), Factors(exponents={"a": (1, 2, 0, 0), "b": (1, 3, 0, 0)})
    ).exponents == {
        "a": (1, 0, 0, 0),
        "b": (1, 0, 0, 0),
    }


@pytest.mark.parametrize(
    ("exponents", "reason"),
    [
        ({"y": (1, 1)}, "it is an output of the net"),
        ({"q": (1, 1)}, "factors for 2 channels were given, but no tensor of this name can be scaled"),
        ({"a": (1, 1)}, "factors for 2 channels were given, but it has 4 channels"),
    ],
    ids=["blocked", "no such tensor", "other number of channels"],
)
def test_factors_that_cannot_be_applied_are_refused(bench, exponents, reason: str) -> None:
    result = equalize(bench.model(chain(bench)), Factors(exponents=exponents))
    assert not result.is_changed
    assert [r.reason for r in result.refusals] == [reason]


@pytest.mark.parametrize(
    ("value", "exponent"), [(1e38, 3), (1.5e-38, -2), (1e-44, -2)], ids=["over", "under", "denormal"]
)
def test_a_factor_that_a_constant_cannot_take_up_exactly_is_refused(bench, value: float, exponent: int) -> None:
    w = weights(4, 3, 1, 1)
    w[1, 2] = value
    model = bench.model(chain(bench, w))
    result = equalize(model, Factors(exponents={"a": (exponent,) * 4}))
    assert result.is_changed  # the other three channels
    assert [r.reason for r in result.refusals] == ["a factor would take constant 'w' out of float32's range"]
    np.testing.assert_array_equal(constants(model)["w_equalized"][1], w[1])


@pytest.mark.parametrize("exponent", [-2, -1, 1, 4])
@pytest.mark.parametrize("side", [0.98, 1.02], ids=["just forbidden", "just allowed"])
def test_a_norm_allows_a_factor_from_a_variance_on(bench, exponent: int, side: float) -> None:
    """eps / (2 var) |1 - 1/s^2| <= 5e-5 solved for var."""
    variance = 1e-3 * abs(1.0 - 4.0**-exponent) / (2 * 5e-5) * side
    model = bench.model(normed(bench))
    factors = Factors(exponents={"a": (0, exponent, 0, 0)})
    result = equalize(model, factors, {"a": np.array([1e-9, variance, 1e-9, 1e-9])})
    assert result.is_changed == (side > 1)
    assert bool(result.refusals) == (side < 1)
    if result.refusals:
        assert "channel 1" in result.refusals[0].reason


def test_the_change_that_a_norm_makes_is_what_the_condition_says(bench) -> None:
    proto = normed(bench)
    variances = least_norm_variances(proto, [X], {"a": (1, 4)})
    model = bench.model(proto)
    equalize(model, Factors(exponents={"a": (-1, -1, -1, -1)}), {"a": np.full(4, 1e9)})  # whatever it costs

    def norm_output(net: onnx.ModelProto) -> np.ndarray:
        probe = onnx.ModelProto()
        probe.CopyFrom(net)
        del probe.graph.output[:]
        probe.graph.output.append(onnx.helper.make_empty_tensor_value_info("b"))
        return run_plain(probe, X)[0]

    before = norm_output(proto) - weights(4)[:, None, None]
    after = norm_output(model.to_proto()) - weights(4)[:, None, None]
    said = relative_change(1e-3, variances["a"], np.full(4, -1))
    seen = np.abs(after / before - 1).max(axis=(0, 2, 3))
    assert (said > 1e-4).any()
    np.testing.assert_allclose(seen, said, rtol=0.05, atol=1e-5)  # the formula is of first order


def test_without_variances_nothing_in_front_of_a_norm_is_scaled(bench) -> None:
    result = equalize(bench.model(normed(bench)), Factors(exponents={"a": (1, 1, 1, 1), "b": (1, 0, 0, 0)}))
    assert result.is_changed  # behind it there is nothing to refuse
    assert [r.node for r in result.refusals] == ["InstanceNormalization_1"]
    assert "no calibrated variance" in result.refusals[0].reason


def test_in_front_of_a_group_norm_a_group_shares_its_factor(bench) -> None:
    proto = normed(bench, "GroupNormalization", "num_groups = 2, epsilon = 1e-5")
    # onnx does not infer the shape behind this operator, exporters write it down
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("b", 1, (1, 4, 6, 6)))
    model = bench.model(proto)
    groups = channel_groups(model)
    ids = groups.channels["a"].ids.tolist()
    assert ids[0] == ids[1] != ids[2] == ids[3]
    (norm,) = groups.norms
    variances = least_norm_variances(proto, [X], {norm.tensor: norm.view})
    assert equalize(model, Factors(exponents={"a": (3, 3, 1, 1)}), variances).refusals == ()
    for before, after in zip(run_plain(proto, X), run_plain(model.to_proto(), X), strict=True):
        assert np.abs(before - after).max() <= 2 * TOLERANCE * np.abs(before).max()


def test_in_front_of_a_layer_norm_all_channels_share_one_factor(bench) -> None:
    proto = bench.net(
        "net (float[2, 3] x) => (float[2, 5] y) { a = Gemm(x, w) b = LayerNormalization(a, g, h) y = Gemm(b, r) }",
        w=weights(3, 4),
        g=weights(4),
        h=weights(4),
        r=weights(4, 5),
    )
    model = bench.model(proto)
    assert len(set(channel_groups(model).channels["a"].ids.tolist())) == 1
    result = equalize(model, Factors(exponents={"a": (2,) * 4, "b": (1, 2, 3, 4)}), {"a": np.array([1.0])})
    assert result.refusals == ()
    x = {"x": weights(2, 3, seed=4)}
    np.testing.assert_allclose(run_plain(model.to_proto(), x)[0], run_plain(proto, x)[0], rtol=1e-3, atol=1e-4)


def test_variances_are_the_least_over_planes_and_samples(bench) -> None:
    proto = normed(bench)
    feeds = [{"x": weights(1, 3, 6, 6, seed=s)} for s in range(3)]
    probe = onnx.ModelProto()
    probe.CopyFrom(proto)
    probe.graph.output.append(onnx.helper.make_empty_tensor_value_info("a"))
    planes = np.stack([run_plain(probe, f)[1][0].reshape(4, -1).astype(np.float64).var(axis=1) for f in feeds])
    np.testing.assert_allclose(least_norm_variances(proto, feeds, {"a": (1, 4)})["a"], planes.min(axis=0), rtol=1e-5)


def test_scaled_statistics_are_those_of_the_scaled_net(bench) -> None:
    proto, tensors, ranks = normed(bench), ["a", "b", "c", "x", "y"], {"a": 4, "b": 4, "c": 4}
    feeds = [{"x": weights(1, 3, 6, 6, seed=s)} for s in range(2)]
    variances = least_norm_variances(proto, feeds, {"a": (1, 4)})
    wanted = Factors(exponents={"a": (1, 2, 3, -1), "b": (5, -3, 2, 0)})
    model = bench.model(proto)
    factors, groups = applicable_factors(model, wanted, variances), channel_groups(model)
    assert factors.exponents["b"] == factors.exponents["c"] == (5, -3, 2, 0)
    equalize(model, factors, variances)
    said = scaled_statistics(collect_statistics(proto, feeds, tensors, ranks), factors, groups)
    seen = collect_statistics(model.to_proto(), feeds, tensors, ranks)
    assert said.ranges["a"] == seen.ranges["a"]  # in front of the norm to the last bit
    assert said.channel_ranges["a"] == seen.channel_ranges["a"]
    for name in tensors:
        for bound in ("low", "high"):
            assert getattr(said.ranges[name], bound) == pytest.approx(getattr(seen.ranges[name], bound), rel=1e-3)
    again = least_norm_variances(model.to_proto(), feeds, {"a": (1, 4)})
    np.testing.assert_array_equal(scaled_variances(variances, factors)["a"], again["a"])


def test_a_range_of_the_whole_says_nothing_about_channels_scaled_apart(bench) -> None:
    groups = channel_groups(bench.model(chain(bench)))
    statistics = Statistics(ranges={"a": TensorRange(low=-1.0, high=2.0)}, samples=1)
    same, apart = (Factors(exponents={"a": e}) for e in ((1, 1, 1, 1), (1, 2, 1, 1)))
    assert scaled_statistics(statistics, same, groups).ranges["a"] == TensorRange(low=-2.0, high=4.0)
    with pytest.raises(CalibrationError, match="only the range of the whole is known"):
        scaled_statistics(statistics, apart, groups)
    assert factors_from_ranges(groups, statistics).exponents == {}


def test_ranges_along_another_axis_say_nothing_about_channels_scaled_apart(bench) -> None:
    proto = bench.net(
        "net (float[1, 4, 3] x) => (float[1, 4, 2] y) { a = MatMul(x, w) y = MatMul(a, r) }",
        w=weights(3, 4),
        r=weights(4, 2),
    )
    statistics = collect_statistics(proto, [{"x": weights(1, 4, 3)}], ["a"], {"a": 3})
    groups = channel_groups(bench.model(proto))
    assert groups.channels["a"].axis == 2
    with pytest.raises(CalibrationError, match="only the range of the whole is known"):
        scaled_statistics(statistics, Factors(exponents={"a": (1, 2, 1, 1)}), groups)
    assert factors_from_ranges(groups, statistics).exponents == {}

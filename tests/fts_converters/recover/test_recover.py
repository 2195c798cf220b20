"""The rungs on small nets that rounding ruins in known ways, and the ladder's promise never to make the select split worse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fts.errors import MissingDependencyError
from fts_calibration.metrics.budget import Budget, Score
from fts_calibration.recovery.weight_update import WeightUpdate
from fts_converters.cache import StageCache
from fts_converters.quantize.trials import Trials, open_trials
from fts_converters.quantize.weight_grid import within_pairs
from fts_converters.recover import ladder
from fts_converters.recover.bias_correction import corrected_biases
from fts_converters.recover.ladder import recover
from fts_converters.recover.planned_net import PlannedNet
from fts_converters.recover.rounding import fitted_roundings
from fts_devices.profiles import load_profile

CHAIN = """g (float[1,8,12,12] x) => (float[1,6,6,6] y) {
    a = Conv(x,w1,b1) ra = Relu(a) b = Conv(ra,w2) rb = Relu(b) y = Conv(rb,w3) }"""
NORMED = """g (float[1,8,12,12] x) => (float[1,8,8,8] y) {
    a = Conv(x,w1,b1) n = InstanceNormalization(a,s,t) r = Relu(n) y = Conv(r,w2) }"""
MATRICES = "g (float[16,8] x) => (float[16,5] y) { h = Gemm<transB=1>(x,g,b) r = Relu(h) y = MatMul(r,m) }"
BRANCHES = """g (float[1,8,12,12] x) => (float[1,8,12,12] y) {
    a = Conv<pads=[1,1,1,1],group=8>(x,d,b1) r = Relu(a) l = Conv(r,p) q = Conv(r,o,b2) s = Add(l,q) y = Conv(s,e) }"""
SHARED = "g (float[1,8,12,12] x) => (float[1,8,8,8] y) { h = Conv(x,w1,b1) r = Relu(h) y = Conv(r,w1) }"


def planned(bench, proto, feeds=None, dialect="any", *, is_coarse=False) -> PlannedNet:
    """All in INT8; `is_coarse` keeps weights at 7 bits, so that they are what is rounded worst."""
    feeds = bench.feeds(proto, 4) if feeds is None else feeds
    trial = bench.trial(proto, feeds, dialect=dialect)
    form = load_profile("cpu-int8").dialects[dialect]
    return PlannedNet(
        index=trial.index,
        candidates=trial.candidates,
        plan=trial.plan,
        statistics=trial.statistics,
        dialect=replace(form, pair_sum_limit=None) if is_coarse else form,
        feeds=lambda: feeds,
        exact_u8s8=True,
    )


def trials_of(net: PlannedNet, feeds, output: str = "y") -> Trials:
    return Trials(
        index=net.index,
        candidates=net.candidates,
        statistics=net.statistics,
        dialect=net.dialect,
        feeds=lambda: feeds,
        split_digest="select",
        budgets={output: Budget(metric="sqnr", statistic="min", threshold=30.0)},
        exact_u8s8=True,
        cache=StageCache(None),
    )


def sqnr_db(net: PlannedNet, feeds, update: WeightUpdate) -> float:
    with open_trials(trials_of(net, feeds)) as trials:
        return trials.scores(net.plan, update=update)[0].value


def correlated(count: int, seed: int, shape=(1, 8, 12, 12)) -> list[dict[str, np.ndarray]]:
    """Channels and pixels that rise and fall together above 0, as those of photos do."""
    rng = np.random.default_rng(seed)
    levels = rng.uniform(0.2, 1.0, size=(count, shape[0], 1, *shape[2:]))
    return [{"x": (v + rng.uniform(0, 0.2, size=shape)).astype(np.float32)} for v in levels]


@pytest.fixture
def chain(bench):
    return bench.net(
        CHAIN,
        w1=bench.noise(8, 8, 3, 3, seed=1, scale=0.2),
        b1=bench.noise(8, seed=2),
        w2=bench.noise(8, 8, 3, 3, seed=3, scale=0.2),
        w3=bench.noise(6, 8, 3, 3, seed=4, scale=0.2),
    )


@pytest.fixture
def shifted(bench):
    """Every weight but one a channel lies 0.45 of a step above an integer, so that rounding takes away from each."""
    steps = np.random.default_rng(5).integers(-30, 31, (8, 8, 3, 3)) + 0.45
    steps[:, 0, 0, 0] = 63
    w = (steps * 0.01).astype(np.float32)
    return bench.net(CHAIN, w1=w, b1=bench.noise(8, seed=2), w2=w, w3=w[:6])


def test_bias_correction_mends_shifted_means(bench, shifted):
    feeds, others = correlated(6, 0), correlated(4, 1)
    net = planned(bench, shifted, feeds)
    plain, mended = (sqnr_db(net, others, u) for u in (WeightUpdate.NONE, corrected_biases(net, WeightUpdate.NONE)))
    assert mended > plain + 3.0


def test_corrected_means_are_those_of_the_float_net(bench, shifted):
    """Measured in the encoded graph itself, at the net's output, where nothing is clipped by an activation."""
    feeds = correlated(6, 0)
    update = corrected_biases(planned(bench, shifted, feeds), WeightUpdate.NONE)
    means = []
    for u in (WeightUpdate.NONE, update):
        trial = bench.trial(shifted, feeds, update=u)
        pairs = zip(trial.int8, trial.fp32, strict=True)
        means.append(np.abs(np.mean([a[0] - b[0] for a, b in pairs], axis=(0, 1, 3, 4))).max())
        step = trial.constant("y_scale").max()
    assert means[1] < 0.1 * means[0]
    assert means[1] < 0.25 * step  # the mean of roundings to the output's grid over 216 values


def test_rounding_mends_what_correlated_inputs_add_up(bench, chain):
    feeds, others = correlated(6, 0), correlated(4, 1)
    net = planned(bench, chain, feeds, is_coarse=True)
    biases = corrected_biases(net, WeightUpdate.NONE)
    plain, mended = sqnr_db(net, others, biases), sqnr_db(net, others, fitted_roundings(net, biases, print))
    assert mended > plain + 0.5


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (MATRICES, {"g": (12, 8), "b": (12,), "m": (12, 5)}),
        (
            BRANCHES,
            {"d": (8, 1, 3, 3), "b1": (8,), "p": (8, 8, 1, 1), "o": (8, 8, 1, 1), "b2": (8,), "e": (8, 8, 1, 1)},
        ),
    ],
    ids=["matrices", "branches"],
)
def test_every_weighted_kernel_is_fitted(bench, text, shapes):
    proto = bench.net(text, **{n: bench.noise(*s, seed=i, scale=0.4) for i, (n, s) in enumerate(shapes.items())})
    shape = tuple(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim)
    feeds = [{"x": bench.noise(*shape, seed=s)} for s in range(60 if len(shape) == 2 else 6)]
    skipped = []
    net = planned(bench, proto, feeds)
    update = fitted_roundings(net, WeightUpdate.NONE, lambda unit, reason: skipped.append((unit, reason)))
    assert not skipped
    assert set(update.weights) == {n for n, s in shapes.items() if len(s) > 1}
    others = [{"x": bench.noise(*shape, seed=100 + s)} for s in range(4)]
    assert sqnr_db(net, others, update) > sqnr_db(net, others, WeightUpdate.NONE) - 0.5
    assert sqnr_db(net, feeds, update) > sqnr_db(net, feeds, WeightUpdate.NONE)


def test_a_norm_that_takes_the_mean_out_needs_no_bias(bench):
    proto = bench.net(
        NORMED,
        w1=bench.noise(8, 8, 3, 3, seed=1),
        b1=bench.noise(8),
        s=np.ones(8, np.float32),
        t=np.zeros(8, np.float32),
        w2=bench.noise(8, 8, 3, 3, seed=2),
    )
    net = planned(bench, proto)
    assert set(corrected_biases(net, WeightUpdate.NONE).biases) == {"Conv_3"}
    update = fitted_roundings(net, WeightUpdate.NONE, print)
    assert set(update.weights) == {"w1", "w2"}
    assert set(update.biases) == {"Conv_3"}


def test_a_shared_weight_is_left_alone_and_said(bench):
    net = planned(bench, bench.net(SHARED, w1=bench.noise(8, 8, 3, 3), b1=bench.noise(8)))
    skipped = {}
    update = fitted_roundings(net, WeightUpdate.NONE, skipped.__setitem__)
    assert not update.weights
    assert set(skipped) == {"Conv_0", "Conv_2"}
    assert all("shared" in reason for reason in skipped.values())
    assert set(update.biases) == {"Conv_0", "Conv_2"}


@pytest.mark.parametrize("seed", range(4))
def test_the_ladder_never_makes_the_select_split_worse(bench, seed):
    proto = bench.net(
        CHAIN,
        w1=bench.noise(8, 8, 3, 3, seed=seed, scale=0.2),
        b1=bench.noise(8, seed=seed + 1),
        w2=bench.noise(8, 8, 3, 3, seed=seed + 2, scale=0.2),
        w3=bench.noise(6, 8, 3, 3, seed=seed + 3, scale=0.2),
    )
    net = planned(bench, proto, bench.feeds(proto, 2))
    select = [{"x": bench.noise(1, 8, 12, 12, seed=1000 + i)} for i in range(3)]
    said = []
    with open_trials(trials_of(net, select)) as trials:
        found = recover(net, trials, highest="rounding", on_step=said.append)
        before, after = trials.scores(net.plan)[0], trials.scores(net.plan, update=found.update)[0]
    assert [r.name for r in found.rungs] == ["bias", "rounding"]
    assert len(said) == 2
    assert after.margin >= before.margin
    kept = [r.after.value for r in found.rungs if r.is_kept]
    assert after.value == (kept[-1] if kept else before.value)


class Disappointed:
    """Trials that like nothing but what they are asked first."""

    def __init__(self) -> None:
        self.asked = 0

    def scores(self, plan, statistics=None, update=None):
        self.asked += 1
        budget = Budget(metric="psnr", statistic="min", threshold=30.0)
        return (Score(output="y", budget=budget, values=(50.0 - self.asked,)),)


def test_a_rung_that_does_not_gain_leaves_no_trace(bench, chain):
    start = WeightUpdate(biases={"Conv_0": bench.noise(8)})
    found = recover(planned(bench, chain), Disappointed(), highest="rounding", start=start, on_step=lambda said: None)
    assert found.update is start
    assert [r.is_kept for r in found.rungs] == [False, False]


def test_none_tries_nothing(bench, chain):
    trials = Disappointed()
    assert recover(planned(bench, chain), trials, highest="none", on_step=print).rungs == ()
    assert trials.asked == 0


@pytest.mark.parametrize("dialect", ["any", "vnni"])
def test_twice_gives_the_same_bytes(bench, chain, dialect):
    net = planned(bench, chain, correlated(3, 0), dialect)
    encoded = [net.encode(fitted_roundings(net, WeightUpdate.NONE, print)).SerializeToString() for _ in range(2)]
    assert encoded[0] == encoded[1]


def test_rounded_weights_are_those_of_the_encoded_graph(bench, chain):
    net = planned(bench, chain)
    update = fitted_roundings(net, WeightUpdate.NONE, print)
    trial = bench.trial(chain, bench.feeds(chain, 4), update=update)
    integers, scale = trial.constant("w1_quantized"), trial.constant("w1_scale")
    unit = next(u for u in net.weighted_units() if u.weight == "w1")
    np.testing.assert_array_equal(net.rounded_weight(unit, update), integers * scale[:, None, None, None])
    plain = replace(update, weights={}, weight_scales={})
    own = bench.trial(chain, bench.feeds(chain, 4), update=plain)
    own_weight = own.constant("w1_quantized") * own.constant("w1_scale")[:, None, None, None]
    np.testing.assert_array_equal(net.rounded_weight(unit, plain), own_weight)


def test_without_torch_the_training_rung_says_so(bench, chain, monkeypatch):
    def missing(*_arguments: object, **_named: object) -> WeightUpdate:
        raise MissingDependencyError("pip install 'fts-edge[convert,torch]'")

    monkeypatch.setattr(ladder, "trained_blocks", missing)
    said = []
    found = recover(
        planned(bench, chain),
        Disappointed(),
        highest="blocks",
        on_step=lambda text: None,
        on_warning=lambda warning_id, text: said.append((warning_id, text)),
    )
    assert said == [("recovery-not-trained", "pip install 'fts-edge[convert,torch]'")]
    assert [r.name for r in found.rungs] == ["bias", "rounding"]


def test_roundings_of_bounded_pairs_gain_and_stay_within_the_bound(bench, chain):
    feeds, others = correlated(6, 0), correlated(4, 1)
    net = planned(bench, chain, feeds)
    biases = corrected_biases(net, WeightUpdate.NONE)
    update = fitted_roundings(net, biases, print)
    assert sqnr_db(net, others, update) > sqnr_db(net, others, biases) + 0.2
    for unit in net.weighted_units():
        weight, scale = update.weights[unit.weight], update.weight_scales[unit.weight]
        integers = np.rint(weight / np.expand_dims(scale, (1, 2, 3)))
        np.testing.assert_array_equal(integers, within_pairs(integers, unit.weight_axis, 128))

"""Training starts where the encoded net stands, goes down from there, and gives weights on their grids."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fts_converters.recover.test_recover import BRANCHES, CHAIN, correlated, planned, sqnr_db

from fts_calibration.recovery.weight_update import WeightUpdate
from fts_converters.recover.bias_correction import corrected_biases
from fts_converters.recover.blocks import grids_of, trained_blocks

torch = pytest.importorskip("torch", reason="the torch extra is not installed")

from fts_calibration.train import train_roundings  # noqa: E402
from fts_calibration.train.fake_quantize import FakeQuantize  # noqa: E402
from fts_calibration.train.twin import Twin  # noqa: E402


@pytest.fixture
def branches(bench):
    shapes = {"d": (8, 1, 3, 3), "b1": (8,), "p": (8, 8, 1, 1), "o": (8, 8, 1, 1), "b2": (8,), "e": (8, 8, 1, 1)}
    return bench.net(BRANCHES, **{n: bench.noise(*s, seed=i, scale=0.4) for i, (n, s) in enumerate(shapes.items())})


@pytest.fixture
def few_steps(monkeypatch):
    monkeypatch.setattr(train_roundings, "MOST_STEPS", 40)


def test_fake_quantized_twin_is_the_encoded_net(bench, branches):
    """With every integer tensor rounded in the twin, its output is within a step of the integer kernels'."""
    feeds = correlated(3, 0)
    net = planned(bench, branches, feeds)
    trial = bench.trial(branches, feeds)
    grids = grids_of(net, trial.encoded.model)
    assert {"x", "r", "l", "q", "s", "y"} <= set(grids)
    alter = {name: FakeQuantize(grid, rank) for name, (grid, rank) in grids.items()}
    for unit in net.weighted_units():
        rounded = torch.from_numpy(net.rounded_weight(unit, WeightUpdate.NONE))
        alter[unit.weight] = lambda own, rounded=rounded: rounded
    twin = Twin(net.index.model, net.index.weights)
    for feed, integer in zip(feeds, trial.int8, strict=True):
        with torch.no_grad():
            given = twin({"x": torch.from_numpy(feed["x"])}, alter=alter)["y"].numpy()
        step = trial.constant("y_scale").reshape(1, -1, 1, 1)
        steps_off = np.abs(given - integer[0]) / step
        # Ties and biases of whole steps fall either way: here, and one step of the sum in front, times its weight.
        assert (
            steps_off.max()
            <= 1.01 + trial.scale("s") * np.abs(bench.noise(8, 8, 1, 1, seed=5, scale=0.4)).max() / step.min()
        )
        assert (steps_off < 0.01).mean() > 0.9


@pytest.mark.usefixtures("few_steps")
def test_training_gains_and_stays_on_the_grid(bench):
    proto = bench.net(
        CHAIN,
        w1=bench.noise(8, 8, 3, 3, seed=1, scale=0.2),
        b1=bench.noise(8, seed=2),
        w2=bench.noise(8, 8, 3, 3, seed=3, scale=0.2),
        w3=bench.noise(6, 8, 3, 3, seed=4, scale=0.2),
    )
    feeds = [{"x": bench.noise(1, 8, 12, 12, seed=s)} for s in range(6)]
    others = [{"x": bench.noise(1, 8, 12, 12, seed=100 + s)} for s in range(3)]
    net = planned(bench, proto, feeds, is_coarse=True)
    start = corrected_biases(net, WeightUpdate.NONE)
    update = trained_blocks(net, start, minutes=5)
    assert sqnr_db(net, feeds, update) > sqnr_db(net, feeds, start) + 0.3
    assert sqnr_db(net, others, update) > sqnr_db(net, others, start)
    for name, weight in update.weights.items():
        steps = weight / update.weight_scales[name].reshape(-1, 1, 1, 1)
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-4)
        assert np.abs(steps).max() <= 63 + 1e-4
    again = trained_blocks(net, start, minutes=5)
    assert net.encode(update).SerializeToString() == net.encode(again).SerializeToString()


def test_time_ends_training(bench, branches):
    net = planned(bench, branches)
    ticks = iter(range(10**6))
    found = train_roundings.train_roundings(
        Twin(net.index.model), [], [train_roundings.TrainedBias(tensor="a", values=np.zeros(8, np.float32), axis=1)],
        {}, [], net.feeds(), seconds=7.0, clock=lambda: float(next(ticks)),
    )  # fmt: skip
    assert found.steps == 7

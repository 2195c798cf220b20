"""An update of weights and biases is exactly what the encoded graph holds and computes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

from fts_calibration.recovery.weight_update import WeightUpdate

TWO = "g (float[1,3,8,8] x) => (float[1,8,4,4] y) { h = Conv(x,w,b) r = Relu(h) y = Conv(r,w2) }"
GEMM = "g (float[4,6] x) => (float[4,5] y) { y = Gemm<transB=1>(x,w,b) }"
SHARED = "g (float[1,4,8,8] x) => (float[1,4,4,4] y) { h = Conv(x,w,b) r = Relu(h) y = Conv(r,w,b) }"
CROSSED = "g (float[4,4] x) => (float[4,4] y) { h = Gemm<transB=1>(x,w) r = Relu(h) y = MatMul(r,w) }"
SQUARE = "g (float[4,4] x) => (float[4,3] y) { h = MatMul(x,w) r = Relu(h) y = MatMul(r,w2) }"


@pytest.fixture
def two(bench):
    return bench.net(
        TWO,
        w=bench.noise(8, 3, 3, 3, seed=1, scale=0.3),
        b=bench.noise(8, seed=3),
        w2=bench.noise(8, 8, 3, 3, seed=2, scale=0.2),
    )


def constants_of(trial, node: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Integers and scale of each constant operand of an encoded node."""
    graph = trial.encoded.model.graph
    made = {n.output[0]: n for n in graph.node}
    values = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    operands = [made[i] for i in next(n for n in graph.node if n.name == node).input]
    return [(values[d.input[0]], values[d.input[1]]) for d in operands if d.input[0] in values]


def grid_update(rng, name: str, shape: tuple[int, ...], greatest: int = 63) -> tuple[WeightUpdate, np.ndarray]:
    """Random integers on a random grid, as an update."""
    integers = rng.integers(-greatest, greatest + 1, shape)
    scales = rng.uniform(1e-3, 2e-2, shape[0]).astype(np.float32)
    weight = integers * scales.reshape(-1, *[1] * (len(shape) - 1)).astype(np.float64)
    return WeightUpdate(weights={name: weight.astype(np.float32)}, weight_scales={name: scales}), integers


@pytest.mark.parametrize("seed", range(5))
def test_integers_and_scales_are_those_of_the_update(bench, two, seed):
    rng = np.random.default_rng(seed)
    first, integers = grid_update(rng, "w", (8, 3, 3, 3))
    second, integers2 = grid_update(rng, "w2", (8, 8, 3, 3))
    trial = bench.trial(two, update=first.joined(second))
    np.testing.assert_array_equal(constants_of(trial, "Conv_0")[0][0], integers)
    np.testing.assert_array_equal(constants_of(trial, "Conv_0")[0][1], first.weight_scales["w"])
    # y leaves with a grid a channel, which moves into the scale and must leave the integers alone
    np.testing.assert_array_equal(constants_of(trial, "Conv_2")[0][0], integers2)


@pytest.mark.parametrize("node", ["Conv_0", "Conv_2"])
def test_bias_moves_the_output_by_what_it_says(bench, two, node):
    """Of a unit with a bias, and of one without that has a grid a channel."""
    move = np.linspace(-0.2, 0.2, 8).astype(np.float32)
    old = bench.noise(8, seed=3) if node == "Conv_0" else np.zeros(8, np.float32)
    plain = bench.trial(two)
    moved = bench.trial(two, update=WeightUpdate(biases={node: old + move}))
    (_, before), (_, after) = constants_of(plain, node)[1], constants_of(moved, node)[1]
    np.testing.assert_array_equal(before, after)
    scale = after.astype(np.float64)
    factor = 1.0
    if node == "Conv_2":
        step = plain.constant("y_scale").astype(np.float64)
        factor = step.max() / step
    steps = constants_of(moved, node)[1][0].astype(np.int64) - constants_of(plain, node)[1][0]
    assert (np.abs(steps * scale / factor - move) <= scale / factor * (1 + 1e-6)).all()  # each bias is half a step off


def test_a_unit_without_bias_inside_the_net_gets_one(bench):
    text = "g (float[1,3,8,8] x) => (float[1,8,4,4] y) { h = Conv(x,w) r = Relu(h) y = Conv(r,w2) }"
    net = bench.net(text, w=bench.noise(8, 3, 3, 3, seed=1), w2=bench.noise(8, 8, 3, 3, seed=2))
    bias = bench.noise(8, seed=5)
    integers, scale = constants_of(bench.trial(net, update=WeightUpdate(biases={"Conv_0": bias})), "Conv_0")[1]
    assert (np.abs(integers * scale.astype(np.float64) - bias) <= scale / 2 * (1 + 1e-6)).all()


def test_gemm_takes_an_update(bench):
    net = bench.net(GEMM, w=bench.noise(5, 6), b=bench.noise(5, seed=1))
    update, integers = grid_update(np.random.default_rng(1), "w", (5, 6))
    np.testing.assert_array_equal(constants_of(bench.trial(net, update=update), "Gemm_0")[0][0], integers)


def test_shared_weight_changes_in_both_units_and_a_shared_bias_in_one(bench):
    net = bench.net(SHARED, w=bench.noise(4, 4, 3, 3), b=bench.noise(4, seed=1))
    update, integers = grid_update(np.random.default_rng(2), "w", (4, 4, 3, 3))
    trial = bench.trial(net, update=update.joined(WeightUpdate(biases={"Conv_2": bench.noise(4, seed=7)})))
    plain = bench.trial(net, update=update)
    for node in ("Conv_0", "Conv_2"):
        np.testing.assert_array_equal(constants_of(trial, node)[0][0], integers)
    np.testing.assert_array_equal(constants_of(trial, "Conv_0")[1][0], constants_of(plain, "Conv_0")[1][0])
    assert (constants_of(trial, "Conv_2")[1][0] != constants_of(plain, "Conv_2")[1][0]).any()


def test_an_operator_in_float_keeps_its_own_values(bench, two):
    update, _ = grid_update(np.random.default_rng(0), "w", (8, 3, 3, 3))
    trial = bench.trial(two, kept_float={"Conv_0": "pinned"}, update=update)
    np.testing.assert_array_equal(trial.constant("w"), bench.noise(8, 3, 3, 3, seed=1, scale=0.3))


def test_an_empty_update_changes_no_byte(bench, two):
    plain = bench.trial(two).encoded.model.SerializeToString()
    assert bench.trial(two, update=WeightUpdate.NONE).encoded.model.SerializeToString() == plain


@pytest.mark.parametrize(
    ("text", "constants", "update", "message"),
    [
        (GEMM, {"w": (5, 6), "b": (5,)}, WeightUpdate(weights={"w": np.zeros((6, 5), np.float32)}), "shape"),
        (GEMM, {"w": (5, 6), "b": (5,)}, WeightUpdate(weight_scales={"w": np.ones(6, np.float32)}), "5 positive"),
        (GEMM, {"w": (5, 6), "b": (5,)}, WeightUpdate(weight_scales={"w": np.zeros(5, np.float32)}), "positive"),
        (GEMM, {"w": (5, 6), "b": (5,)}, WeightUpdate(biases={"Gemm_0": np.zeros(6, np.float32)}), "bias"),
        (
            SQUARE,
            {"w": (4, 4), "w2": (4, 3)},
            WeightUpdate(biases={"MatMul_0": np.zeros(4, np.float32)}),
            "MatMul 'MatMul_0'",
        ),
        (CROSSED, {"w": (4, 4)}, WeightUpdate(weight_scales={"w": np.ones(4, np.float32)}), "different axes"),
    ],
    ids=["weight", "scales", "zero-scale", "bias", "matmul-bias", "shared-axes"],
)
def test_an_update_that_does_not_fit_is_refused(bench, text, constants, update, message):
    net = bench.net(text, **{n: bench.noise(*shape, seed=i) for i, (n, shape) in enumerate(constants.items())})
    with pytest.raises(ValueError, match=message):
        bench.trial(net, update=update)

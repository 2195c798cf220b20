"""Grids, integers and names of the encoded graph, held against numpy."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from fts.vocabulary.quantization import Scheme
from fts_converters.quantize.encode_qdq import LEAST_CHANNEL_SCALE
from fts_converters.quantize.ranges import params_from_range
from fts_converters.quantize.weight_grid import weight_grid, weight_integers

U8 = Scheme(bits=8, signed=False, symmetric=False, per_channel=False)
CONV = "g (float[1,3,8,8] x) => (float[1,8,6,6] y) { y = Conv(x,w,b) }"
TWO = "g (float[1,3,8,8] x) => (float[1,8,4,4] y) { h = Conv(x,w,b) r = Relu(h) y = Conv(r,w2) }"


@pytest.fixture
def weights(bench):
    return {"w": bench.noise(8, 3, 3, 3, seed=1, scale=0.3), "b": bench.noise(8, seed=3)}


@pytest.fixture
def two(bench, weights):
    return {**weights, "w2": bench.noise(8, 8, 3, 3, seed=2, scale=0.2)}


def named(trial, op_type: str, name: str) -> onnx.NodeProto:
    return next(n for n in trial.encoded.model.graph.node if n.op_type == op_type and n.name == name)


def dequantized_operand(trial, node: str, position: int) -> tuple[np.ndarray, np.ndarray]:
    """Integers and scale of a constant operand of an encoded node."""
    graph = trial.encoded.model.graph
    source = next(n for n in graph.node if n.name == node).input[position]
    dequantize = next(n for n in graph.node if source in n.output)
    return trial.constant(dequantize.input[0]), trial.constant(dequantize.input[1])


@pytest.mark.parametrize(("dialect", "least"), [("any", 64), ("vnni", 127)])
def test_weights_are_integers_of_the_dialect_and_use_their_range(bench, weights, dialect, least):
    integers, scale = dequantized_operand(
        bench.trial(bench.net(TWO, **weights, w2=bench.noise(8, 8, 3, 3)), dialect=dialect), "Conv_0", 1
    )
    assert integers.dtype == np.int8
    assert (np.abs(integers.astype(int)).max(axis=(1, 2, 3)) >= least).all()  # pairs of "any" are what limits it
    error = np.abs(integers * scale[:, None, None, None] - weights["w"])
    assert (
        error <= scale[:, None, None, None] * (0.5 if dialect == "vnni" else 1.5) * (1 + 1e-6)
    ).all()  # half a step, and float32 rounding of the scale


def test_bias_is_int32_in_steps_of_input_scale_times_weight_scale(bench, two):
    trial = bench.trial(bench.net(TWO, **two))
    bias, bias_scale = dequantized_operand(trial, "Conv_0", 2)
    _, weight_scale = dequantized_operand(trial, "Conv_0", 1)
    assert bias.dtype == np.int32
    np.testing.assert_array_equal(bias_scale, (weight_scale * np.float32(trial.scale("x"))).astype(np.float32))
    assert (np.abs(bias * bias_scale.astype(np.float64) - two["b"]) <= bias_scale / 2).all()


def test_zero_is_exact_on_every_grid(bench, two):
    trial = bench.trial(bench.net(TWO, **two), [{"x": bench.noise(1, 3, 8, 8, shift=0.7)}])
    for tensor in ("x", "r"):
        zero_point = int(trial.constant(f"{tensor}_zero_point"))
        assert 0 <= zero_point <= 255
    assert int(trial.constant("r_zero_point")) == 0


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 3.0), (0.0, 1.0), (0.2, 0.9), (-5.0, -1.0), (0.0, 0.0), (-1e-30, 1e-30)]
)
def test_a_range_and_zero_are_representable(low, high):
    grid = params_from_range(np.array([low], np.float32), np.array([high], np.float32), U8)
    scale, zero = float(grid.scale[0]), int(grid.zero_point[0])
    assert scale > 0
    assert 0 <= zero <= 255
    half = scale / 2 * (1 + 1e-6)  # the zero point is rounded, which moves both ends by at most half a step
    assert scale * (0 - zero) <= min(low, 0.0) + half
    assert scale * (255 - zero) >= max(high, 0.0) - half


def single_unit_bound(
    trial, data: np.ndarray, weight: np.ndarray, w_scale: np.ndarray, y_scale: np.ndarray
) -> np.ndarray:
    """Greatest |INT8 − FP32| of one Conv, channel by channel.

    y = sum(w x) + b. The input is off by s_x / 2, the weight by s_w / 2, the bias by s_x s_w / 2, the output by s_y / 2:
    |e| <= sum(|w|) s_x/2 + sum(|x|) s_w/2 + N s_x s_w/4 + s_x s_w/2 + s_y/2.
    """
    s_x, terms = trial.scale("x"), weight[0].size
    reach = np.abs(data).max() * terms
    return (
        np.abs(weight).sum(axis=(1, 2, 3)) * s_x / 2
        + reach * w_scale / 2
        + terms * s_x * w_scale / 4
        + s_x * w_scale / 2
        + y_scale / 2
    )


@pytest.mark.parametrize("dialect", ["any", "vnni"])
def test_one_conv_is_within_the_derived_bound_on_every_channel(bench, weights, dialect):
    trial = bench.trial(bench.net(CONV, **weights), dialect=dialect)
    y_scale = trial.constant("y_scale")
    w_scale = np.abs(weights["w"]).max(axis=(1, 2, 3)) / (63 if dialect == "any" else 127)
    data = np.stack([f["x"] for f in bench.feeds(bench.net(CONV, **weights))])
    bound = single_unit_bound(trial, data, weights["w"], w_scale, y_scale)
    error = np.max(
        [np.abs(a[0] - b[0]).max(axis=(0, 2, 3)) for a, b in zip(trial.fp32, trial.int8, strict=True)], axis=0
    )
    assert (error <= bound).all()
    assert (error > 0).all()


# --- one grid a channel -------------------------------------------------------------------------------------------------


def test_an_output_that_only_float_reads_has_one_grid_a_channel(bench, weights):
    trial = bench.trial(bench.net(CONV, **weights))
    assert trial.constant("y_scale").shape == (8,)
    seen = trial.statistics.channel_ranges["y"]
    low, high = (np.array([getattr(r, e) for r in seen], np.float32) for e in ("low", "high"))
    np.testing.assert_array_equal(trial.constant("y_scale"), params_from_range(low, high, U8, axis=1).scale)


def test_an_output_that_an_integer_kernel_reads_has_one_grid(bench, two):
    trial = bench.trial(bench.net(TWO.replace("float[1,8,4,4] y", "float[1,8,4,4] y, float[1,8,6,6] r"), **two))
    assert trial.constant("r_scale").shape == ()


def test_channel_grids_move_no_weight_integer(bench, weights):
    """S / s_c goes into the scale: the integers are those of the weights as they came."""
    integers, _ = dequantized_operand(bench.trial(bench.net(CONV, **weights)), "Conv_0", 1)
    grid = weight_grid(weights["w"], Scheme(bits=7, signed=True, symmetric=True, per_channel=True), 0, 128)
    plain = weight_integers(weights["w"], grid, 128)
    assert (
        np.abs(integers.astype(int) - plain.astype(int)).max() <= 1
    )  # a tie may fall to the other side by one ulp of the scale
    assert (integers != plain).mean() < 0.01


def test_a_quiet_channel_keeps_its_own_step(bench, weights):
    """On one grid for the tensor a channel 1000 times quieter than the loudest would be all zero."""
    loudness = np.logspace(0, -3, 8).astype(np.float32)
    weights = {"w": weights["w"] * loudness[:, None, None, None], "b": weights["b"] * loudness}
    trial = bench.trial(bench.net(CONV, **weights))
    for channel in range(8):
        a, b = (np.concatenate([r[0][:, channel] for r in runs]) for runs in (trial.fp32, trial.int8))
        assert (
            np.abs(a - b).max() < 0.03 * np.abs(a).max()
        )  # 2 % by the bound above for 27 terms, per tensor it is 100 %


@pytest.mark.parametrize("activation", ["", "Relu"])
def test_channel_grids_are_no_worse_for_float_readers_than_one_grid(bench, weights, activation):
    body = "h = Conv(x,w,b) r = Relu(h) z = Neg(r)" if activation else "r = Conv(x,w,b) z = Neg(r)"
    text = f"g (float[1,3,8,8] x) => (float[1,8,6,6] z) {{ {body} }}"
    weights["w"] *= np.logspace(0, -2, 8).astype(np.float32)[:, None, None, None]
    weights["b"] *= np.logspace(0, -2, 8).astype(np.float32)
    own = bench.trial(bench.net(text, **weights))
    # The same net, where an integer reader (whose output is not looked at) forces one grid a tensor.
    shared = text.replace("z)", "z, float[1,8,6,6] q)").replace("z = Neg", "q = Conv(r,p) z = Neg")
    one = bench.trial(bench.net(shared.replace("6,6] z, ", "6,6] z, "), **weights, p=bench.noise(8, 8, 1, 1)))
    assert own.constant("r_scale").shape == (8,)
    assert one.constant("r_scale").shape == ()
    assert (own.constant("r_scale") <= one.scale("r") * (1 + 1e-6)).all()
    errors = [
        np.mean([(a[0] - b[0]) ** 2 for a, b in zip(t.fp32, t.int8, strict=True)], axis=(0, 1, 3, 4))
        for t in (own, one)
    ]
    noise_of_draws = 1.15  # per channel over 108 values: the variance of a mean of squares is (2/108)**.5 = 14 %
    assert (errors[0] <= errors[1] * noise_of_draws + 1e-12).all()
    assert errors[0][-1] < errors[1][-1] / 4


def test_a_dead_channel_beside_a_huge_one_stays_finite(bench, weights):
    weights["w"][2], weights["b"][2] = 0.0, 0.0
    weights["w"] *= np.float32(1e18)
    weights["b"] *= np.float32(1e18)
    trial = bench.trial(bench.net(CONV, **weights))
    scale = trial.constant("y_scale")
    assert scale.min() >= scale.max() * LEAST_CHANNEL_SCALE * (1 - 1e-6)
    assert all(np.isfinite(t).all() for t in map(numpy_helper.to_array, trial.encoded.model.graph.initializer))
    assert all((r[0][:, 2] == 0).all() for r in trial.int8)
    assert trial.sqnr_db() > 30


def test_a_relu_that_never_fires_gives_zero(bench, two):
    trial = bench.trial(bench.net(TWO, **{**two, "b": np.full(8, -100, np.float32)}))
    assert trial.statistics.ranges["r"].high == 0.0
    assert trial.error() == 0.0


# --- magnitudes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-9, 1e-6, 1.0, 1e9])
def test_error_does_not_depend_on_the_unit_of_the_weights(bench, two, unit):
    unit = np.float32(unit)
    scaled = {"w": two["w"] * unit, "b": two["b"] * unit, "w2": two["w2"] / unit}
    trial = bench.trial(bench.net(TWO, **scaled))
    base = bench.trial(bench.net(TWO, **two))
    assert trial.sqnr_db() == pytest.approx(base.sqnr_db(), abs=1.0)  # ties that float32 scales decide otherwise


@pytest.mark.parametrize("dialect", ["any", "vnni"])
def test_a_bias_that_would_overflow_enlarges_the_weight_scale_and_says_so(bench, two, dialect):
    """F39: |bias| / (s_x s_w) is 1e12 steps on channel 3."""
    two["w"][3] *= np.float32(1e-9)
    two["b"] *= np.float32(1000)
    trial = bench.trial(bench.net(TWO, **two), dialect=dialect)
    bias, scale = dequantized_operand(trial, "Conv_0", 2)
    assert np.abs(bias.astype(np.int64)).max() <= 2**30
    assert (np.abs(bias * scale.astype(np.float64) - two["b"]) <= np.abs(two["b"]) * 1e-6).all()
    assert [node for node, _ in trial.encoded.notes] == ["Conv_0"]
    assert "1 of 8 weight scales enlarged" in trial.encoded.notes[0][1]
    assert trial.sqnr_db() > 25


@pytest.mark.parametrize("name", ["all weights zero", "input zero", "zero channel with a bias"])
def test_zeros_stay_zeros(bench, weights, name):
    feeds = None
    if name == "all weights zero":
        weights = {n: v * 0 for n, v in weights.items()}
    elif name == "input zero":
        feeds = [{"x": np.zeros((1, 3, 8, 8), np.float32)}]
    else:
        weights["w"][4] = 0
    trial = bench.trial(bench.net(CONV, **weights), feeds)
    assert trial.kernels.integer_mac_share == 1.0
    half_steps = np.asarray(trial.constant("y_scale")) / 2 * 1.001
    for a, b in zip(trial.fp32, trial.int8, strict=True):
        constant = np.ptp(a[0], axis=(0, 2, 3)) == 0
        assert (np.abs(a[0] - b[0]).max(axis=(0, 2, 3)) <= half_steps)[constant].all()
        assert constant.any()


def test_an_operand_without_elements_keeps_a_concat_in_float(bench, weights):
    text = "g (float[1,3,8,8] x) => (float[1,8,6,6] y) { e = Slice(x,o,o,a) c = Concat<axis=1>(x,e) y = Conv(c,w,b) }"
    trial = bench.trial(bench.net(text, **weights, o=np.array([0]), a=np.array([1])))
    (concat,) = (n for n in trial.plan.nodes if n.op_type == "Concat")
    assert (concat.precision, concat.reason) == ("fp32", "an operand has no elements")
    assert trial.kernels.integer_mac_share == 1.0


# --- names and sharing --------------------------------------------------------------------------------------------------


def test_tensors_named_like_generated_ones_keep_their_values(bench, two):
    """F26."""
    text = """g (float[1,3,8,8] x) => (float[1,8,4,4] h_scale, float[1,8,6,6] x_quantized) {
        h = Conv(x,w,b) h_quantized = Relu(h) h_scale = Conv(h_quantized,w2,b)
        x_dequantized = Neg(h) x_quantized = Neg(x_dequantized) }"""
    trial = bench.trial(bench.net(text, **two))
    assert [o.name for o in trial.encoded.model.graph.output] == ["h_scale", "x_quantized"]
    assert trial.kernels.integer_mac_share == 1.0
    assert trial.sqnr_db(0) > 25
    assert trial.sqnr_db(1) > 25


def test_nodes_named_like_generated_ones_stay_apart(bench, two):
    net = bench.net(TWO, **two)
    net.graph.node[1].name = "x_QuantizeLinear"
    net.graph.node[2].name = "Conv_0_w_DequantizeLinear"
    trial = bench.trial(net)
    assert trial.kernels.integer_mac_share == 1.0


def test_names_inside_a_subgraph_are_not_shadowed(bench, two):
    text = """g (float[1,3,8,8] x, float[1] s) => (float[1,8,4,4] y, float[1,8,6,6] z) {
        h = Conv(x,w,b) y = Conv(h,w2) q = ReduceMax<keepdims=0>(s) c = Greater(q,o)
        z = If(c) <then_branch = t () => (float[1,8,6,6] a) { h_quantized = Relu(h)  a = Neg(h_quantized) },
                   else_branch = e () => (float[1,8,6,6] d) { h_float = Neg(h)  d = Neg(h_float) }> }"""
    trial = bench.trial(bench.net(text, **two, o=np.float32(0)))
    assert trial.precision("Conv_0") == trial.precision("Conv_1") == "int8"
    assert trial.sqnr_db(0) > 25
    assert trial.sqnr_db(1) > 25


def test_a_tensor_read_by_a_subgraph_an_output_and_integers_at_once(bench, two):
    text = """g (float[1,3,8,8] x, float[1] s) => (float[1,8,4,4] y, float[1,8,6,6] z, float[1,8,6,6] h) {
        h = Conv(x,w,b) y = Conv(h,w2) q = ReduceMax<keepdims=0>(s) c = Greater(q,o)
        z = If(c) <then_branch = t () => (float[1,8,6,6] a) { a = Relu(h) },
                   else_branch = e () => (float[1,8,6,6] d) { d = Neg(h) }> }"""
    trial = bench.trial(bench.net(text, **two, o=np.float32(0)))
    assert [o.name for o in trial.encoded.model.graph.output] == ["y", "z", "h"]
    assert trial.kernels.integer_mac_share == 1.0
    assert min(trial.sqnr_db(i) for i in range(3)) > 25


def test_shared_weights_and_bias_get_the_input_scale_of_each_branch(bench, weights):
    """F41: the bias of one convolution on two inputs of different range has two encodings."""
    text = "g (float[1,3,8,8] x, float[1,3,8,8] z) => (float[1,8,6,6] y, float[1,8,6,6] q) { y = Conv(x,w,b) q = Conv(z,w,b) }"
    feeds = [
        {"x": bench.noise(1, 3, 8, 8, seed=s), "z": bench.noise(1, 3, 8, 8, seed=9 + s, scale=50)} for s in range(3)
    ]
    trial = bench.trial(bench.net(text, **weights), feeds)
    assert trial.kernels.integer_mac_share == 1.0
    assert trial.sqnr_db(0) > 30
    assert trial.sqnr_db(1) > 30
    first, second = dequantized_operand(trial, "Conv_0", 2)[1], dequantized_operand(trial, "Conv_1", 2)[1]
    assert not np.allclose(first, second)


def test_encoding_is_a_pure_function(bench, two):
    a, b = (bench.trial(bench.net(TWO, **two)).encoded.model.SerializeToString(deterministic=True) for _ in range(2))
    assert a == b


def test_the_float_graph_is_not_touched(bench, two):
    net = bench.net(TWO, **two)
    trial = bench.trial(net)
    assert [n.op_type for n in trial.index.model.graph.node] == ["Conv", "Relu", "Conv"]
    assert {t.name for t in trial.encoded.model.graph.initializer}.isdisjoint(
        {"w", "b", "w2"}
    )  # FP32 weights are not carried along

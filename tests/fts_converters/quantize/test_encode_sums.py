"""Sums that leave an integer kernel as they are: the values, the kernels, and who gets them."""

from __future__ import annotations

import numpy as np
import pytest

CONV = "g (float[1,3,8,8] x) => (float[1,8,6,6] y) { y = Conv(x,w,b) }"
FORMS = [
    ("conv", CONV, {"w": (8, 3, 3, 3), "b": (8,)}, "ConvInteger"),
    ("conv without a bias", CONV.replace(",b)", ")"), {"w": (8, 3, 3, 3)}, "ConvInteger"),
    ("1-D", "g (float[1,3,8] x) => (float[1,8,6] y) { y = Conv(x,w,b) }", {"w": (8, 3, 3), "b": (8,)}, "ConvInteger"),
    ("matmul", "g (float[2,4,8] x) => (float[2,4,5] y) { y = MatMul(x,w) }", {"w": (8, 5)}, "MatMulInteger"),
    ("gemm", "g (float[4,8] x) => (float[4,5] y) { y = Gemm(x,w,b) }", {"w": (8, 5), "b": (5,)}, "MatMulInteger"),
    (
        "gemm on a transposed weight",
        "g (float[4,8] x) => (float[4,5] y) { y = Gemm<transB=1>(x,w,b) }",
        {"w": (5, 8), "b": (1, 5)},
        "MatMulInteger",
    ),
]  # fmt: skip


def weights(bench, shapes):
    return {n: bench.noise(*s, seed=i, scale=0.3) for i, (n, s) in enumerate(shapes.items())}


@pytest.mark.parametrize("dialect", ["any", "vnni"])
@pytest.mark.parametrize(("text", "shapes", "kernel"), [f[1:] for f in FORMS], ids=[f[0] for f in FORMS])
def test_only_input_and_weights_are_rounded(bench, text, shapes, kernel, dialect):
    """|e| <= sum |w| s_x / 2 + (reach of x) * sum s_w / 2 + their product: nothing is lost at the output."""
    net = bench.net(text, **weights(bench, shapes))
    trial = bench.trial(net, fine={n: "test" for n in ("Conv_0", "MatMul_0", "Gemm_0")}, dialect=dialect)
    assert set(trial.kernels.kernels) & {"ConvInteger", "MatMulInteger", "MatMulIntegerToFloat"} >= (
        {kernel} - {"MatMulInteger"}
    )
    assert trial.kernels.integer_mac_share == 1.0
    step = trial.scale("x")
    weight = weights(bench, shapes)["w"]
    rows = (
        np.abs(weight.reshape(weight.shape[0], -1)) if kernel == "ConvInteger" or "transB" in text else np.abs(weight.T)
    )
    steps = rows.max(axis=1) / (63 if dialect == "any" else 127)
    reach = 4.0  # of standard normal data
    bound = rows.sum(1) * step / 2 + rows.shape[1] * steps / 2 * (reach + step)
    axis = {4: 1, 3: 1}.get(trial.fp32[0][0].ndim, 1) if kernel == "ConvInteger" else -1
    for fp32, int8 in zip(trial.fp32, trial.int8, strict=True):
        error = np.abs(np.moveaxis(fp32[0] - int8[0], axis, -1))
        assert (error <= bound + 1e-6).all()
        assert error.max() > 0


def test_finer_than_a_rounded_output_where_its_range_is_wide(bench):
    """One pixel of 100 makes the steps of an 8-bit output wide; sums do not care."""
    text = "g (float[1,1,8,8] x) => (float[1,1,8,8] y) { y = Conv(x,w) }"
    net = bench.net(text, w=np.full((1, 1, 1, 1), 1.0, np.float32))
    feed = bench.noise(1, 1, 8, 8)
    rounded, sums = (bench.trial(net, [{"x": feed}], fine=fine) for fine in ({}, {"Conv_0": "test"}))
    errors = [np.abs(t.fp32[0][0] - t.int8[0][0]).mean() for t in (rounded, sums)]
    assert errors[1] < errors[0]


def test_depthwise_has_no_fast_sum_kernel(bench):
    net = bench.net("g (float[1,8,8,8] x) => (float[1,8,6,6] y) { y = Conv<group=8>(x,w) }", w=bench.noise(8, 1, 3, 3))
    trial = bench.trial(net, fine={"Conv_0": "test"})
    assert "ConvInteger" not in trial.kernels.kernels
    assert trial.plan.by_name()["Conv_0"].weight_bits == 8  # full weights are what is left


def test_integer_readers_get_full_weights_instead(bench):
    text = "g (float[1,3,8,8] x) => (float[1,8,4,4] y) { h = Conv(x,w) y = Conv(h,v) }"
    net = bench.net(text, w=bench.noise(8, 3, 3, 3), v=bench.noise(8, 8, 3, 3))
    plan = bench.trial(net, fine={"Conv_0": "test", "Conv_1": "test"}).plan.by_name()
    assert (plan["Conv_0"].weight_bits, plan["Conv_0"].output_bits) == (8, 8)
    assert (plan["Conv_1"].weight_bits, plan["Conv_1"].output_bits) == (7, 32)
    assert "finer than usual: test" in plan["Conv_1"].reason


def test_a_bias_in_front_of_a_norm_is_left_out(bench):
    text = "g (float[1,3,8,8] x) => (float[1,8,6,6] y) { h = Conv(x,w,b) y = InstanceNormalization(h,s,o) }"
    net = bench.net(
        text,
        w=bench.noise(8, 3, 3, 3),
        b=bench.noise(8, shift=50.0),
        s=np.ones(8, np.float32),
        o=np.zeros(8, np.float32),
    )
    trial = bench.trial(net, fine={"Conv_0": "test"})
    assert not [n for n in trial.encoded.model.graph.node if n.op_type == "Add"]
    np.testing.assert_allclose(trial.int8[0][0], trial.fp32[0][0], atol=0.15)


def test_one_input_of_both_forms_is_quantized_for_each(bench):
    text = """g (float[1,3,8,8] x) => (float[1,8,6,6] y, float[1,8,6,6] z) {
        n = Tanh(x) h = Conv(n,w) y = Sin(h) z = Conv(n,v) }"""
    net = bench.net(text, w=bench.noise(8, 3, 3, 3), v=bench.noise(8, 3, 3, 3, seed=5))
    trial = bench.trial(net, fine={"Conv_1": "test"})
    assert trial.kernels.integer_mac_share == 1.0
    assert {"ConvInteger", "QLinearConv"} <= set(trial.kernels.kernels)
    quantized = [n.input[0] for n in trial.encoded.model.graph.node if n.op_type == "QuantizeLinear"]
    assert quantized.count("n") == 2

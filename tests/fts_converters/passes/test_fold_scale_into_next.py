"""A scale and shift in front of weights go into them where that is exact, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from tests.generators.run_plain import run_plain

from fts_converters.passes import clean
from fts_converters.passes.fold_batchnorm import fold_batchnorm

MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
VALID = "Conv(n, w)"
PADDED = "Conv<pads=[1,1,1,1]>(n, w)"


def cleaned(bench, text: str, **constants: np.ndarray):
    net = bench.net(text, **constants)
    model = bench.model(net)
    result = clean(model)
    feed = bench.feeds(net, 1)[0]
    before, after = run_plain(net, feed)[0], run_plain(model.to_proto(), feed)[0]
    # sums of some 27 products whose terms reach 5 times the output: some 30 roundings of float32
    np.testing.assert_allclose(after, before, atol=1e-5 * np.abs(before).max())
    refusals = [x.reason for r in result.records if r.name == "fold_scale_into_next" for x in r.refusals]
    return [n.op for n in model.graph.nodes], refusals


def weights(bench) -> np.ndarray:
    return bench.noise(4, 3, 3, 3)


@pytest.mark.parametrize("size", ["6", "4"])
def test_mean_and_std_go_into_a_conv_without_padding(bench, size):
    text = (
        f"g (float[1,3,6,{size}] x) => (float[1,4,4,{int(size) - 2}] y) {{ c = Sub(x, m) n = Div(c, s) y = {VALID} }}"
    )
    ops, _ = cleaned(bench, text, m=MEAN.reshape(3, 1, 1), s=STD.reshape(1, 3, 1, 1), w=weights(bench))
    assert ops == ["Conv"]


def test_in_front_of_a_transpose_and_a_reflecting_pad(bench):
    text = f"""g (float[1,6,6,3] x) => (float[1,4,6,6] y) {{ c = Sub(x, m) d = Div(c, s) t = Transpose<perm=[0,3,1,2]>(d)
        n = Pad<mode="reflect">(t, p) y = {VALID} }}"""
    ops, _ = cleaned(bench, text, m=MEAN, s=STD, w=weights(bench), p=np.array([0, 0, 1, 1, 0, 0, 1, 1]))
    assert ops == ["Transpose", "Pad", "Conv"]


def test_behind_a_cast_from_uint8(bench):
    text = f"g (uint8[1,3,6,6] x) => (float[1,4,4,4] y) {{ f = Cast<to=1>(x) c = Mul(f, k) n = Sub(c, m) y = {VALID} }}"
    net = bench.net(text, k=np.float32(1 / 255), m=MEAN.reshape(3, 1, 1), w=weights(bench))
    model = bench.model(net)
    clean(model)
    assert [n.op for n in model.graph.nodes] == ["Cast", "Conv"]
    feed = {"x": np.random.default_rng(0).integers(0, 256, (1, 3, 6, 6)).astype(np.uint8)}
    before, after = run_plain(net, feed)[0], run_plain(model.to_proto(), feed)[0]
    np.testing.assert_allclose(after, before, atol=1e-5 * np.abs(before).max())


def test_a_padded_conv_takes_the_scale_and_says_why_the_shift_stays(bench):
    text = f"g (float[1,3,6,6] x) => (float[1,4,6,6] y) {{ c = Mul(x, k) n = Sub(c, m) y = {PADDED} }}"
    ops, refusals = cleaned(bench, text, k=np.float32(2), m=MEAN.reshape(3, 1, 1), w=weights(bench))
    assert ops == ["Add", "Conv"]
    assert "pads with zeros" in refusals[0]


def test_a_padded_conv_takes_a_scale_alone(bench):
    text = f"g (float[1,3,6,6] x) => (float[1,4,6,6] y) {{ n = Mul(x, k) y = {PADDED} }}"
    assert cleaned(bench, text, k=STD.reshape(3, 1, 1), w=weights(bench)) == (["Conv"], [])


def test_a_matmul_takes_the_shift_into_the_sum_behind_it(bench):
    text = "g (float[2,5,3] x) => (float[2,5,4] y) { n = Sub(x, m) p = MatMul(n, w) y = Add(p, b) }"
    ops, _ = cleaned(bench, text, m=MEAN, w=bench.noise(3, 4), b=bench.noise(4, seed=1))
    assert ops == ["MatMul", "Add"]


def test_one_channel_that_is_broadcast_to_three_is_left(bench):
    text = f"g (float[1,1,6,6] x) => (float[1,4,4,4] y) {{ n = Mul(x, k) y = {VALID} }}"
    assert cleaned(bench, text, k=STD.reshape(3, 1, 1), w=weights(bench))[0] == ["Mul", "Conv"]


def test_a_value_that_is_read_elsewhere_is_left(bench):
    text = f"g (float[1,3,6,6] x) => (float[1,4,4,4] y, float[1,3,6,6] z) {{ n = Mul(x, k) y = {VALID} z = Neg(n) }}"
    assert sorted(cleaned(bench, text, k=STD.reshape(3, 1, 1), w=weights(bench))[0]) == ["Conv", "Mul", "Neg"]


NORM = {k: np.random.default_rng(i).uniform(0.5, 2, 7).astype(np.float32) for i, k in enumerate(("g", "b", "m", "v"))}


def test_a_batchnorm_behind_a_concat_goes_into_each_branch(bench):
    text = """g (float[1,3,6,6] x) => (float[1,7,4,4] y) { a = Conv(x, w) c = Conv(x, u) j = Concat<axis=1>(a, c)
        y = BatchNormalization(j, g, b, m, v) }"""
    ops, _ = cleaned(bench, text, w=weights(bench), u=bench.noise(3, 3, 3, 3, seed=2), **NORM)
    assert ops == ["Conv", "Conv", "Concat"]


@pytest.mark.parametrize(
    ("branch", "more", "reason"),
    [
        ("c = AveragePool<kernel_shape=[3,3]>(x)", "", "has no weights that could be scaled"),
        ("c = Conv(x, u)", "z = Neg(c)", "is read by others too"),
    ],
)
def test_a_batchnorm_behind_a_concat_stays_when_one_branch_cannot_take_it(bench, branch, more, reason):
    outputs = "float[1,7,4,4] y" + (", float[1,3,4,4] z" if more else "")
    text = f"""g (float[1,3,6,6] x) => ({outputs}) {{ a = Conv(x, w) {branch} j = Concat<axis=1>(a, c)
        y = BatchNormalization(j, g, b, m, v) {more} }}"""
    model = bench.model(bench.net(text, w=weights(bench), u=bench.noise(3, 3, 3, 3, seed=2), **NORM))
    result = fold_batchnorm(model)
    assert not result.is_changed
    assert reason in result.refusals[0].reason

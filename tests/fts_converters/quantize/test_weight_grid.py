"""Weights whose pairs fit 16 bits: held against the rule, and against what the processor does without it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fts.engines.onnxruntime_session import open_session
from fts.vocabulary.quantization import Scheme
from fts_converters.quantize.weight_grid import weight_grid, weight_integers

SEVEN = Scheme(bits=7, signed=True, symmetric=True, per_channel=True)
LIMIT = 128


def sums(integers: np.ndarray, axis: int | None) -> np.ndarray:
    """Sums of neighbours in both orders, the slow way."""
    if axis is None:
        rows = [integers[..., :, j] for j in range(integers.shape[-1])]
        orders = [np.concatenate([r.reshape(-1, integers.shape[-2]) for r in rows])]
    else:
        rows = np.moveaxis(integers, axis, 0)
        orders = [rows.reshape(len(rows), -1)]
        if rows.ndim > 2:
            orders.append(np.moveaxis(rows, 1, -1).reshape(len(rows), -1))
    found = []
    for order in orders:
        for row in order.astype(int):
            found += [row[i] + row[i + 1] for i in range(0, len(row) - 1, 2)]
    return np.array(found or [0])


shapes = st.sampled_from(
    [((4, 3, 3, 3), 0), ((8, 1, 3, 3), 0), ((5, 8), 0), ((8, 5), 1), ((2, 7, 4), None), ((4, 3, 5), 0), ((3, 1), 0)]
)


@given(shape_axis=shapes, seed=st.integers(0, 999), tail=st.sampled_from([1.0, 2.0, 30.0]))
@settings(max_examples=200, deadline=None)
def test_no_pair_is_over_the_limit_and_no_weight_is_far_off(shape_axis, seed, tail):
    shape, axis = shape_axis
    rng = np.random.default_rng(seed)
    weight = (rng.normal(size=shape) * rng.choice([1.0, tail], size=shape)).astype(np.float32)
    grid = weight_grid(weight, SEVEN, axis, LIMIT)
    integers = weight_integers(weight, grid, LIMIT)
    assert np.abs(sums(integers, axis)).max() <= LIMIT
    assert np.abs(integers.astype(int)).max() <= 127
    others = () if axis is None else tuple(i for i in range(weight.ndim) if i != axis)
    scale = grid.scale.reshape(()) if axis is None else np.expand_dims(grid.scale, others)
    # Half a step of rounding, and at most one step given back in each of the two orders.
    assert (np.abs(integers * scale - weight) <= scale * 2.5 * (1 + 1e-5)).all()
    seven = weight_grid(weight, SEVEN, axis, None)
    assert (grid.scale <= seven.scale * (1 + 1e-6)).all()  # never coarser than 7 bits


def test_trained_like_weights_gain_decibels_over_seven_bits():
    weight = np.random.default_rng(0).normal(size=(64, 64, 3, 3)).astype(np.float32)
    finer, seven = (weight_grid(weight, SEVEN, 0, limit).scale for limit in (LIMIT, None))
    assert 20 * np.log10(seven / finer).mean() > 3


@pytest.mark.parametrize("limit", [LIMIT, None])
@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("g (float[1,%d,6,6] x) => (float[1,8,4,4] y) { y = Conv(x,w) }", (8, 5, 3, 3)),
        ("g (float[1,%d,6,6] x) => (float[1,8,4,4] y) { y = Conv<group=2>(x,w) }", (8, 3, 3, 3)),
        ("g (float[1,%d,6,6] x) => (float[1,8,6,6] y) { y = Conv(x,w) }", (8, 32, 1, 1)),
        ("g (float[4,%d] x) => (float[4,8] y) { y = MatMul(x,w) }", (33, 8)),
        ("g (float[4,%d] x) => (float[4,8] y) { y = Gemm<transB=1>(x,w) }", (8, 33)),
    ],
    ids=["conv", "grouped", "1x1", "matmul", "gemm"],
)
def test_the_processor_adds_such_pairs_exactly(bench, monkeypatch, text, shape, limit):
    """Inputs at the end of the grid and pairs at the limit: the same bits with the exact kernels and the fast ones."""
    rng = np.random.default_rng(1)
    weight = (rng.choice([0.45, 0.55, 1.0], size=shape) * np.sign(rng.normal(size=shape) + 0.8)).astype(np.float32)
    inputs = shape[0] if text.endswith("MatMul(x,w) }") else shape[1] * (2 if "group" in text else 1)
    net = bench.net(text % inputs, w=weight)
    size = (4, inputs) if "4,%d" in text else (1, inputs, 6, 6)
    feeds = [{"x": rng.choice([0.0, 1.0, 1.0], size=size).astype(np.float32)} for _ in range(4)]
    if limit is None:  # shows that the inputs of this test do saturate: all 8 bits, pairs unbounded
        eight = Scheme(bits=8, signed=True, symmetric=True, per_channel=True)
        monkeypatch.setattr(
            "fts_converters.quantize.encode_qdq.weight_grid", lambda w, s, axis, _: weight_grid(w, eight, axis, None)
        )
        monkeypatch.setattr(
            "fts_converters.quantize.encode_qdq.weight_integers", lambda w, grid, _: weight_integers(w, grid, None)
        )
    trial = bench.trial(net, feeds)
    data = trial.encoded.model.SerializeToString()
    fast, exact = (open_session(data, threads=1, exact_u8s8=is_exact) for is_exact in (False, True))
    same = all(np.array_equal(fast.run(f)[0], exact.run(f)[0]) for f in feeds)
    if limit is not None:
        assert same
    elif not same:
        return  # this machine saturates

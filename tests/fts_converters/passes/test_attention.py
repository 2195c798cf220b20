"""Attention is recognised from opset 23 on, and reported once with its nodes below."""

from __future__ import annotations

import numpy as np
import pytest
from tests.generators.run_plain import run_plain

from fts_converters.passes import clean

N = np.float32
# Sums of 6 products and a softmax over 7 in another order, of values of magnitude 1.
ROUNDING = 1e-5
NUMBERS = {
    "d": N(2.449), "s": N(0.408), "r": N(0.639), "mask": np.where(np.eye(5, 7) > 0, N(-9), N(0)).astype(N),
    "deep": np.random.default_rng(0).uniform(-2, 0, (2, 3, 5, 7)).astype(N),
}  # fmt: skip
BODIES = {
    "divided": "t=Transpose<perm=[0,1,3,2]>(k) p=MatMul(q,t) c=Div(p,d) w=Softmax<axis=-1>(c) y=MatMul(w,v)",
    "multiplied": "t=Transpose<perm=[0,1,3,2]>(k) p=MatMul(q,t) c=Mul(s,p) w=Softmax<axis=3>(c) y=MatMul(w,v)",
    "not scaled": "t=Transpose<perm=[0,1,3,2]>(k) p=MatMul(q,t) w=Softmax(p) y=MatMul(w,v)",
    "scaled query": "u=Mul(q,s) t=Transpose<perm=[0,1,3,2]>(k) p=MatMul(u,t) w=Softmax<axis=-1>(p) y=MatMul(w,v)",
    "split over two": (
        "u=Mul(q,r) t=Transpose<perm=[0,1,3,2]>(k) z=Mul(t,r) p=MatMul(u,z) w=Softmax<axis=-1>(p) y=MatMul(w,v)"
    ),
    "masked": "t=Transpose<perm=[0,1,3,2]>(k) p=MatMul(q,t) c=Div(p,d) a=Add(c,mask) w=Softmax<axis=-1>(a) y=MatMul(w,v)",
    "masked by head": (
        "t=Transpose<perm=[0,1,3,2]>(k) p=MatMul(q,t) c=Div(p,d) a=Add(deep,c) w=Softmax<axis=-1>(a) y=MatMul(w,v)"
    ),
}
HEADS = "g (float[2,3,5,6] q, float[2,3,7,6] k, float[2,3,7,4] v) => (float[2,3,5,4] y)"


def _net(bench, name: str, opset: int):
    body = BODIES[name]
    used = {n: v for n, v in NUMBERS.items() if f",{n})" in body or f"({n}," in body}
    net = bench.net(f"{HEADS} {{ {body} }}", opset, **used)
    net.ir_version = 11 if opset > 22 else net.ir_version
    return net


def _feeds(*shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {n: rng.standard_normal(s).astype(N) for n, s in zip("qkv", shapes, strict=True)}


@pytest.mark.parametrize("name", BODIES)
def test_below_its_opset_it_is_reported_once(name, bench):
    net = _net(bench, name, 17)
    model = bench.model(net)
    result = clean(model)
    (refusal,) = (f for r in result.records for f in r.refusals)
    assert refusal.needs_opset == 23
    products = [n.name for n in net.graph.node if n.op_type in ("MatMul", "Softmax")]
    assert refusal.reason == f"attention ({', '.join(products)}): Attention exists from opset 23 on, the net has 17"
    assert result.opset_after == 17


@pytest.mark.parametrize("name", BODIES)
def test_at_its_opset_it_is_one_operator(name, bench):
    net = _net(bench, name, 23)
    model = bench.model(net)
    clean(model)
    assert [n.op for n in model.graph.nodes] == ["Attention"]
    feeds = _feeds((2, 3, 5, 6), (2, 3, 7, 6), (2, 3, 7, 4))
    np.testing.assert_allclose(run_plain(model.to_proto(), feeds)[0], run_plain(net, feeds)[0], atol=ROUNDING)


def test_three_axes_are_one_head(bench):
    net = bench.net(
        """g (float[4,5,6] q, float[4,7,6] k, float[4,7,4] v) => (float[4,5,4] y) {
        t=Transpose<perm=[0,2,1]>(k) p=MatMul(q,t) c=Div(p,d) w=Softmax<axis=-1>(c) y=MatMul(w,v) }""",
        23, d=NUMBERS["d"],
    )  # fmt: skip
    net.ir_version = 11
    model = bench.model(net)
    clean(model)
    assert [n.op for n in model.graph.nodes] == ["Attention"]
    feeds = _feeds((4, 5, 6), (4, 7, 6), (4, 7, 4))
    np.testing.assert_allclose(run_plain(model.to_proto(), feeds)[0], run_plain(net, feeds)[0], atol=ROUNDING)


def test_the_transpose_that_splits_heads_is_turned_with_the_key(bench):
    net = bench.net(
        """g (float[2,3,5,6] q, float[2,7,18] k, float[2,3,7,4] v) => (float[2,3,5,4] y) { h=Reshape(k,split)
        t=Transpose<perm=[0,2,3,1]>(h) p=MatMul(q,t) c=Div(p,d) w=Softmax<axis=-1>(c) y=MatMul(w,v) }""",
        23, d=NUMBERS["d"], split=np.array([2, 7, 3, 6]),
    )  # fmt: skip
    net.ir_version = 11
    model = bench.model(net)
    clean(model)
    assert [n.op for n in model.graph.nodes] == ["Reshape", "Transpose", "Attention"]
    feeds = _feeds((2, 3, 5, 6), (2, 7, 18), (2, 3, 7, 4))
    np.testing.assert_allclose(run_plain(model.to_proto(), feeds)[0], run_plain(net, feeds)[0], atol=ROUNDING)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (BODIES["divided"] + " z=Neg(w)", "its weights are read by others too"),
        (BODIES["masked"].replace("mask", "row"), "its mask is not one of queries by keys"),
        (BODIES["divided"].replace("Div(p,d)", "Mul(p,minus)"), "its factor is not positive"),
    ],
)
def test_what_the_operator_does_not_take_is_said(body, reason, bench):
    given = {**NUMBERS, "row": np.zeros((1, 7), N), "minus": N(-1)}
    used = {n: v for n, v in given.items() if f",{n})" in body}
    more = ", float[2,3,5,7] z" if "z=" in body else ""
    net = bench.net(f"{HEADS[:-1]}{more}) {{ {body} }}", 23, **used)
    net.ir_version = 11
    model = bench.model(net)
    result = clean(model)
    assert "Attention" not in [n.op for n in model.graph.nodes]
    assert [reason in f.reason for r in result.records for f in r.refusals] == [True]


@pytest.mark.parametrize(
    "body", [BODIES["divided"].replace("axis=-1", "axis=2"), BODIES["divided"].replace("(w,v)", "(v,w)")]
)
def test_what_is_no_attention_stays(body, bench):
    head = "g (float[2,3,6,6] q, float[2,3,6,6] k, float[2,3,6,6] v) => (float[2,3,6,6] y)"
    model = bench.model(bench.net(f"{head} {{ {body} }}", 17, d=NUMBERS["d"]))
    assert [f for r in clean(model).records for f in r.refusals] == []

"""Division by an L2 norm is shortened, and never changed at vectors of 0 or shorter than epsilon."""

from __future__ import annotations

import numpy as np
import pytest
from tests.generators.run_plain import run_plain

from fts_converters.passes import clean

N = np.float32
ROUNDING = 1e-6
NUMBERS = {
    "eps": N(1e-12), "coarse": N(1e-2), "two": N(2), "h": N(0.5), "o": N(1), "a": np.array([1]), "full": np.array([2, 8, 3, 3]),
}  # fmt: skip
SPELLINGS = {
    "torch's normalize": ("n=ReduceL2<axes=[1]>(x) c=Clip(n,eps) e=Expand(c,full) y=Div(x,e)", ["ReduceL2", "Clip", "Div"]),
    "Max": ("n=ReduceL2<axes=[1]>(x) c=Max(n,eps) y=Div(x,c)", ["ReduceL2", "Max", "Div"]),
    "root of a sum": ("q=Mul(x,x) t=ReduceSum(q,a) n=Sqrt(t) y=Div(x,n)", ["ReduceL2", "Div"]),
    "root of a sum, limited": ("q=Pow(x,two) t=ReduceSum(q,a) n=Pow(t,h) c=Max(n,coarse) y=Div(x,c)", ["ReduceL2", "Max", "Div"]),
    "sum of squares": ("t=ReduceSumSquare<axes=[1]>(x) n=Sqrt(t) c=Max(eps,n) y=Div(x,c)", ["ReduceL2", "Max", "Div"]),
    "times the inverse": ("n=ReduceL2<axes=[1]>(x) c=Clip(n,eps) i=Reciprocal(c) y=Mul(i,x)", ["ReduceL2", "Clip", "Div"]),
    "times one over it": ("n=ReduceL2<axes=[1]>(x) i=Div(o,n) y=Mul(x,i)", ["ReduceL2", "Div"]),
    "epsilon below the root": (
        "q=Mul(x,x) t=ReduceSum(q,a) p=Add(t,coarse) n=Sqrt(p) y=Div(x,n)", ["ReduceSumSquare", "Add", "Sqrt", "Div"],
    ),
    "limit below the root": (
        "q=Mul(x,x) t=ReduceSum(q,a) p=Max(t,eps) n=Sqrt(p) y=Div(x,n)", ["ReduceSumSquare", "Max", "Sqrt", "Div"],
    ),
    "behind a softmax": ("x2=Softmax<axis=1>(x) n=ReduceL2<axes=[1]>(x2) c=Clip(n,eps) y=Div(x2,c)",
        ["Softmax", "LpNormalization"]),
    "of positive numbers": (
        "k=Relu(x) x2=Add(k,coarse) q=Mul(x2,x2) t=ReduceSum(q,a) n=Sqrt(t) y=Div(x2,n)", ["Relu", "Add", "LpNormalization"],
    ),
    "of positive numbers, limited above them": (
        "k=Relu(x) x2=Add(k,coarse) n=ReduceL2<axes=[1]>(x2) c=Max(n,o) y=Div(x2,c)", ["Relu", "Add", "ReduceL2", "Max", "Div"],
    ),
}  # fmt: skip


def _feeds() -> list[np.ndarray]:
    x = np.random.default_rng(0).standard_normal((2, 8, 3, 3)).astype(N)
    zeros = x.copy()
    zeros[0, :, 1] = 0  # three vectors of 0
    return [x, zeros, x * 0, x * N(1e-13), x * N(1e-20), x * N(1e-3)]


@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.parametrize("opset", [13, 18])
def test_a_spelling_is_shortened_and_keeps_its_values_at_zero(name, opset, bench):
    body, wanted = SPELLINGS[name]
    if opset == 18:
        for op in ("ReduceL2", "ReduceSumSquare"):
            body = body.replace(f"{op}<axes=[1]>(x2)", f"{op}(x2,a)").replace(f"{op}<axes=[1]>(x)", f"{op}(x,a)")
    used = {k: v for k, v in NUMBERS.items() if f",{k})" in body or f"({k}," in body}
    net = bench.net(f"g (float[2,8,3,3] x) => (float[2,8,3,3] y) {{ {body} }}", opset, **used)
    model = bench.model(net)
    clean(model)
    assert [n.op for n in model.graph.nodes] == wanted
    for x in _feeds():
        expected, found = run_plain(net, {"x": x})[0], run_plain(model.to_proto(), {"x": x})[0]
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_allclose(found, expected, rtol=ROUNDING, atol=0)


def test_the_short_form_is_reported(bench):
    body, _ = SPELLINGS["torch's normalize"]
    net = bench.net(f"g (float[2,8,3,3] x) => (float[2,8,3,3] y) {{ {body} }}", 13, eps=N(1e-12), full=NUMBERS["full"])
    result = clean(bench.model(net))
    (refusal,) = (f for r in result.records for f in r.refusals)
    assert refusal.reason.startswith("an L2 normalisation: LpNormalization has no epsilon and another value at 0")


@pytest.mark.parametrize(
    "body",
    [
        "z=Abs(x) n=ReduceL2<axes=[1]>(z) y=Div(x,n)",
        "n=ReduceL2<axes=[1]>(x) c=Clip(n,,o) y=Div(x,c)",
        "n=ReduceL1<axes=[1]>(x) c=Max(n,eps) y=Div(x,c)",
    ],
)
def test_what_is_no_l2_normalisation_stays(body, bench):
    used = {k: v for k, v in NUMBERS.items() if f",{k})" in body}
    net = bench.net(f"g (float[2,8,3,3] x) => (float[2,8,3,3] y) {{ {body} }}", 13, **used)
    model = bench.model(net)
    assert [f for r in clean(model).records for f in r.refusals] == []
    assert [n.op for n in model.graph.nodes] == [n.op_type for n in net.graph.node]

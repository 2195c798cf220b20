"""Activations in the spellings of exporters become one operator, and stay right where an exponential overflows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.generators.run_plain import run_plain

from fts_converters.passes import clean
from fts_converters.passes.recognise_sigmoid import recognise_sigmoid

N = np.float32
# exp overflows in float32 above 88.7; -0.0, denormal results and both infinities' neighbourhoods are in it.
FAR = np.array([[-1e4, -200, -104, -100, -89, -88, -20, -3, -1, -0.5, -0.0, 0.5, 1, 3, 20, 88, 89, 100, 200, 1e4]], N)
# Of max(1, |x|): float32 rounding of a value near 1 that is multiplied by x.
ROUNDING = 4e-7
ROOT = {"r": N(math.sqrt(2 / math.pi)), "k": N(0.044715), "o": N(1), "h": N(0.5)}
ERF = {"s": N(2**0.5), "is2": N(0.5**0.5), "o": N(1), "h": N(0.5), "u": N(2)}

GELUS = {
    "product halved": "a=Div(x,s) e=Erf(a) p=Add(e,o) q=Mul(x,p) y=Mul(q,h)",
    "x halved": "a=Mul(x,is2) e=Erf(a) p=Add(o,e) q=Mul(h,x) y=Mul(q,p)",
    "x halved by Div": "a=Mul(x,is2) e=Erf(a) p=Add(o,e) q=Div(x,u) y=Mul(q,p)",
    "gate halved": "a=Div(x,s) e=Erf(a) p=Add(e,o) q=Mul(p,h) y=Mul(x,q)",
    "Phi": "a=Div(x,s) e=Erf(a) p=Mul(e,h) q=Add(p,h) y=Mul(q,x)",
    "sum of two": "a=Div(x,s) e=Erf(a) p=Mul(x,h) q=Mul(p,e) y=Add(p,q)",
}
TANH_GELUS = {
    "Pow": "c=Pow(x,three) d=Mul(k,c) i=Add(x,d) j=Mul(i,r) e=Tanh(j) p=Add(e,o) q=Mul(h,x) y=Mul(q,p)",
    "x x x": "b=Mul(x,x) c=Mul(b,x) d=Mul(k,c) i=Add(x,d) j=Mul(r,i) e=Tanh(j) p=Add(o,e) q=Mul(x,p) y=Mul(q,h)",
    "x outside": "b=Mul(k,x) c=Mul(b,x) i=Add(o,c) w=Mul(x,r) j=Mul(w,i) e=Tanh(j) p=Add(e,o) q=Mul(h,x) y=Mul(q,p)",
    "gate halved": "c=Pow(x,three) d=Mul(k,c) i=Add(x,d) j=Mul(i,r) e=Tanh(j) p=Mul(e,h) q=Add(p,h) y=Mul(x,q)",
}
SIGMOIDS = {
    "Reciprocal": "m=Neg(x) e=Exp(m) p=Add(e,o) y=Reciprocal(p)",
    "Div": "m=Neg(x) e=Exp(m) p=Add(o,e) y=Div(o,p)",
    "Pow": "m=Mul(x,minus) e=Exp(m) p=Add(o,e) y=Pow(p,minus)",
    "Sub from zero": "m=Sub(zero,x) e=Exp(m) p=Add(o,e) y=Div(o,p)",
    "Tanh": "m=Mul(x,h) t=Tanh(m) p=Mul(t,h) y=Add(p,h)",
    "Tanh and a sum": "m=Div(x,u) t=Tanh(m) p=Add(t,o) y=Mul(p,h)",
}
NUMBERS = {
    "o": N(1), "h": N(0.5), "u": N(2), "minus": N(-1), "zero": N(0), "three": N(3), "six": N(6), "sixth": N(1 / 6),
    "s5": N(1.41421), "fifth": N(0.2), "quick": N(1.702), "negative": N(-1.702), **ROOT, **ERF,
}  # fmt: skip
HARD_SWISHES = {
    "Clip, divided last": "a=Add(x,three) c=Clip(a,zero,six) p=Mul(x,c) y=Div(p,six)",
    "Clip, divided first": "a=Add(three,x) c=Clip(a,zero,six) p=Div(c,six) y=Mul(p,x)",
    "x divided": "a=Add(x,three) c=Clip(a,zero,six) p=Mul(x,sixth) y=Mul(p,c)",
    "Min of Relu": "a=Add(x,three) b=Relu(a) c=Min(b,six) p=Mul(c,sixth) y=Mul(x,p)",
    "Min of Max": "a=Add(x,three) b=Max(a,zero) c=Min(b,six) p=Mul(x,c) y=Mul(p,sixth)",
    "Max of Min": "a=Add(x,three) b=Min(a,six) c=Max(b,zero) p=Mul(x,c) y=Mul(p,sixth)",
    "clip of a line": "b=Mul(x,sixth) a=Add(b,h) c=Clip(a,zero,o) y=Mul(x,c)",
}
HARD_SIGMOIDS = {
    "relu6": ("a=Add(x,three) c=Clip(a,zero,six) y=Div(c,six)", 1 / 6),
    "Keras": ("b=Mul(x,fifth) a=Add(b,h) y=Clip(a,zero,o)", 0.2),
}
MISHES = {
    "Softplus": "p=Softplus(x) t=Tanh(p) y=Mul(x,t)",
    "spelled": "e=Exp(x) a=Add(e,o) l=Log(a) t=Tanh(l) y=Mul(t,x)",
}
STABLE = "a=Abs(x) m=Neg(a) e=Exp(m) p=Add(o,e) l=Log(p) r2=Relu(x) y=Add(r2,l)"


def _check(bench, body: str, wanted: list[str], opset: int = 13, shape: str = "float[1,20]"):
    used = {k: v for k, v in NUMBERS.items() if f",{k})" in body or f"({k}," in body or f",{k}," in body}
    net = bench.net(f"g ({shape} x) => ({shape} y) {{ {body} }}", opset, **used)
    net.ir_version = 11 if opset > 22 else net.ir_version
    model = bench.model(net)
    result = clean(model)
    assert [n.op for n in model.graph.nodes] == wanted, [f for r in result.records for f in r.refusals]
    expected, found = run_plain(net, {"x": FAR})[0], run_plain(model.to_proto(), {"x": FAR})[0]
    assert np.isfinite(found).all() == np.isfinite(expected).all()
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    limit = ROUNDING * np.maximum(1, np.abs(FAR))
    assert (np.abs(found - expected)[finite] <= limit[finite]).all()
    return model, result


@pytest.mark.parametrize("name", GELUS)
def test_gelu_by_erf(name, bench):
    model, result = _check(bench, GELUS[name], ["Gelu"])
    assert model.graph.nodes[0].attrs["approximate"] == "none"
    assert result.opset_after == 20


def test_gelu_by_a_root_of_five_digits(bench):
    """Another function by no more than a change of its argument by 3e-6."""
    text = "g (float[1,20] x) => (float[1,20] y) { a=Div(x,s5) e=Erf(a) p=Add(e,o) q=Mul(x,p) y=Mul(q,h) }"
    net = bench.net(text, 20, s5=NUMBERS["s5"], o=N(1), h=N(0.5))
    model = bench.model(net)
    clean(model)
    assert [n.op for n in model.graph.nodes] == ["Gelu"]
    difference = run_plain(model.to_proto(), {"x": FAR})[0] - run_plain(net, {"x": FAR})[0]
    assert float(np.abs(difference).max()) <= 3e-6


@pytest.mark.parametrize("name", TANH_GELUS)
def test_gelu_by_tanh(name, bench):
    model, result = _check(bench, TANH_GELUS[name], ["Gelu"])
    assert model.graph.nodes[0].attrs["approximate"] == "tanh"
    assert result.opset_after == 20


@pytest.mark.parametrize("name", SIGMOIDS)
def test_sigmoid(name, bench):
    _check(bench, SIGMOIDS[name], ["Sigmoid"])


@pytest.mark.parametrize("name", SIGMOIDS)
def test_silu_is_a_product_with_a_sigmoid(name, bench):
    body = SIGMOIDS[name].replace(" y=", " g=") + " y=Mul(x,g)"
    _, result = _check(bench, body, ["Sigmoid", "Mul"])
    (refusal,) = (f for r in result.records for f in r.refusals)
    assert refusal.reason == "SiLU: Swish exists from opset 24 on, the net has 13"


def test_silu_as_a_quotient(bench):
    _check(bench, "m=Neg(x) e=Exp(m) p=Add(o,e) y=Div(x,p)", ["Sigmoid", "Mul"])


def test_quick_gelu_as_a_quotient(bench):
    _, result = _check(bench, "m=Mul(x,negative) e=Exp(m) p=Add(o,e) y=Div(x,p)", ["Mul", "Sigmoid", "Mul"])
    (refusal,) = (f for r in result.records for f in r.refusals)
    assert refusal.reason == "QuickGELU: Swish exists from opset 24 on, the net has 13"


@pytest.mark.parametrize(
    ("body", "alpha"), [("s=Sigmoid(x) y=Mul(s,x)", 1.0), ("q=Mul(x,quick) s=Sigmoid(q) y=Mul(x,s)", 1.702)]
)
def test_swish_at_its_opset(body, alpha, bench):
    body = body.replace("s=Sigmoid", "sg=Sigmoid").replace("(s,", "(sg,").replace(",s)", ",sg)")
    model, _ = _check(bench, body, ["Swish"], opset=24)
    assert model.graph.nodes[0].attrs.get("alpha", 1.0) == pytest.approx(alpha)


@pytest.mark.parametrize("name", HARD_SWISHES)
def test_hard_swish(name, bench):
    _, result = _check(bench, HARD_SWISHES[name], ["HardSwish"])
    assert result.opset_after == 14


@pytest.mark.parametrize("name", HARD_SIGMOIDS)
def test_hard_sigmoid(name, bench):
    body, alpha = HARD_SIGMOIDS[name]
    model, _ = _check(bench, body, ["HardSigmoid"])
    assert model.graph.nodes[0].attrs == {"alpha": pytest.approx(alpha), "beta": 0.5}


@pytest.mark.parametrize("name", MISHES)
def test_mish(name, bench):
    _, result = _check(bench, MISHES[name], ["Mish"])
    assert result.opset_after == 18


def test_softplus_that_does_not_overflow(bench):
    _check(bench, STABLE, ["Softplus"])


def test_softplus_of_what_is_limited(bench):
    body = "c=Clip(x,zero,six) e=Exp(c) a=Add(e,o) y=Log(a)"
    _check(bench, body, ["Clip", "Softplus"])


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("c=Greater(x,twenty) z=Softplus(x) y=Where(c,x,z)", ["Softplus"]),
        ("w=Mul(x,u) c=Greater(w,twenty) z=Softplus(w) q=Div(z,u) y=Where(c,x,q)", ["Mul", "Softplus", "Div"]),
        ("c=Greater(x,three) z=Softplus(x) y=Where(c,x,z)", ["Greater", "Softplus", "Where"]),
    ],
)
def test_softplus_with_a_threshold(body, wanted, bench):
    used = {k: v for k, v in {**NUMBERS, "twenty": N(20)}.items() if f",{k})" in body}
    net = bench.net(f"g (float[1,20] x) => (float[1,20] y) {{ {body} }}", 17, **used)
    model = bench.model(net)
    clean(model)
    assert sorted(n.op for n in model.graph.nodes) == sorted(wanted)
    for x in (FAR, np.linspace(16, 24, 20, dtype=N)[None], np.linspace(0, 20, 20, dtype=N)[None]):
        np.testing.assert_array_equal(run_plain(model.to_proto(), {"x": x})[0], run_plain(net, {"x": x})[0])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("e=Exp(x) a=Add(e,o) y=Log(a)", "log(1 + exp(x)) is infinite where exp(x) overflows"),
        ("e=Exp(x) a=Add(o,e) y=Div(e,a)", "exp(x) / (1 + exp(x)) is NaN where exp(x) overflows"),
    ],
)
def test_what_overflows_otherwise_than_the_operator_stays(body, reason, bench):
    net = bench.net(f"g (float[1,20] x) => (float[1,20] y) {{ {body} }}", 17, o=N(1))
    model = bench.model(net)
    result = clean(model)
    assert [n.op for n in model.graph.nodes] == [n.op_type for n in net.graph.node]
    assert [reason in f.reason for r in result.records for f in r.refusals] == [True]


@pytest.mark.parametrize(
    "body",
    [
        "a=Div(x,u) e=Erf(a) p=Add(e,o) q=Mul(x,p) y=Mul(q,h)",  # another root
        "a=Div(x,s) e=Erf(a) p=Add(e,o) y=Mul(x,p)",  # not halved
        "a=Div(x,s) e=Erf(a) p=Sub(o,e) q=Mul(x,p) y=Mul(q,h)",  # mirrored
        "c=Pow(x,u) d=Mul(k,c) i=Add(x,d) j=Mul(i,r) e=Tanh(j) p=Add(e,o) q=Mul(h,x) y=Mul(q,p)",  # a square
        "m=Neg(x) e=Exp(m) p=Add(e,u) y=Reciprocal(p)",  # another summand
        "a=Add(x,u) c=Clip(a,zero,six) p=Mul(x,c) y=Div(p,six)",  # another shift
        "a=Add(x,three) c=Clip(a,o,six) p=Mul(x,c) y=Div(p,six)",  # another limit
        "a=Mul(x,u) c=Clip(a,zero,o) y=Mul(x,c)",  # no hard sigmoid
        "a=Abs(x) m=Neg(a) e=Exp(m) p=Add(o,e) l=Log(p) r2=Abs(x) y=Add(r2,l)",
        "p=Softplus(x) t=Tanh(p) z=Abs(x) y=Mul(z,t)",
    ],
)
def test_what_only_looks_like_it_stays(body, bench):
    used = {k: v for k, v in NUMBERS.items() if f",{k})" in body or f"({k}," in body or f",{k}," in body}
    net = bench.net(f"g (float[1,20] x) => (float[1,20] y) {{ {body} }}", 20, **used)
    model = bench.model(net)
    clean(model)
    recognised = {"Gelu", "Sigmoid", "HardSwish", "HardSigmoid", "Mish"} | (
        {"Softplus"} - {n.op_type for n in net.graph.node}
    )
    assert not recognised & {n.op for n in model.graph.nodes}


def test_a_number_of_more_axes_keeps_the_shape(bench):
    """1 / (1 + exp(-x)) with a 1 of two axes has one axis more than x."""
    body = "m=Neg(x) e=Exp(m) p=Add(e,one2) y=Reciprocal(p)"
    net = bench.net(f"g (float[3] x) => (float[1,3] y) {{ {body} }}", 17, one2=np.ones((1, 1), N))
    model = bench.model(net)
    clean(model)
    x = {"x": np.array([-1, 0, 2], N)}
    np.testing.assert_allclose(run_plain(model.to_proto(), x)[0], run_plain(net, x)[0], rtol=1e-6)


def test_a_group_that_only_a_dead_branch_kept_goes_in_the_same_run(bench):
    """Random case 514: the logarithm was read by a Sigmoid that nobody read."""
    body = STABLE + " n=Neg(l) e2=Exp(n) p2=Add(e2,o) dead=Reciprocal(p2)"
    model = bench.model(bench.net(f"g (float[1,20] x) => (float[1,20] y) {{ {body} }}", 17, o=N(1)))
    assert recognise_sigmoid(model).is_changed
    assert [n.op for n in model.graph.nodes] == ["Softplus"]
    assert not recognise_sigmoid(model).is_changed

"""Norms in the spellings of exporters become one operator; those that only look like one stay, with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from tests.generators.run_plain import run_plain

from fts_converters.lower.group_norm_to_instance_norm import group_norm_to_instance_norm
from fts_converters.passes import clean

# Of the output's largest magnitude: sums of 36 and more float32 numbers in another order, divided by a deviation near 1.
ROUNDING = 1e-5


def noise(*shape: int, seed: int = 0, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


N = np.float32
EPS = {"eps": N(1e-3), "two": N(2), "one": N(1)}
MEAN = "m=ReduceMean<axes=[2,3]>(x) d=Sub(x,m) q=Mul(d,d) v=ReduceMean<axes=[2,3]>(q) e=Add(v,eps)"
GAMMA = {"g": noise(4, 1, 1, low=0.5, high=2), "b": noise(4, 1, 1, seed=1)}
ROW = {"g": noise(8, low=0.5, high=2), "b": noise(8, seed=1)}
IMAGE = "float[2,4,6,6]"

# name: (type of x and y, body, constants)
INSTANCE_NORMS = {
    "Pow for the root": (f"{MEAN} s=Pow(e,h) y=Div(d,s)", {"h": N(0.5)}),
    "Pow for the inverse root": (f"{MEAN} s=Pow(e,h) y=Mul(s,d)", {"h": N(-0.5)}),
    "inverse of a power": (f"{MEAN} s=Pow(e,h) r=Div(one,s) y=Mul(d,r)", {"h": N(0.5)}),
    "sums over the count": (
        """t=ReduceSum(x,a) m=Div(t,n) d=Sub(x,m) q=Pow(d,two) u=ReduceSum(q,a) v=Mul(u,i) e=Add(v,eps) s=Sqrt(e)
        y=Div(d,s)""",
        {"a": np.array([2, 3]), "n": N(36), "i": N(1 / 36)},
    ),
    "sum of squares": (
        "m=ReduceMean<axes=[2,3]>(x) d=Sub(x,m) u=ReduceSumSquare<axes=[2,3]>(d) v=Div(u,n) e=Add(v,eps) s=Sqrt(e) y=Div(d,s)",
        {"n": N(36)},
    ),
    "pooling for the mean": (
        "m=GlobalAveragePool(x) d=Sub(x,m) q=Mul(d,d) v=GlobalAveragePool(q) e=Add(v,eps) s=Sqrt(e) y=Div(d,s)", {},
    ),
    "one axis after the other": (
        """p=ReduceMean<axes=[3]>(x) m=ReduceMean<axes=[2]>(p) d=Sub(x,m) q=Mul(d,d) r=ReduceMean<axes=[2]>(q)
        v=ReduceMean<axes=[3]>(r) e=Add(v,eps) s=Sqrt(e) y=Div(d,s)""", {},
    ),
    "axes put back": (
        """p=ReduceMean<axes=[2,3],keepdims=0>(x) m=Unsqueeze(p,a) d=Sub(x,m) q=Mul(d,d)
        r=ReduceMean<axes=[2,3],keepdims=0>(q) v=Reshape(r,k) e=Add(v,eps) s=Sqrt(e) y=Div(d,s)""",
        {"a": np.array([2, 3]), "k": np.array([2, 4, 1, 1])},
    ),
    "difference by Neg, and reversed": (
        """m=ReduceMean<axes=[2,3]>(x) k=Neg(m) d=Add(x,k) c=Sub(m,x) q=Mul(c,c) v=ReduceMean<axes=[2,3]>(q) e=Add(eps,v)
        s=Sqrt(e) y=Div(d,s)""", {},
    ),
    "scale and shift behind": (f"{MEAN} s=Sqrt(e) n=Div(d,s) z=Mul(g,n) y=Add(b,z)", GAMMA),
    "scale inside of the factor": (f"{MEAN} s=Sqrt(e) r=Reciprocal(s) f=Mul(g,r) z=Mul(d,f) y=Add(z,b)", GAMMA),
    "scale on the difference": (f"{MEAN} s=Sqrt(e) c=Mul(g,d) z=Div(c,s) y=Add(z,b)", GAMMA),
    "TensorFlow's batch_normalization": (
        f"{MEAN} s=Sqrt(e) r=Reciprocal(s) f=Mul(r,g) p=Mul(x,f) t=Mul(m,f) u=Sub(b,t) y=Add(p,u)", GAMMA,
    ),
    "the same without parameters": (f"{MEAN} s=Sqrt(e) f=Reciprocal(s) p=Mul(f,x) t=Mul(m,f) y=Sub(p,t)", {}),
    "unbiased variance": (
        """m=ReduceMean<axes=[2,3]>(x) d=Sub(x,m) q=Mul(d,d) w=ReduceMean<axes=[2,3]>(q) u=Mul(w,n) v=Div(u,k) e=Add(v,eps)
        s=Sqrt(e) n2=Div(d,s) z=Mul(n2,g) y=Add(z,b)""", {**GAMMA, "n": N(36), "k": N(35)},
    ),
    "AdaIN: statistics of the flattened planes, expanded": (
        """f=Reshape(x,flat) mf=ReduceMean<axes=[2]>(f) df=Sub(f,mf) q=Mul(df,df) w=ReduceMean<axes=[2],keepdims=0>(q)
        u=Mul(w,n) v=Div(u,k) e=Add(v,eps) r=Sqrt(e) s=Reshape(r,kept) p=ReduceMean<axes=[2],keepdims=0>(f)
        m=Reshape(p,kept) me=Expand(m,full) se=Expand(s,full) d=Sub(x,me) y=Div(d,se)""",
        {"flat": np.array([2, 4, -1]), "kept": np.array([2, 4, 1, 1]), "full": np.array([2, 4, 6, 6]), "n": N(36), "k": N(35)},
    ),
    "behind an operator: constants go into its own": ("i=InstanceNormalization(x,c,c) z=Mul(i,g) y=Add(z,b)",
        {**GAMMA, "c": noise(4, low=0.5, high=2)}),
}  # fmt: skip


def _check(bench, text: str, wanted: list[str], opset: int = 17, offset: float = 0.0, **constants: np.ndarray):
    net = bench.net(text, opset, **constants)
    model = bench.model(net)
    result = clean(model)
    assert [n.op for n in model.graph.nodes] == wanted, [f for r in result.records for f in r.refusals]
    shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in net.graph.input]
    names = [i.name for i in net.graph.input]
    for scale in (1.0, 1e-3, 100.0):
        feeds = {
            n: noise(*s, seed=7 + k) * N(scale) + N(offset) for k, (n, s) in enumerate(zip(names, shapes, strict=True))
        }
        expected, found = run_plain(net, feeds)[0], run_plain(model.to_proto(), feeds)[0]
        assert float(np.abs(expected - found).max()) <= ROUNDING * float(np.abs(expected).max())
    return model, result


@pytest.mark.parametrize("name", INSTANCE_NORMS)
def test_an_instance_norm_is_recognised(name, bench):
    body, constants = INSTANCE_NORMS[name]
    used = {k: v for k, v in {**EPS, **constants}.items() if f"({k}," in body or f",{k})" in body or f",{k}," in body}
    _check(bench, f"g ({IMAGE} x) => ({IMAGE} y) {{ {body} }}", ["InstanceNormalization"], **used)


def test_live_parameters_of_an_unbiased_norm_stay_behind_it(bench):
    text = f"""g ({IMAGE} x, float[1,4,1,1] g) => ({IMAGE} y) {{ m=ReduceMean<axes=[2,3]>(x) d=Sub(x,m) q=Mul(d,d)
        w=ReduceMean<axes=[2,3]>(q) v=Mul(w,n) e=Add(v,eps) s=Sqrt(e) z=Div(d,s) y=Mul(z,g) }}"""
    _check(bench, text, ["InstanceNormalization", "Mul"], n=N(36 / 35), eps=N(1e-3))


@pytest.mark.parametrize(
    "body",
    [
        "t=ReduceSum(x,a) m=Mul(t,i) d=Sub(x,m) q=Pow(d,two) v=ReduceMean<axes=[-1]>(q) e=Add(v,eps) s=Pow(e,h) n=Mul(d,s)",
        """m=ReduceMean<axes=[-1]>(x) d=Sub(x,m) c=Sub(x,m) q=Mul(c,c) v=ReduceMean<axes=[2]>(q) e=Add(v,eps) s=Pow(e,h)
        f=Mul(s,one) n=Mul(d,f)""",
    ],
)
@pytest.mark.parametrize("opset", [13, 17])
def test_a_layer_norm_is_recognised_at_its_opset(body, opset, bench):
    given = {**EPS, **ROW, "a": np.array([-1]), "i": N(1 / 8), "h": N(-0.5)}
    if "one" in body:
        body = body.replace(" f=Mul(s,one) n=Mul(d,f)", " n=Mul(d,s)")
    used = {k: v for k, v in given.items() if f",{k})" in body or k in "gb"}
    text = f"g (float[2,5,8] x) => (float[2,5,8] y) {{ {body} z=Mul(n,g) y=Add(z,b) }}"
    _, result = _check(bench, text, ["LayerNormalization"], opset=opset, **used)
    assert result.opset_after == 17


GROUPS = {"flat": np.array([0, 2, -1]), "back": np.array([2, 4, 6, 6]), "i1": np.ones(2, N), "i0": np.zeros(2, N)}
GROUP_NORMS = {
    "as torch exports it": ("r=Reshape(x,flat) i=InstanceNormalization(r,i1,i0) k=Reshape(i,back) z=Mul(k,g) y=Add(z,b)", GAMMA),
    "without parameters": ("r=Reshape(x,flat) i=InstanceNormalization(r,i1,i0) y=Reshape(i,back)", {}),
    "with parameters per group, too": (
        "r=Reshape(x,flat) i=InstanceNormalization(r,s2,t2) k=Reshape(i,back) z=Mul(k,g) y=Add(z,b)",
        {**GAMMA, "s2": noise(2, low=0.5, high=2), "t2": noise(2)},
    ),
    "shifted alone": ("r=Reshape(x,flat) i=InstanceNormalization(r,i1,i0) k=Reshape(i,back) y=Add(k,b)", {"b": GAMMA["b"]}),
    "by means": (
        """r=Reshape(x,five) m=ReduceMean<axes=[2,3,4]>(r) d=Sub(r,m) q=Mul(d,d) v=ReduceMean<axes=[2,3,4]>(q) e=Add(v,eps)
        s=Sqrt(e) i=Div(d,s) k=Reshape(i,back) z=Mul(k,g) y=Add(z,b)""",
        {**GAMMA, "eps": N(1e-3), "five": np.array([2, 2, 2, 6, 6])},
    ),
    "scaled in the grouped shape": (
        """r=Reshape(x,five) m=ReduceMean<axes=[2,3,4]>(r) d=Sub(r,m) q=Mul(d,d) v=ReduceMean<axes=[2,3,4]>(q) e=Add(v,eps)
        s=Sqrt(e) i=Div(d,s) z=Mul(i,g5) w=Add(z,b5) y=Reshape(w,back)""",
        {"eps": N(1e-3), "five": np.array([2, 2, 2, 6, 6]), "g5": noise(1, 2, 2, 1, 1), "b5": noise(1, 2, 1, 1, 1)},
    ),
    "of one group": (
        """m=ReduceMean<axes=[1,2,3]>(x) d=Sub(x,m) q=Mul(d,d) v=ReduceMean<axes=[1,2,3]>(q) e=Add(v,eps) s=Sqrt(e)
        n=Div(d,s) z=Mul(n,g) y=Add(z,b)""", {**GAMMA, "eps": N(1e-3)},
    ),
}  # fmt: skip


def _group_net(name: str) -> tuple[str, dict[str, np.ndarray]]:
    body, constants = GROUP_NORMS[name]
    given = {**GROUPS, **constants}
    used = {k: v for k, v in given.items() if f",{k})" in body or f",{k}," in body}
    return f"g ({IMAGE} x) => ({IMAGE} y) {{ {body} }}", used


@pytest.mark.parametrize("name", GROUP_NORMS)
@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_a_group_norm_is_recognised_and_raises_the_opset(name, offset, bench):
    text, used = _group_net(name)
    net = bench.net(text, 13, **used)
    model = bench.model(net)
    result = clean(model)
    assert [n.op for n in model.graph.nodes] == ["GroupNormalization"]
    assert result.opset_after == 21
    x = {"x": noise(2, 4, 6, 6, seed=3) + N(offset)}
    expected, found = run_plain(net, x)[0], run_plain(model.to_proto(), x)[0]
    assert float(np.abs(expected - found).max()) <= ROUNDING * float(np.abs(expected).max())


@pytest.mark.parametrize("name", GROUP_NORMS)
def test_lowered_for_the_cpu_a_group_norm_is_exact_far_from_zero(name, bench):
    """GroupNormalization's own definition loses 1e-3 here; the lowering subtracts the mean first."""
    text, used = _group_net(name)
    net = bench.net(text, 13, **used)
    model = bench.model(net)
    clean(model)
    assert group_norm_to_instance_norm(model).is_changed
    assert "GroupNormalization" not in [n.op for n in model.graph.nodes]
    x = {"x": noise(2, 4, 6, 6, seed=3) + N(100)}
    expected, found = run_plain(net, x)[0], run_plain(model.to_proto(), x)[0]
    # a mean of 100 is known to 100 ulp(1) of the deviation, in either
    assert float(np.abs(expected - found).max()) <= 2e-4 * float(np.abs(expected).max())


def test_live_parameters_of_a_group_norm_are_taken_over(bench):
    text = f"""g ({IMAGE} x, float[1,4,1,1] g, float[1,4,1,1] b) => ({IMAGE} y) {{ r=Reshape(x,flat)
        i=InstanceNormalization(r,i1,i0) k=Reshape(i,back) z=Mul(k,g) y=Add(z,b) }}"""
    _check(bench, text, ["Reshape", "Reshape", "GroupNormalization"], opset=13, **GROUPS)


def test_a_channel_a_group_is_an_instance_norm_at_any_opset(bench):
    text = f"""g ({IMAGE} x) => ({IMAGE} y) {{ r=Reshape(x,flat) i=InstanceNormalization(r,i1,i0) k=Reshape(i,back)
        z=Mul(k,g) y=Add(z,b) }}"""
    given = {"flat": np.array([0, 4, -1]), "back": GROUPS["back"], "i1": np.ones(4, N), "i0": np.zeros(4, N)}
    _, result = _check(bench, text, ["InstanceNormalization"], opset=13, **given, **GAMMA)
    assert result.opset_after == 13


RMS = {
    "Div": "q=Pow(x,two) v=ReduceMean<axes=[-1]>(q) e=Add(v,eps) s=Sqrt(e) n=Div(x,s) y=Mul(n,g)",
    "Reciprocal": "q=Mul(x,x) v=ReduceMean<axes=[-1]>(q) e=Add(v,eps) s=Sqrt(e) r=Reciprocal(s) n=Mul(x,r) y=Mul(g,n)",
    "Pow": "q=Pow(x,two) v=ReduceMean<axes=[-1]>(q) e=Add(v,eps) s=Pow(e,h) n=Mul(x,s) y=Mul(n,g)",
    "scale first": "q=Pow(x,two) v=ReduceMean<axes=[-1]>(q) e=Add(v,eps) s=Pow(e,h) f=Mul(s,g) y=Mul(x,f)",
}


def _rms_net(bench, name: str, opset: int):
    given = {**EPS, "g": ROW["g"], "h": N(-0.5), "k": np.array([-1])}
    body = RMS[name] if opset < 18 else RMS[name].replace("ReduceMean<axes=[-1]>(q)", "ReduceMean(q,k)")
    used = {k: v for k, v in given.items() if f",{k})" in body or f"({k}," in body}
    net = bench.net(f"g (float[2,5,8] x) => (float[2,5,8] y) {{ {body} }}", opset, **used)
    net.ir_version = 11 if opset > 22 else net.ir_version
    return net


@pytest.mark.parametrize("name", RMS)
def test_a_root_mean_square_norm_is_reported_below_its_opset(name, bench):
    model = bench.model(_rms_net(bench, name, 17))
    result = clean(model)
    (refusal,) = (f for r in result.records for f in r.refusals)
    assert refusal.reason == "a root-mean-square norm: RMSNormalization exists from opset 23 on, the net has 17"
    assert refusal.needs_opset == 23
    assert result.opset_after == 17


@pytest.mark.parametrize("name", RMS)
def test_a_root_mean_square_norm_is_recognised_at_its_opset(name, bench):
    net = _rms_net(bench, name, 23)
    model = bench.model(net)
    clean(model)
    assert [n.op for n in model.graph.nodes] == ["RMSNormalization"]
    x = {"x": noise(2, 5, 8)}
    np.testing.assert_allclose(run_plain(model.to_proto(), x)[0], run_plain(net, x)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "m=ReduceMean<axes=[-1]>(x) d=Sub(x,m) q=Mul(d,d) v=ReduceMean<axes=[-1]>(q) s=Sqrt(v) e=Add(s,eps) y=Div(d,e)",
            "adds epsilon to the deviation",
        ),
        (
            """m=ReduceMean<axes=[-1]>(x) d=Sub(x,m) q=Mul(x,x) p=ReduceMean<axes=[-1]>(q) k=Mul(m,m) v=Sub(p,k) e=Add(v,eps)
            s=Sqrt(e) y=Div(d,s)""",
            "mean(x^2) - mean^2, which cancels",
        ),
        (
            "m=ReduceMean<axes=[-1]>(x) d=Sub(x,m) q=Mul(d,d) v=ReduceMean<axes=[-1]>(q) e=Max(v,eps) s=Sqrt(e) y=Div(d,s)",
            "limits the deviation from below",
        ),
        (
            "m=ReduceMean<axes=[-1]>(x) d=Sub(x,m) q=Mul(d,d) v=ReduceMean<axes=[-1]>(q) s=Sqrt(v) y=Div(d,s)",
            "without epsilon",
        ),
        (
            "m=ReduceMean<axes=[1]>(x) d=Sub(x,m) q=Mul(d,d) v=ReduceMean<axes=[1]>(q) e=Add(v,eps) s=Sqrt(e) y=Div(d,s)",
            "over axis 1 of 3",
        ),
    ],
)
def test_what_only_looks_like_a_norm_stays_with_the_reason(body, reason, bench):
    net = bench.net(
        f"g (float[2,5,8] x) => (float[2,5,8] y) {{ {body} }}", 17, **({"eps": EPS["eps"]} if "eps" in body else {})
    )
    model = bench.model(net)
    result = clean(model)
    assert sorted(n.op for n in model.graph.nodes) == sorted(n.op_type for n in net.graph.node)
    assert [reason in f.reason for r in result.records for f in r.refusals] == [True]


@pytest.mark.parametrize(
    "body",
    [
        # another axis for the variance, another tensor for the mean, a variance of something else
        "m=ReduceMean<axes=[2,3]>(x) d=Sub(x,m) q=Mul(d,d) v=ReduceMean<axes=[1]>(q) e=Add(v,eps) s=Sqrt(e) y=Div(d,s)",
        """m=ReduceMean<axes=[2,3]>(x) a=Abs(x) d=Sub(a,m) q=Mul(d,d) v=ReduceMean<axes=[2,3]>(q) e=Add(v,eps) s=Sqrt(e)
        y=Div(d,s)""",
        "m=ReduceMean<axes=[2,3]>(x) d=Sub(x,m) q=Mul(d,x) v=ReduceMean<axes=[2,3]>(q) e=Add(v,eps) s=Sqrt(e) y=Div(d,s)",
        "m=ReduceMean<axes=[2,3]>(x) d=Sub(x,m) q=Pow(d,three) v=ReduceMean<axes=[2,3]>(q) e=Add(v,eps) s=Sqrt(e) y=Div(d,s)",
        "t=ReduceSum(x,a) d=Sub(x,t) q=Mul(d,d) v=ReduceMean<axes=[2,3]>(q) e=Add(v,eps) s=Sqrt(e) y=Div(d,s)",
    ],
)
def test_what_is_no_norm_stays(body, bench):
    given = {"eps": EPS["eps"], "three": N(3), "a": np.array([2, 3])}
    used = {k: v for k, v in given.items() if f",{k})" in body}
    net = bench.net(f"g ({IMAGE} x) => ({IMAGE} y) {{ {body} }}", 17, **used)
    model = bench.model(net)
    clean(model)
    assert [n.op for n in model.graph.nodes] == [n.op_type for n in net.graph.node]


@pytest.mark.parametrize("body", [MEAN + " s=Sqrt(e) n=Div(d,s)", "n=InstanceNormalization(x,c,c)"])
def test_a_scale_in_a_branch_is_none_of_the_norm(body, bench):
    text = f"""g ({IMAGE} x, bool f) => ({IMAGE} y) {{ {body} y=If(f)<
        then_branch=t () => ({IMAGE} p) {{ p=Mul(n,g) }}, else_branch=u () => ({IMAGE} w) {{ w=Neg(x) }}> }}"""
    given = {"eps": EPS["eps"], "g": GAMMA["g"]} if "eps" in body else {"c": noise(4), "g": GAMMA["g"]}
    net = bench.net(text, 17, **given)
    model = bench.model(net)
    clean(model)
    assert sorted(n.op for n in model.graph.nodes) == ["If", "InstanceNormalization"]
    x = {"x": noise(2, 4, 6, 6), "f": np.array(True)}
    np.testing.assert_allclose(run_plain(model.to_proto(), x)[0], run_plain(net, x)[0], atol=1e-5)


def test_nodes_without_a_name_are_lowered_under_different_names(bench):
    """Random case 1784: onnxruntime refuses two nodes of one name."""
    text = f"""g ({IMAGE} x) => ({IMAGE} y) {{ a=GroupNormalization<num_groups=2>(x,c,c)
        y=GroupNormalization<num_groups=4>(a,c,c) }}"""
    net = bench.net(text, 21, c=noise(4, low=0.5, high=2))
    model = bench.model(net)
    for node in model.graph.nodes:
        node.name = ""
    assert group_norm_to_instance_norm(model).is_changed
    x = {"x": noise(2, 4, 6, 6)}
    expected = run_plain(net, x)[0]
    np.testing.assert_allclose(
        run_plain(model.to_proto(), x)[0], expected, atol=ROUNDING * float(np.abs(expected).max())
    )

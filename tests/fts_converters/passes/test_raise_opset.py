"""Raising the opset keeps the function, the graph object and its names; what cannot be raised stays, with the reason."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import defs, version_converter
from tests.generators.laws import is_within, model_of
from tests.generators.random_graphs import random_graph
from tests.generators.run_plain import run_plain
from tests.generators.tolerance import tolerance

from fts_converters.passes import clean
from fts_converters.passes.raise_opset import RULES, raise_opset
from fts_converters.upgrade_opset import NEWEST_OPSET, OLDEST_OPSET

RANDOM = np.random.default_rng(0)
IMAGE = RANDOM.standard_normal((1, 4, 6, 6)).astype(np.float32)
GRID = RANDOM.uniform(-1, 1, (1, 3, 3, 2)).astype(np.float32)
# Attributes that are new, whose default is what the operator did before, or that a net of an older opset does not reach.
HARMLESS_ATTRIBUTES = {
    "AveragePool": {"dilations"},
    "BatchNormalization": {"training_mode"},
    "Cast": {"saturate"},
    "CastLike": {"saturate"},
    "DequantizeLinear": {"block_size"},
    "GRU": {"layout"},
    "LSTM": {"layout"},
    "LpPool": {"ceil_mode", "dilations"},
    "QuantizeLinear": {"saturate", "block_size", "output_dtype"},
    "RNN": {"layout"},
    "Reshape": {"allowzero"},
    "Resize": {"antialias", "axes", "keep_aspect_ratio_policy"},
    "ScatterElements": {"reduction"},
    "ScatterND": {"reduction"},
    "Shape": {"start", "end"},
}


def _ops_by_change() -> dict[str, tuple[defs.OpSchema, defs.OpSchema]]:
    """Operators with another definition in a newer opset: (at OLDEST_OPSET or when it came, at NEWEST_OPSET)."""
    first: dict[str, defs.OpSchema] = {}
    for schema in sorted(defs.get_all_schemas_with_history(), key=lambda s: s.since_version):
        is_wanted = schema.domain == "" and schema.since_version <= NEWEST_OPSET
        if is_wanted and (schema.since_version <= OLDEST_OPSET or schema.name not in first):
            first[schema.name] = schema
    newest = {name: defs.get_schema(name, NEWEST_OPSET) for name in first}
    return {n: (s, newest[n]) for n, s in first.items() if newest[n].since_version != s.since_version}


@pytest.mark.parametrize("name", sorted(_ops_by_change()))
def test_every_change_of_an_operator_has_a_rule_or_does_no_harm(name: str) -> None:
    old, new = _ops_by_change()[name]
    if any(name in rule.ops for rule in RULES):
        return
    assert set(old.attributes) <= set(new.attributes)
    assert set(new.attributes) - set(old.attributes) <= HARMLESS_ATTRIBUTES.get(name, set())
    for attribute, declared in old.attributes.items():
        assert declared.default_value == new.attributes[attribute].default_value
    assert len(old.inputs) <= len(new.inputs)
    added = new.inputs[len(old.inputs) :]
    assert all(i.option == defs.OpSchema.FormalParameterOption.Optional for i in added)
    types = {c.type_param_str: set(c.allowed_type_strs) for c in new.type_constraints}
    for constraint in old.type_constraints:
        assert set(constraint.allowed_type_strs) <= types.get(
            constraint.type_param_str, set(constraint.allowed_type_strs)
        )


def _check_raised(seed: int, targets: range) -> int:
    case = random_graph(seed)
    if case.opset < OLDEST_OPSET:
        return 0
    reference = run_plain(case.model, case.feeds)
    bounds = tolerance(case, reference)
    count = 0
    for target in targets:
        if target <= case.opset:
            continue
        model = model_of(case)
        graph, names = model.graph, [n.name for n in model.graph.nodes]
        assert raise_opset(model, target) == ()
        assert model.graph is graph
        assert [n.name for n in graph.nodes] == names
        after = model.to_proto()
        assert [o.version for o in after.opset_import if not o.domain] == [target]
        onnx.checker.check_model(after, full_check=True)
        for r, y, bound in zip(reference, run_plain(after, case.feeds), bounds, strict=True):
            assert r.shape == y.shape
            assert is_within(y, r, bound), (case, target)
        count += 1
    return count


def test_random_graphs_keep_their_function_at_each_newer_opset() -> None:
    assert sum(_check_raised(seed, range(14, 22)) for seed in range(60)) >= 100


@pytest.mark.slow
def test_more_random_graphs_keep_their_function_at_the_newest_opset() -> None:
    assert sum(_check_raised(seed, range(NEWEST_OPSET, NEWEST_OPSET + 1)) for seed in range(60, 1000)) >= 400


# onnx 1.23's converter gives the axes in a branch and those outside of it one name, which onnxruntime refuses.
TWICE_NAMED = "axes of reductions, in branches too"
CASES = {
    TWICE_NAMED: (
        """g (float[1,4,6,6] x, bool c) => (float[1,4,1,1] y) { m=ReduceMean<axes=[2,3]>(x) y=If(c)<
            then_branch=t () => (float[1,4,1,1] q) { p=ReduceMax<axes=[2,3]>(x) q=Add(p,m) },
            else_branch=e () => (float[1,4,1,1] r) { r=ReduceMin<axes=[2,3]>(x) }> }""",
        13, {}, {"x": IMAGE, "c": np.array(True)},
    ),
    "reduction of all": ("g (float[1,4,6,6] x) => (float[1,1,1,1] y) { y=ReduceSumSquare(x) }", 13, {}, {"x": IMAGE}),
    "equal parts": (
        "g (float[1,4,6,6] x) => (float[1,2,6,6] y, float[1,2,6,6] z) { y,z=Split<axis=1>(x) }", 13, {}, {"x": IMAGE},
    ),
    "given parts": (
        "g (float[1,4,6,6] x) => (float[1,1,6,6] y, float[1,3,6,6] z) { y,z=Split<axis=1>(x,s) }",
        13, {"s": np.array([1, 3])}, {"x": IMAGE},
    ),
    "regions": (
        "g (float[1,4,6,6] x) => (float[1,4,2,2] y) { y=RoiAlign<output_height=2,output_width=2,sampling_ratio=2>(x,r,i) }",
        13, {"r": np.array([[0.3, 0.4, 3.7, 4.2]], np.float32), "i": np.array([0])}, {"x": IMAGE},
    ),
    "cubic grid": (
        'g (float[1,4,6,6] x, float[1,3,3,2] k) => (float[1,4,3,3] y) { y=GridSample<mode="bicubic">(x,k) }',
        16, {}, {"x": IMAGE, "k": GRID},
    ),
    "nearest grid": (
        'g (float[1,4,6,6] x, float[1,3,3,2] k) => (float[1,4,3,3] y) { y=GridSample<mode="nearest">(x,k) }',
        16, {}, {"x": IMAGE, "k": GRID},
    ),
    "default grid": (
        "g (float[1,4,6,6] x, float[1,3,3,2] k) => (float[1,4,3,3] y) { y=GridSample(x,k) }",
        16, {}, {"x": IMAGE, "k": GRID},
    ),
    "axis of a transform": ("g (float[1,6,1] x) => (float[1,6,2] y) { y=DFT(x) }", 17, {}, {"x": IMAGE[0, :1, :, :1]}),
    "another domain": (
        "g (float[1,4,6,6] x) => (float[1,4,1,1] y) { a=com.microsoft.Gelu(x) y=ReduceL2<axes=[2,3]>(a) }",
        13, {}, {"x": IMAGE},
    ),
    "empty inputs": ("g (float[1,4,6,6] x) => (float[1,4,6,6] y) { y=Clip(x,,m) }", 13, {"m": np.float32(0.5)}, {"x": IMAGE}),
    "coordinates": (
        'g (float[1,4,6,6] x) => (float[1,4,9,12] y) { y=Resize<mode="linear">(x,,s) }',
        13, {"s": np.array([1, 1, 1.5, 2], np.float32)}, {"x": IMAGE},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_operator_that_changed_computes_the_same(name, bench):
    text, opset, constants, feeds = CASES[name]
    net = bench.net(text, opset, **constants)
    model = bench.model(net)
    assert raise_opset(model, NEWEST_OPSET) == ()
    after = model.to_proto()
    onnx.checker.check_model(after, full_check=True)
    expected = run_plain(net, feeds)
    for a, b in zip(expected, run_plain(after, feeds), strict=True):
        np.testing.assert_array_equal(b, a)
    if name == TWICE_NAMED:
        return
    converted = version_converter.convert_version(net, NEWEST_OPSET)
    for a, b in zip(expected, run_plain(converted, feeds), strict=True):
        np.testing.assert_array_equal(b, a)


def test_parameters_of_a_group_norm_become_one_a_channel(bench):
    text = "g (float[1,4,6,6] x) => (float[1,4,6,6] y) { y=GroupNormalization<num_groups=2>(x,s,b) }"
    given = {"s": np.array([1, 2], np.float32), "b": np.array([0.1, 0.2], np.float32)}
    model = bench.model(bench.net(text, 18, **given))
    assert raise_opset(model, 21) == ()
    rows = IMAGE.reshape(1, 2, -1).astype(np.float64)
    rows = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)
    expected = (rows * given["s"][None, :, None] + given["b"][None, :, None]).reshape(IMAGE.shape)
    np.testing.assert_allclose(run_plain(model.to_proto(), {"x": IMAGE})[0], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "opset", "reason"),
    [
        (
            "g (float[1,4,6,6] x, float[2] s) => (float[1,4,6,6] y) { y=GroupNormalization<num_groups=2>(x,s,s) }", 18,
            "the net cannot be raised to opset 21: scale and bias of this GroupNormalization are one a group, and computed",
        ),
        (
            """g (float[1,4,6,6] x, float[4] s) => (float[1,4,6,6] y, float[4] m, float[4] v) {
                y,m,v=BatchNormalization(x,s,s,s,s) }""", 13,
            "the net cannot be raised to opset 21: this BatchNormalization writes statistics, as in training",
        ),
        ("g (float[1,4] x) => (float[1,4] y) { y=Relu(x) }", 12, "nets are raised from 13 on"),
    ],
)  # fmt: skip
def test_what_cannot_be_raised_stays_as_it_was(text, opset, reason, bench):
    model = bench.model(bench.net(text, opset))
    before = model.to_proto().SerializeToString(deterministic=True)
    (refusal,) = raise_opset(model, 21)
    assert reason in refusal.reason
    assert model.opset == opset
    assert model.to_proto().SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("wanted", [13, 17, NEWEST_OPSET + 1])
def test_an_opset_out_of_range_is_a_wrong_call(wanted, bench):
    with pytest.raises(ValueError, match="cannot be raised"):
        raise_opset(bench.model(bench.net("g (float[1,4] x) => (float[1,4] y) { y=Relu(x) }", 17)), wanted)


GELU = """g (float[1,9] x) => (float[1,9] y{more}) {{ a=Div(x,s) e=Erf(a) p=Add(e,o) q=Mul(x,p) y=Mul(q,h) {extra} }}"""
GELU_NUMBERS = {"s": np.float32(2**0.5), "o": np.float32(1), "h": np.float32(0.5)}


def test_cleaning_raises_the_opset_for_an_operator_and_says_so(bench):
    model = bench.model(bench.net(GELU.format(more="", extra=""), 13, **GELU_NUMBERS))
    result = clean(model)
    assert [n.op for n in model.graph.nodes] == ["Gelu"]
    assert (result.opset_before, result.opset_after, model.opset) == (13, 20, 20)
    record = next(r for r in result.records if r.name == "raise_opset")
    assert record.is_changed
    assert record.refusals == ()
    again = clean(model)
    assert not again.is_changed
    assert (again.opset_before, again.opset_after) == (20, 20)


def test_cleaning_leaves_the_opset_alone_when_told_to(bench):
    model = bench.model(bench.net(GELU.format(more="", extra=""), 13, **GELU_NUMBERS))
    result = clean(model, skip=["raise_opset"])
    assert model.opset == 13
    (refusal,) = (f for r in result.records for f in r.refusals)
    assert refusal.needs_opset == 20
    assert "from opset 20 on, the net has 13" in refusal.reason


def test_a_group_that_cannot_be_recognised_anyway_does_not_raise_the_opset(bench):
    """The sum is read by another node: no Gelu at any opset."""
    model = bench.model(bench.net(GELU.format(more=", float[1,9] z", extra="z=Neg(p)"), 13, **GELU_NUMBERS))
    assert clean(model).opset_after == 13


def test_an_opset_above_the_newest_is_not_asked_for(bench):
    model = bench.model(bench.net("g (float[1,9] x) => (float[1,9] y) { s=Sigmoid(x) y=Mul(x,s) }", 13))
    result = clean(model)
    assert result.opset_after == 13
    assert [f.needs_opset for r in result.records for f in r.refusals] == [24]


def test_a_net_that_cannot_be_raised_is_cleaned_all_the_same(bench):
    text = GELU.format(more=", float[1,4,6,6] z, float[4] m, float[4] v", extra="z,m,v=BatchNormalization(w,c,c,c,c)")
    text = text.replace("float[1,9] x)", "float[1,9] x, float[1,4,6,6] w)")
    model = bench.model(bench.net(text, 13, c=np.ones(4, np.float32), **GELU_NUMBERS))
    result = clean(model)
    assert model.opset == 13
    record = next(r for r in result.records if r.name == "raise_opset")
    assert not record.is_changed
    assert "BatchNormalization writes statistics" in record.refusals[0].reason
    assert not clean(model).is_changed

"""Loops of known length are written out with the same result; the others stay, and say why."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from tests.generators.run_plain import run_plain

from fts.errors import UnsupportedOpError
from fts_converters.passes import clean
from fts_converters.passes.resolve_sequences import resolve_sequences
from fts_converters.passes.unroll_loops import MOST_MADE, unroll_loops
from fts_converters.refuse_loops import refuse_loops

HALVE = """body (int64 i, bool keep, float[4] s) => (bool go, float[4] t, float[4] e) {
    go = Identity(keep) f = Cast<to=1>(i) u = Mul(s, half) t = Add(u, x) e = Add(t, f) }"""
COUNT = """body (int64 i, bool keep, float[4] s, int64 n) => (bool go, float[4] t, int64 next) {
    next = Add(n, one) go = Less(next, limit) u = Mul(s, half) t = Add(u, x) }"""
HALF = {"half": np.float32(0.5)}


def ops(model) -> set[str]:
    return {n.op for n in model.graph.nodes}


def same(bench, net: onnx.ModelProto, model) -> None:
    feed = bench.feeds(net, 1)[0]
    for a, b in zip(run_plain(net, feed), run_plain(model.to_proto(), feed), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)  # the same operators in the same order


def test_a_counted_loop_gives_its_states_and_stacks(bench):
    text = f"g (float[4] x) => (float[4] y, float[3,4] z) {{ y, z = Loop<body = {HALVE}>(m, c, x) }}"
    net = bench.net(text, m=np.array(3), c=np.array(True), **HALF)
    model = bench.model(net)
    assert unroll_loops(model)
    assert ops(model) == {"Identity", "Cast", "Mul", "Add", "Unsqueeze", "Concat"} - {"Identity"}
    same(bench, net, model)
    assert not unroll_loops(model)


@pytest.mark.parametrize("most", [None, 2, 100])
def test_a_condition_on_counters_is_followed_until_it_is_false(bench, most):
    trips = '""' if most is None else "m"
    text = f"g (float[4] x) => (float[4] y) {{ y, k = Loop<body = {COUNT}>({trips}, c, x, zero) }}"
    fixed = {"c": np.array(True), "zero": np.array(0), "one": np.array(1), "limit": np.array(5), **HALF}
    net = bench.net(text, **fixed, **({} if most is None else {"m": np.array(most)}))
    model = bench.model(net)
    unroll_loops(model)
    assert sum(n.op == "Mul" for n in model.graph.nodes) == (2 if most == 2 else 5)
    same(bench, net, model)


def test_no_iteration_leaves_the_start_and_an_empty_stack(bench):
    text = f"g (float[4] x) => (float[4] y, float[K,4] z) {{ a, z = Loop<body = {HALVE}>(m, c, x) y = Neg(a) }}"
    net = bench.net(text, m=np.array(0), c=np.array(True), **HALF)
    model = bench.model(net)
    clean(model)
    assert ops(model) <= {"Neg", "Identity"}
    assert run_plain(model.to_proto(), bench.feeds(net, 1)[0])[1].shape == (0, 4)


def test_a_trip_count_from_the_input_is_refused_by_name(bench):
    text = f"g (float[4] x, int64 m) => (float[4] y) {{ y, z = Loop<body = {HALVE}>(m, c, x) }}"
    model = bench.model(bench.net(text, c=np.array(True), **HALF))
    cleaned = clean(model)
    with pytest.raises(
        UnsupportedOpError, match=r"Loop_0.*trip count is computed from the input.*fixed number"
    ) as error:
        refuse_loops(model, cleaned, engine="onnxruntime-cpu")
    assert (error.value.node, error.value.op_type) == ("Loop_0", "Loop")


def test_a_condition_from_the_input_is_refused(bench):
    body = """body (int64 i, bool keep, float[4] s) => (bool go, float[4] t) {
        t = Mul(s, half) r = ReduceSum<keepdims=0>(t) go = Less(r, half) }"""
    text = f"g (float[4] x) => (float[4] y) {{ y = Loop<body = {body}>(m, c, x) }}"
    model = bench.model(bench.net(text, m=np.array(9), c=np.array(True), **HALF))
    (refusal,) = unroll_loops(model).refusals
    assert "starts from a value computed from the input" in refusal.reason


def test_too_many_nodes_are_refused_with_the_numbers(bench):
    text = f"g (float[4] x) => (float[4] y) {{ y, z = Loop<body = {HALVE}>(m, c, x) }}"
    model = bench.model(bench.net(text, m=np.array(MOST_MADE), c=np.array(True), **HALF))
    (refusal,) = unroll_loops(model).refusals
    assert f"{MOST_MADE} iterations of 5 nodes make {5 * MOST_MADE}" in refusal.reason
    assert ops(model) == {"Loop"}


def test_an_endless_condition_is_refused(bench):
    text = f'g (float[4] x) => (float[4] y) {{ y, k = Loop<body = {COUNT}>("", c, x, zero) }}'
    fixed = {"c": np.array(True), "zero": np.array(0), "one": np.array(0), "limit": np.array(5), **HALF}
    (refusal,) = unroll_loops(bench.model(bench.net(text, **fixed))).refusals
    assert "and at most" in refusal.reason


def test_two_bodies_with_constants_of_one_name_keep_their_own(bench):
    body = """body (int64 i, bool keep, float[4] s) => (bool go, float[4] t) <float w = {%s}> {
        go = Identity(keep) t = Mul(s, w) }"""
    text = f"""g (float[4] x) => (float[4] y) {{ a = Loop<body = {body % "2"}>(m, c, x)
        y = Loop<body = {body.replace("go", "gone").replace("t =", "v =").replace("[4] t", "[4] v") % "3"}>(m, c, a) }}"""
    net = bench.net(text, m=np.array(2), c=np.array(True))
    model = bench.model(net)
    unroll_loops(model)
    x = np.ones(4, np.float32)
    np.testing.assert_array_equal(run_plain(model.to_proto(), {"x": x})[0], 36 * x)


def test_a_scan_walks_axes_and_directions(bench):
    body = "body (float[2] s, float[2] p) => (float[2] t, float[2] e) { t = Add(s, p) e = Mul(t, half) }"
    text = f"""g (float[2,3] x) => (float[2] y, float[2,3] z) {{
        y, z = Scan<num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[1],
        scan_output_directions=[1], body = {body}>(s0, x) }}"""
    net = bench.net(text, s0=np.zeros(2, np.float32), **HALF)
    model = bench.model(net)
    assert unroll_loops(model)
    assert "Scan" not in ops(model)
    same(bench, net, model)


def test_a_list_that_a_loop_appends_to_becomes_a_concat(bench):
    body = """body (int64 i, bool keep, seq(float[4]) s) => (bool go, seq(float[4]) t) {
        go = Identity(keep) f = Cast<to=1>(i) e = Add(x, f) t = SequenceInsert(s, e) }"""
    text = f"""g (float[4] x) => (float[3,4] y) {{ e0 = SequenceEmpty() s = Loop<body = {body}>(m, c, e0)
        y = ConcatFromSequence<axis=0, new_axis=1>(s) }}"""
    net = bench.net(text, m=np.array(3), c=np.array(True))
    model = bench.model(net)
    clean(model)
    assert ops(model) == {"Add", "Unsqueeze", "Concat"}
    same(bench, net, model)


def test_pieces_of_a_split_that_nobody_can_read_leave_no_trace(bench):
    text = """g (float[4] x, int64 at) => (float[N] y) { s = SplitToSequence<axis=0>(x) y = SequenceAt(s, at) }"""
    model = bench.model(bench.net(text))
    before = model.to_proto().SerializeToString(deterministic=True)
    result = resolve_sequences(model)
    assert not result.is_changed
    assert "position 'at' is computed" in result.refusals[0].reason
    assert model.to_proto().SerializeToString(deterministic=True) == before

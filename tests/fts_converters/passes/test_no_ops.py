"""What does nothing goes: parts joined again, pairs that cancel, reductions over ones; and what only looks so stays."""

from __future__ import annotations

import numpy as np
import pytest
from tests.generators.run_plain import run_plain

from fts_converters.passes import clean

K = {
    "i": np.arange(4), "r": np.arange(4)[::-1].copy(), "s": np.array([1, 3]),
    "zero": np.array([0]), "one": np.array([1]), "four": np.array([4]),
}  # fmt: skip
CASES = {
    "split joined": ("a,b = Split<axis=1>(h,s) c = Concat<axis=1>(a,b)", True),
    "split joined in another order": ("a,b = Split<axis=1>(h,s) c = Concat<axis=1>(b,a)", False),
    "slices joined": ("a = Slice(h,zero,one,one) b = Slice(h,one,four,one) c = Concat<axis=1>(a,b)", True),
    "slices with a part twice": ("a = Slice(h,zero,four,one) b = Slice(h,one,four,one) d = Concat<axis=1>(a,b) "
                                 "c = Slice(d,zero,four,one)", False),
    "neg twice": ("a = Neg(h) c = Neg(a)", True),
    "reciprocal twice": ("a = Reciprocal(h) c = Reciprocal(a)", False),
    "gather of all": ("c = Gather<axis=1>(h,i)", True),
    "gather backwards": ("c = Gather<axis=1>(h,r)", False),
    "mean over one": ("c = ReduceMean<axes=[0]>(h)", True),
    "dropout with a mask": ("c,mask = Dropout(h)", True),
    "float64 and back": ("a = Cast<to=11>(h) c = Cast<to=1>(a)", True),
    "float16 and back": ("a = Cast<to=10>(h) c = Cast<to=1>(a)", False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_no_op_goes_and_its_likes_stay(bench, name):
    body, is_no_op = CASES[name]
    net = bench.net(f"g (float[1,4] x) => (float[1,4] y) {{ h = Abs(x) {body} y = Tanh(c) }}", **K)
    model = bench.model(net)
    clean(model)
    assert ([n.op for n in model.graph.nodes] == ["Abs", "Tanh"]) == is_no_op
    feed = bench.feeds(net, 1)[0]
    np.testing.assert_allclose(run_plain(model.to_proto(), feed)[0], run_plain(net, feed)[0], rtol=1e-6)


def test_int64_through_float64_is_not_merged_because_it_rounds(bench):
    net = bench.net("g (int64[1] x) => (int64[1] y) { a = Cast<to=11>(x) b = Cast<to=7>(a) y = Neg(b) }")
    model = bench.model(net)
    clean(model)
    feed = {"x": np.array([2**53 + 1])}
    np.testing.assert_array_equal(run_plain(model.to_proto(), feed)[0], run_plain(net, feed)[0])
    assert [n.op for n in model.graph.nodes] == ["Cast", "Cast", "Neg"]

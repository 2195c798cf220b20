"""A walk gives every tensor as the whole net does, in memory and on disk, on chains and on branches."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

from fts.engines.onnxruntime_session import open_session
from fts_converters.recover import net_walk
from fts_converters.recover.net_walk import NetWalk

TEXT = """g (float[1,4,6,6] x) => (float[1,4,6,6] y) {
    a = Conv<pads=[1,1,1,1]>(x,w) r = Relu(a) s = Add(r,x) wide = Mul(w2,two) b = Conv(s,wide) c = Conv(s,w2)
    d = Sub(b,c) e = Add(d,a) y = Add(e,x) }"""
STEPS = (("a",), ("s", "x"), ("b", "c"), ("e",), ("y",))


@pytest.fixture
def net(bench):
    two = np.array(2.0, np.float32)
    return bench.net(TEXT, w=bench.noise(4, 4, 3, 3), w2=bench.noise(4, 4, 1, 1, seed=1), two=two)


def whole(net, feed) -> dict[str, np.ndarray]:
    watching = type(net)()
    watching.CopyFrom(net)
    del watching.graph.output[:]
    names = [o for n in net.graph.node for o in n.output]
    watching.graph.output.extend(helper.make_tensor_value_info(n, 1, None) for n in names)
    values = open_session(watching.SerializeToString(), is_optimised=False).run(feed)
    return {**dict(zip(names, values, strict=True)), **feed}


@pytest.mark.parametrize("limit_bytes", [0, 1000, 2**28], ids=["disk", "both", "memory"])
def test_steps_give_what_the_whole_net_gives(bench, net, tmp_path, monkeypatch, limit_bytes):
    monkeypatch.setattr(net_walk, "KEPT_LIMIT_BYTES", limit_bytes)
    feeds = bench.feeds(net, 3)
    expected = [whole(net, f) for f in feeds]
    walk = NetWalk(feeds, tmp_path)
    assert walk.samples == 3
    for tensors in STEPS:
        found = list(walk.step(net, tensors))
        for values, reference in zip(found, expected, strict=True):
            assert set(values) == set(tensors)
            for name in tensors:
                np.testing.assert_allclose(values[name], reference[name], atol=1e-4)  # fused and unfused sums
    assert any(tmp_path.iterdir()) == (limit_bytes < 2**28)


def test_constants_may_change_for_nodes_that_have_not_run(bench, net, tmp_path):
    feeds = bench.feeds(net, 2)
    walk = NetWalk(feeds, tmp_path)
    list(walk.step(net, ["s"]))
    other = type(net)()
    other.CopyFrom(net)
    weights = {t.name: t for t in other.graph.initializer}
    weights["w2"].CopyFrom(numpy_helper.from_array(bench.noise(4, 4, 1, 1, seed=9), "w2"))
    weights["w"].CopyFrom(numpy_helper.from_array(np.zeros((4, 4, 3, 3), np.float32), "w"))
    mixed = type(net)()
    mixed.CopyFrom(other)
    {t.name: t for t in mixed.graph.initializer}["w"].CopyFrom(next(t for t in net.graph.initializer if t.name == "w"))
    for values, feed in zip(walk.step(other, ["b", "e"]), feeds, strict=True):
        reference = whole(mixed, feed)
        np.testing.assert_allclose(values["b"], reference["b"], atol=1e-4)  # of the new w2
        np.testing.assert_allclose(values["e"], reference["e"], atol=1e-4)  # and of the old w, whose node has run

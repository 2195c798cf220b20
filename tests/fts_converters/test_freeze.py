from __future__ import annotations

import numpy as np
import pytest

from fts.errors import ShapeError
from fts_converters.freeze import freeze
from fts_converters.model import tensor_specs
from fts_converters.passes import clean

CONV = "g (float[N,3,H,W] x) => (float[N,8,P,Q] y) { h = Conv(x,w) y = Relu(h) }"


def shapes_of(values) -> dict[str, tuple[object, ...]]:
    return {s.name: s.shape for s in tensor_specs(values)}


def test_sizes_become_static_and_outputs_follow(bench):
    model = bench.model(bench.net(CONV, w=bench.noise(8, 3, 3, 3)))
    freeze(model, {"x": (1, 3, 16, 24)}, {})
    clean(model)
    proto = model.to_proto()
    assert shapes_of(proto.graph.input) == {"x": (1, 3, 16, 24)}
    assert shapes_of(proto.graph.output) == {"y": (1, 8, 14, 22)}


def test_stored_shapes_of_another_size_are_dropped(bench):
    text = "g (float[1,3,8,8] x) => (float[1,8,6,6] y) <float[1,8,6,6] h> { h = Conv(x,w) y = Relu(h) }"
    model = bench.model(bench.net(text, w=bench.noise(8, 3, 3, 3)))
    freeze(model, {"x": (1, 3, 16, 16)}, {})
    clean(model)
    proto = model.to_proto()
    assert shapes_of(proto.graph.output) == {"y": (1, 8, 14, 14)}
    assert shapes_of(proto.graph.value_info) == {"h": (1, 8, 14, 14)}
    assert bench.run(proto, {"x": bench.noise(1, 3, 16, 16)})[0].shape == (1, 8, 14, 14)


def test_a_node_that_contradicts_is_named(bench):
    net = bench.net("g (float[1,3,8,8] x) => (float[1,4] y) { f = Flatten(x) y = MatMul(f,k) }", k=bench.noise(192, 4))
    net.graph.node[1].name = "head/fc"
    model = bench.model(net)
    freeze(model, {"x": (1, 3, 8, 8)}, {})
    with pytest.raises(ShapeError) as caught:
        freeze(bench.model(net), {"x": (1, 3, 16, 16)}, {})
    assert "head/fc" in str(caught.value)
    assert "x=1x3x16x16" in str(caught.value)
    assert "--shape" in str(caught.value)


def test_frozen_inputs_become_constants_and_fold_away(bench):
    net = bench.net("g (float[1,4] x, float[1,4] s) => (float[1,4] y) { e = Exp(s) y = Mul(x,e) }")
    model = bench.model(net)
    value = np.array([[0.0, 1.0, 2.0, 3.0]], np.float32)
    freeze(model, {"x": (1, 4), "s": (1, 4)}, {"s": value})
    clean(model)
    proto = model.to_proto()
    assert [i.name for i in proto.graph.input] == ["x"]
    assert [n.op_type for n in proto.graph.node] == ["Mul"]
    x = bench.noise(1, 4)
    np.testing.assert_array_equal(bench.run(proto, {"x": x})[0], bench.run(net, {"x": x, "s": value})[0])


def test_operators_of_known_other_domains_are_no_contradiction(bench):
    model = bench.model(bench.net("g (float[1,3,8,8] x) => (float[1,3,8,8] y) { y = com.microsoft.Gelu(x) }"))
    freeze(model, {"x": (1, 3, 4, 4)}, {})
    assert [i.shape for i in model.graph.inputs] == [[1, 3, 4, 4]]

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper, parser

from fts.engines.onnxruntime_session import open_session
from fts.errors import NonFiniteValueError
from fts_calibration.statistics.collect import Collector, collect_statistics
from fts_calibration.statistics.statistics import Statistics, TensorRange, json_from_statistics, statistics_from_json

TEXT = "g (float[1,3,8,8] x) => (float[1,8,6,6] y, float[1,8,6,6] r) { y = Conv(x,w) r = Relu(y) }"


def net(opset: int = 17, text: str = TEXT, **constants: np.ndarray) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: {8 if opset < 21 else 10}, opset_import: ["" : {opset}]> {text}')
    constants = constants or {"w": np.random.default_rng(5).normal(size=(8, 3, 3, 3)).astype(np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in constants.items())
    return model


def samples(count: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(count)]


def outputs(model: onnx.ModelProto, feeds: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    session = open_session(model.SerializeToString(), threads=1)
    rows = [session.run(f) for f in feeds]
    return {n: np.concatenate([r[i] for r in rows]) for i, n in enumerate(session.output_names)}


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
def test_equals_numpy_exactly_for_inputs_activations_and_outputs(opset):
    model, feeds = net(opset), samples(5)
    found = collect_statistics(model, feeds, ("x", "y", "r"), ["y"])
    seen = {"x": np.concatenate([f["x"] for f in feeds]), **outputs(model, feeds)}
    for name, values in seen.items():
        assert found.ranges[name] == TensorRange(low=float(values.min()), high=float(values.max()))
    low, high = seen["y"].min(axis=(0, 2, 3)), seen["y"].max(axis=(0, 2, 3))
    assert found.channel_ranges == {
        "y": tuple(TensorRange(low=float(a), high=float(b)) for a, b in zip(low, high, strict=True))
    }
    assert found.samples == 5


@given(order=st.permutations(range(6)), cut=st.integers(1, 5))
@settings(max_examples=10, deadline=None)
def test_does_not_depend_on_order_or_partition(order, cut):
    model, feeds = net(), samples(6)
    whole = collect_statistics(model, feeds, ("x", "y"), ["y"])
    assert collect_statistics(model, [feeds[i] for i in order], ("x", "y"), ["y"]) == whole
    parts = [collect_statistics(model, p, ("x", "y"), []) for p in (feeds[:cut], feeds[cut:])]
    for name in ("x", "y"):
        merged = [p.ranges[name] for p in parts]
        assert min(r.low for r in merged) == whole.ranges[name].low
        assert max(r.high for r in merged) == whole.ranges[name].high


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 1, 63, 64, 100, 190, 191])
def test_finds_a_non_finite_value_wherever_it_is(value, place):
    """onnxruntime's ReduceMin and ReduceMax skip NaN in nearly all places."""
    feeds = samples(3)
    feeds[1]["x"].reshape(-1)[place] = value
    with pytest.raises(NonFiniteValueError, match=r"calibration sample 1: tensor 'x' holds NaN or infinity"):
        collect_statistics(net(), feeds, ("y", "r", "x"), ["y"])


def test_names_the_first_tensor_in_graph_order_whatever_the_order_asked():
    text = "g (float[1,3,8,8] x) => (float[1,3,8,8] z) { b = Log(x) a = Neg(b) z = Abs(a) }"
    with pytest.raises(NonFiniteValueError, match="tensor 'b'"):
        collect_statistics(net(17, text, w=np.zeros(1, np.float32)), samples(1), ("a", "z", "b", "x"), [])


def test_large_finite_values_are_no_infinity():
    feeds = [{"x": np.full((1, 3, 8, 8), 3e38, np.float32)}]
    model = net(17, "g (float[1,3,8,8] x) => (float[1,3,8,8] z) { z = Neg(x) }", w=np.zeros(1, np.float32))
    assert collect_statistics(model, feeds, ("x", "z"), []).ranges["z"] == TensorRange(
        low=float(np.float32(-3e38)), high=float(np.float32(-3e38))
    )


def test_a_tensor_without_elements_has_range_zero():
    text = "g (float[1,3,8,8] x) => (float[1,0,8,8] e) { e = Slice(x,o,o,a) }"
    model = net(17, text, o=np.array([0]), a=np.array([1]))
    assert collect_statistics(model, samples(2), ("e",), []).ranges["e"] == TensorRange(low=0.0, high=0.0)


def test_names_in_use_are_not_taken_again():
    body = "bounds_0_ReduceMin = Neg(x) bounds_zero = Abs(bounds_0_ReduceMin)"
    text = f"g (float[1,3,8,8] x) => (float[1,3,8,8] bounds_zero) {{ {body} }}"
    found = collect_statistics(net(17, text, bounds_0_axes=np.array([1])), samples(2), ("x", "bounds_zero"), ["x"])
    assert found.ranges["bounds_zero"].high == max(-found.ranges["x"].low, found.ranges["x"].high)


def test_an_output_that_is_not_float32_is_left_alone():
    text = "g (float[1,3,8,8] x) => (float[1,3,8,8] y, int64[4] s) { y = Neg(x) s = Shape(x) }"
    assert set(collect_statistics(net(17, text, w=np.zeros(1, np.float32)), samples(1), ("y",), []).ranges) == {"y"}


def test_the_model_is_not_modified_and_samples_are_counted():
    model, told = net(), []
    before = model.SerializeToString()
    collect_statistics(model, samples(3), ("y",), {}, on_sample=told.append)
    assert model.SerializeToString() == before
    assert told == [1, 2, 3]


def test_no_sample_gives_no_range():
    assert collect_statistics(net(), [], ("x", "y"), []) == Statistics(ranges={}, samples=0)


def test_survives_json_exactly():
    found = collect_statistics(net(), samples(2), ("x", "y"), ["y"])
    assert statistics_from_json(json_from_statistics(found)) == found


@pytest.mark.parametrize("cut", [0, 1, 4, 6])
def test_goes_on_from_a_state_as_if_it_had_never_stopped(cut):
    model = net()
    feeds = [{"x": f["x"] * np.float32(2.0 ** (i % 4))} for i, f in enumerate(samples(6))]  # bins widen on the way
    whole, first, second = (Collector(model, ("x", "y", "r"), ["y"]) for _ in range(3))
    bounds = [whole.add(feed) for feed in feeds]
    for feed in feeds[:cut]:
        first.add(feed)
    second.resume(json.loads(json.dumps(first.state())))
    assert second.samples == cut
    assert [[b.tolist() for b in second.add(f)] for f in feeds[cut:]] == [[b.tolist() for b in p] for p in bounds[cut:]]
    assert second.statistics == whole.statistics


def test_tensors_above_the_limit_are_watched_in_parts():
    parts = Collector(net(), ("x", "y", "r"), ["y"], group_limit_bytes=1)
    whole = Collector(net(), ("x", "y", "r"), ["y"])
    for feed in samples(3):
        assert [b.tolist() for b in parts.add(feed)] == [b.tolist() for b in whole.add(feed)]
    assert parts.statistics == whole.statistics

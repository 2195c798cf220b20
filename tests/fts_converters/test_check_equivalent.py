from __future__ import annotations

import numpy as np
import pytest

from fts.engines.onnxruntime_session import open_session
from fts.errors import EngineError
from fts_converters.check_equivalent import TOLERANCE, CleaningChangedTheNet, check_equivalent
from fts_converters.light_proto import light_from_proto

NET = "g (float[1,4] x) => (float[1,4] y) { y = Mul(x,k) }"
FEED = {"x": np.array([[0.0, 1.0, 2.0, 4.0]], np.float32)}


def scaled(bench, factor):
    return light_net(bench, NET, k=np.array([1, 1, 1, factor], np.float32))


def light_net(bench, text, **constants):
    return light_from_proto(bench.net(text, **constants))


def test_equal_nets_pass_and_so_does_rounding(bench):
    check_equivalent(scaled(bench, 1), scaled(bench, 1), FEED, what="net")
    check_equivalent(scaled(bench, 1), scaled(bench, 1 + TOLERANCE / 2), FEED, what="net")


def test_another_function_is_a_defect_and_names_the_output(bench):
    with pytest.raises(CleaningChangedTheNet, match="net, output 'y': cleaning changed its values"):
        check_equivalent(scaled(bench, 1), scaled(bench, 1 + 2 * TOLERANCE), FEED, what="net")


@pytest.mark.parametrize("body", ["y = Transpose(x)", "y = Cast<to=11>(x)"])
def test_another_shape_or_type_is_a_defect(bench, body):
    other = light_net(
        bench,
        NET.replace("float[1,4] y", "double[1,4] y" if "Cast" in body else "float[4,1] y").replace(
            "y = Mul(x,k)", body
        ),
    )
    with pytest.raises(CleaningChangedTheNet, match=r"float32\(1, 4\) became"):
        check_equivalent(scaled(bench, 1), other, FEED, what="net")


def test_one_last_bit_on_a_large_offset_is_rounding(bench):
    """1000.0001 and its neighbour in float32: the range is as small as the rounding."""
    offset = np.array([[1000.0, 1000.0, 1000.0, np.nextafter(np.float32(1000), np.float32(2000))]], np.float32)
    moved = np.nextafter(offset, np.float32(0)).astype(np.float32)
    text = "g (float[1,4] x) => (float[1,4] y) { z = Mul(x,n) y = Add(z,k) }"
    nets = [light_net(bench, text, n=np.zeros(1, np.float32), k=k) for k in (offset, moved)]
    check_equivalent(*nets, FEED, what="net")


@pytest.mark.parametrize("value", [np.nan, -np.inf, 0.0])
def test_infinities_must_be_the_same_ones(bench, value):
    infinite = light_net(bench, NET.replace("Mul", "Add"), k=np.array([np.inf, 0, 0, 0], np.float32))
    other = light_net(bench, NET.replace("Mul", "Add"), k=np.array([value, 0, 0, 0], np.float32))
    check_equivalent(infinite, infinite, FEED, what="net")
    with pytest.raises(CleaningChangedTheNet):
        check_equivalent(infinite, other, FEED, what="net")


def test_a_net_that_onnxruntime_cannot_load_is_the_users(bench):
    broken = light_net(bench, "g (float[1,4] x) => (float[1,4] y) { y = NoSuchOperator(x) }")
    with pytest.raises(EngineError, match=r"^my\.onnx"):
        check_equivalent(broken, broken, FEED, what="my.onnx")


def test_a_net_that_amplifies_rounding_is_held_to_its_own(bench):
    """Sigmoid around -16: the range is 1e-7, and a last bit of its argument moves it by as much."""
    rng = np.random.default_rng(0)
    text = """g (float[1,8,16,16] x) => (float[1,8,16,16] y) {
        a = Conv<pads=[1,1,1,1]>(x,w,b) n = BatchNormalization(a,s,z,z,o) y = Sigmoid(n) }"""
    constants = {
        "w": rng.normal(size=(8, 8, 3, 3)).astype(np.float32),
        "b": np.full(8, -15.0, np.float32),
        "s": np.full(8, 1.1, np.float32),
        "z": np.zeros(8, np.float32),
        "o": np.ones(8, np.float32),
    }
    feed = {"x": rng.random((1, 8, 16, 16), np.float32) * np.float32(0.1)}
    before = light_net(bench, text, **constants)
    divided = text.replace("n = BatchNormalization(a,s,z,z,o)", "n = Div(a,d)")
    constants["d"] = np.float32(np.sqrt(1 + 1e-5) / 1.1)
    after = light_net(bench, divided, **constants)
    a, b = (open_session(n.proto.SerializeToString(), weights=n.weights).run(feed)[0] for n in (before, after))
    assert np.abs(a - b).max() > TOLERANCE * (a.max() - a.min())
    check_equivalent(before, after, feed, what="net")
    wrong = {**constants, "b": constants["b"] + 3}
    with pytest.raises(CleaningChangedTheNet):
        check_equivalent(before, light_net(bench, divided, **wrong), feed, what="net")

"""Faults that random graphs and the node tests of the onnx package found in constant folding, each by its name."""

from __future__ import annotations

import numpy as np
import onnx
from tests.generators.run_plain import run_plain

from fts_converters.model import Model, model_from_proto
from fts_converters.passes.fold_constants import fold_constants


def _model(text: str) -> tuple[onnx.ModelProto, Model]:
    proto = onnx.parser.parse_model(text)
    return proto, model_from_proto(proto, source="test", source_sha256="")


def test_a_shape_with_start_and_end_gives_that_part_alone() -> None:
    _, model = _model("""
        <ir_version: 8, opset_import: ["" : 15]>
        net (float[2,3,5] x) => (int64[2] y) {
            s = Shape<start = 1> (x)
            y = Neg(s)
        }""")
    fold_constants(model)
    x = np.zeros((2, 3, 5), np.float32)
    assert run_plain(model.to_proto(), {"x": x})[0].tolist() == [-3, -5]


def test_a_shape_with_a_negative_end_is_folded_though_the_last_axis_is_unknown() -> None:
    _, model = _model("""
        <ir_version: 8, opset_import: ["" : 15]>
        net (float[2,3,N] x) => (int64[2] y) {
            s = Shape<end = -1> (x)
            y = Neg(s)
        }""")
    assert fold_constants(model)
    assert run_plain(model.to_proto(), {"x": np.zeros((2, 3, 4), np.float32)})[0].tolist() == [-2, -3]


def test_integers_scaled_in_float_are_not_scaled_by_an_integer() -> None:
    """onnx-graphsurgeon drops the two Casts and rounds the factor 0.5 to 0."""
    proto, model = _model("""
        <ir_version: 8, opset_import: ["" : 15]>
        net (int64[3] sizes) => (int64[3] y) <float half = {0.5}> {
            f = Cast<to = 1> (sizes)
            scaled = Mul(f, half)
            y = Cast<to = 7> (scaled)
        }""")
    fold_constants(model)
    feeds = {"sizes": np.array([4, 6, 9])}
    assert run_plain(model.to_proto(), feeds)[0].tolist() == run_plain(proto, feeds)[0].tolist() == [2, 3, 4]


def test_a_shape_that_becomes_known_by_folding_is_folded_in_the_same_run() -> None:
    """The Reshape's target is computed in float, where shape inference does not follow; folded, it gives Shape(flat)."""
    _, model = _model("""
        <ir_version: 8, opset_import: ["" : 15]>
        net (float[2,6] x, float[1] other) => (float[4,3] y) <float[2] factors = {2, 0.5}> {
            s = Shape(x)
            f = Cast<to = 1> (s)
            scaled = Mul(f, factors)
            to = Cast<to = 7> (scaled)
            flat = Reshape(x, to)
            s2 = Shape(flat)
            wide = Expand(other, s2)
            y = Add(flat, wide)
        }""")
    assert fold_constants(model)
    assert [node.op for node in model.graph.nodes] == ["Reshape", "Expand", "Add"]
    assert not fold_constants(model)


def test_a_shape_that_is_an_output_stays() -> None:
    _, model = _model("""
        <ir_version: 8, opset_import: ["" : 15]>
        net (float[2,3] x) => (int64[2] s) {
            s = Shape(x)
        }""")
    assert not fold_constants(model)
    assert [node.op for node in model.graph.nodes] == ["Shape"]


def test_a_loop_over_constants_alone_stays_and_runs() -> None:
    """Its body does not read the iteration number; onnx-graphsurgeon drops that input and then cannot run the Loop."""
    proto, model = _model("""
        <ir_version: 8, opset_import: ["" : 15]>
        net (float[2] x) => (float[2] y)
        <int64 trips = {3}, bool go = {1}, float[2] start = {1, 2}> {
            total = Loop (trips, go, start) <body = body
                (int64 i, bool keep, float[2] state) => (bool kept, float[2] next) {
                    kept = Identity(keep)
                    next = Add(state, state)
                }>
            y = Add(x, total)
        }""")
    fold_constants(model)
    feeds = {"x": np.zeros(2, np.float32)}
    assert run_plain(model.to_proto(), feeds)[0].tolist() == run_plain(proto, feeds)[0].tolist() == [8, 16]


def test_an_if_with_a_known_condition_keeps_the_name_of_its_output() -> None:
    proto, model = _model("""
        <ir_version: 8, opset_import: ["" : 15]>
        net (float[2] x) => (float[2] y) <bool yes = {1}> {
            y = If (yes) <
                then_branch = a () => (float[2] p) { p = Neg(x) },
                else_branch = b () => (float[2] q) { q = Abs(x) }
            >
        }""")
    fold_constants(model)
    feeds = {"x": np.array([1, -2], np.float32)}
    after = model.to_proto()
    assert [o.name for o in after.graph.output] == ["y"]
    assert run_plain(after, feeds)[0].tolist() == run_plain(proto, feeds)[0].tolist() == [-1, 2]

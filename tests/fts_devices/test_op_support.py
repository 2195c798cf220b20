"""Operators of engines: the files are complete, and conditions answer with what they hang on."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import defs

from fts.errors import UsageError
from fts_devices.op_support import (
    INPUT_NAMES,
    NodeFacts,
    attributes_with_defaults,
    einsum_features,
    engine_names,
    load_engine_ops,
)

ENGINES = ("litert-cpu", "litert-npu-qualcomm", "onnxruntime-cpu", "qnn-htp", "tensorrt", "tensorrt-dla")


def _node(
    op_type: str, *shapes: tuple[int, ...], constants: dict[int, object] | None = None, **attributes: object
) -> NodeFacts:
    """A node of opset 21 with these input shapes; its output has the shape of the first."""
    return NodeFacts(
        op_type=op_type,
        domain="",
        attributes=attributes_with_defaults(op_type, 21, attributes),
        input_shapes=shapes,
        output_shapes=(shapes[0],),
        given=(True,) * len(shapes),
        constants={k: np.asarray(v) for k, v in (constants or {}).items()},
        dtypes=frozenset({"float32"}),
    )


def test_lists_the_engines() -> None:
    assert engine_names() == ENGINES


@pytest.mark.parametrize("engine", ENGINES)
def test_every_file_names_real_operators_attributes_and_sources(engine: str) -> None:
    ops = load_engine_ops(engine)
    for op_type, entry in ops.ops.items():
        assert entry.source, op_type
        if not defs.has(op_type):
            continue  # an operator of a later ONNX than is installed
        schema = defs.get_schema(op_type)
        for condition in entry.conditions:
            if condition.subject == "attribute":
                assert condition.name in schema.attributes, (op_type, condition)
            assert set(condition.when) <= set(schema.attributes), (op_type, condition)
            assert all(i < max(len(schema.inputs), 1) or schema.inputs[-1].is_homogeneous for i in condition.inputs)


def test_names_of_inputs_are_those_of_the_operators() -> None:
    for op_type, names in INPUT_NAMES.items():
        assert tuple(i.name for i in defs.get_schema(op_type).inputs) == names


def test_an_attribute_outside_is_named_with_what_is_taken() -> None:
    ops = load_engine_ops("qnn-htp")
    assert ops.lack_of(_node("CumSum", (2, 3), (), constants={1: 0})) is None
    lack = ops.lack_of(_node("CumSum", (2, 3), (), constants={1: 0}, reverse=1))
    assert lack is not None
    assert (lack.attribute, lack.reason, lack.works) == ("reverse", "reverse is 1; taken: 0", "reverse 0")


def test_an_input_that_must_be_constant() -> None:
    lack = load_engine_ops("qnn-htp").lack_of(_node("CumSum", (2, 3), ()))
    assert lack is not None
    assert (lack.attribute, lack.reason) == ("axis", "the input axis is computed")


def test_more_axes_than_the_engine_has() -> None:
    node = _node("Relu", (1, 2, 3, 4, 5, 6))
    assert load_engine_ops("tensorrt").lack_of(node) is None
    lack = load_engine_ops("qnn-htp").lack_of(node)
    assert lack is not None
    assert (lack.attribute, lack.works) == ("rank", "rank 5 or less")


def test_conditions_that_depend_on_another_attribute() -> None:
    ops = load_engine_ops("tensorrt-dla")
    scales = {2: np.array([1, 1, 2, 2], np.float32)}
    form = {"coordinate_transformation_mode": "asymmetric", "constants": scales}
    shapes = ((1, 4, 6, 6), (0,), (4,))
    assert ops.lack_of(_node("Resize", *shapes, nearest_mode="floor", **form)) is None
    lack = ops.lack_of(_node("Resize", *shapes, nearest_mode="ceil", **form))
    assert lack is not None
    assert lack.attribute == "nearest_mode"
    assert ops.lack_of(_node("Resize", *shapes, mode="linear", constants=scales)) is None
    large = {2: np.array([1, 1, 8, 8], np.float32)}
    lack = ops.lack_of(_node("Resize", *shapes, mode="linear", constants=large))
    assert lack is not None
    assert lack.reason == "spatial scale is 8; taken: whole numbers 1 to 4"


def test_a_later_version_takes_more() -> None:
    node = _node("Einsum", (2, 3, 4), (4, 5), equation="...ij,jk->...ik")
    old = load_engine_ops("tensorrt").lack_of(node)
    assert old is not None
    assert old.reason == "equation is ellipsis; taken: plain"
    assert load_engine_ops("tensorrt", "10.12").lack_of(node) is None


def test_a_type_that_the_engine_does_not_compute_in() -> None:
    node = _node("Relu", (1, 2))
    double = NodeFacts(**{**{k: getattr(node, k) for k in NodeFacts.__slots__}, "dtypes": frozenset({"float64"})})
    lack = load_engine_ops("qnn-htp").lack_of(double)
    assert lack is not None
    assert (lack.attribute, lack.reason) == ("type", "it does not compute in float64")


def test_features_of_an_equation() -> None:
    assert einsum_features("ij,jk->ik") == ["plain"]
    assert einsum_features("...ij, jk") == ["ellipsis"]
    assert einsum_features("...ii->...i") == ["ellipsis", "diagonal"]


def test_an_unknown_engine_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'tensorrt-dla'"):
        load_engine_ops("tensorrt_dla")

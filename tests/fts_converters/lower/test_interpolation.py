"""Interpolation matrices against the reference implementation of the operator's text, not only against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from fts_converters.lower.interpolation import AxisResize, cubic_matrix, linear_matrix

# The reference has the scale in float32: places up to 9 are off by a few 1e-7 each, slopes between values are below 4.
TOLERANCE = 1e-5
SIZES = ((7, 3), (4, 2), (3, 9), (5, 4), (6, 6), (2, 5), (9, 1))
COORDINATES = ("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric")


def _reference(axis: AxisResize, x: np.ndarray, **attributes: object) -> np.ndarray:
    node = helper.make_node(
        "Resize", ["x", "", "", "sizes"], ["y"], coordinate_transformation_mode=axis.coordinates, **attributes
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (axis.size_in,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (axis.size_out,))],
        [numpy_helper.from_array(np.array([axis.size_out], np.int64), "sizes")],
    )
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])).run(
        None, {"x": x}
    )[0]


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["linear", "cubic", "cubic without outside"])
def test_matrices_give_what_the_reference_gives(mode: str, antialias: bool, coordinates: str) -> None:
    rng = np.random.default_rng(0)
    for size_in, size_out in SIZES:
        if coordinates == "pytorch_half_pixel" and size_out == 1:
            continue  # the reference takes -0.5 here, the operator's text and onnxruntime take 0
        scale = size_out / size_in
        axis = AxisResize(size_in=size_in, size_out=size_out, scale=scale, coordinates=coordinates, roi=(0.0, 1.0))
        x = rng.standard_normal(size_in).astype(np.float32)
        exclude = mode == "cubic without outside"
        if mode == "linear":
            matrix = linear_matrix(axis, antialias=antialias)
        else:
            matrix = cubic_matrix(axis, a=-0.75, antialias=antialias, exclude_outside=exclude)
        expected = _reference(axis, x, mode=mode.split()[0], antialias=int(antialias), exclude_outside=int(exclude))
        np.testing.assert_allclose(matrix @ x, expected, atol=TOLERANCE)
        np.testing.assert_allclose(matrix.sum(axis=1), 1)

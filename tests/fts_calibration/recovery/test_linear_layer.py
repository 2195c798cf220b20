"""Rows times the weight matrix are what ONNX Runtime computes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from tests.generators.run_plain import run_plain

from fts_calibration.recovery.linear_layer import ConvLayer, LinearLayer, MatrixLayer

# float32 sums of up to 100 products of magnitude 1, in another order.
TOLERANCE = 2e-5


def noise(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def check(layer: LinearLayer, text: str, x: np.ndarray, w: np.ndarray) -> None:
    model = parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>' + text)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    onnx.checker.check_model(model)
    y = run_plain(model, {"x": x})[0]
    every = np.arange(layer.positions(x.shape))
    matrix = layer.matrix_from_weight(w)
    given = layer.rows(x, every) @ matrix.transpose(0, 2, 1)
    np.testing.assert_allclose(given, layer.outputs(y, every), atol=TOLERANCE)
    some = every[::3]
    np.testing.assert_array_equal(layer.rows(x, some), layer.rows(x, every)[:, ::3])
    np.testing.assert_array_equal(layer.outputs(y, some), layer.outputs(y, every)[:, ::3])
    np.testing.assert_array_equal(layer.weight_from_matrix(matrix), w)


@pytest.mark.parametrize(
    ("x", "w", "groups", "strides", "dilations", "pads"),
    [
        ((2, 3, 7, 6), (4, 3, 3, 3), 1, (1, 1), (1, 1), (0, 0, 0, 0)),
        ((1, 4, 8, 8), (4, 1, 3, 3), 4, (1, 1), (1, 1), (1, 1, 1, 1)),
        ((1, 4, 9, 8), (6, 2, 3, 2), 2, (2, 1), (1, 2), (2, 0, 1, 3)),
        ((2, 6, 5, 5), (8, 6, 1, 1), 1, (2, 2), (1, 1), (0, 0, 0, 0)),
        ((2, 3, 11), (5, 3, 4), 1, (3,), (2,), (1, 2)),
        ((1, 2, 4, 5, 4), (3, 2, 2, 2, 2), 1, (1, 2, 1), (1, 1, 1), (0, 1, 0, 1, 0, 1)),
    ],
    ids=["plain", "depthwise", "grouped", "one-by-one", "one-axis", "three-axes"],
)
def test_conv(x, w, groups, strides, dilations, pads):
    rank = len(strides)
    layer = ConvLayer(
        weight_shape=w,
        groups=groups,
        strides=strides,
        dilations=dilations,
        pads_begin=pads[:rank],
        pads_end=pads[rank:],
    )
    dims = ",".join(map(str, x))
    text = (
        f"g (float[{dims}] x) => (float[{','.join('NO' + 'ABC'[:rank])}] y) {{ y = Conv<group={groups}, "
        f"strides={list(strides)}, dilations={list(dilations)}, pads={list(pads)}>(x,w) }}"
    )
    check(layer, text, noise(*x, seed=1), noise(*w, seed=2))


@pytest.mark.parametrize("is_transposed", [True, False])
def test_gemm(is_transposed):
    w = noise(6, 5, seed=2).T.copy() if is_transposed else noise(6, 5, seed=2)
    text = f"g (float[4,6] x) => (float[4,5] y) {{ y = Gemm<transB={int(is_transposed)}>(x,w) }}"
    check(MatrixLayer(is_transposed=is_transposed), text, noise(4, 6, seed=1), w)


def test_matmul_of_many_axes():
    text = "g (float[2,3,4,6] x) => (float[2,3,4,5] y) { y = MatMul(x,w) }"
    check(MatrixLayer(is_transposed=False), text, noise(2, 3, 4, 6, seed=1), noise(6, 5, seed=2))

"""KL(FP32 || INT8) of activations: 0 for the same net, small for a fine grid, large for a clipped one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from fts_calibration.audit.activation_divergence import (
    LIMIT,
    activation_divergences,
    check_activation_divergence,
    histogram_divergence,
)
from fts_calibration.statistics.statistics import TensorRange

FP32 = """<ir_version: 8, opset_import: ["": 17]>
net (float[1,3,16,16] x) => (float[1,3,16,16] y) { r = Relu(x) y = Sigmoid(r) }"""
INT8 = """<ir_version: 8, opset_import: ["": 17]>
net (float[1,3,16,16] x) => (float[1,3,16,16] y) <float scale = {SCALE}, uint8 zero = {0}> {
    r_float = Relu(x) q = QuantizeLinear(r_float, scale, zero) r = DequantizeLinear(q, scale, zero) y = Sigmoid(r)
}"""
RANGES = {"r": TensorRange(low=0.0, high=4.0), "y": TensorRange(low=0.5, high=0.982)}


def net(scale: float) -> onnx.ModelProto:
    return parser.parse_model(INT8.replace("SCALE", repr(scale)))


@pytest.fixture
def feeds() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [{"x": rng.uniform(-1, 4, (1, 3, 16, 16)).astype(np.float32)} for _ in range(40)]


def test_a_net_does_not_differ_from_itself(feeds: list[dict[str, np.ndarray]]) -> None:
    fp32 = parser.parse_model(FP32)
    assert activation_divergences(fp32, fp32, RANGES, feeds) == {"r": 0.0, "y": 0.0}


def test_a_grid_over_the_whole_range_stays_below_the_limit(feeds: list[dict[str, np.ndarray]]) -> None:
    found = activation_divergences(parser.parse_model(FP32), net(4 / 255), RANGES, feeds)
    assert 0 < found["r"] < LIMIT


@pytest.mark.parametrize("scale", [2 / 255, 4 / 20], ids=["clipped to half", "20 levels"])
def test_a_clipped_or_coarse_grid_is_found(scale: float, feeds: list[dict[str, np.ndarray]]) -> None:
    found = activation_divergences(parser.parse_model(FP32), net(scale), RANGES, feeds)
    (finding,) = check_activation_divergence(found)
    assert finding.id == "activations-moved"
    assert "r " in finding.message


def test_the_divergence_of_histograms_is_that_of_the_definition() -> None:
    p, q = np.array([1, 3]), np.array([2, 2])
    assert histogram_divergence(p, q) == pytest.approx(0.25 * np.log(0.5) + 0.75 * np.log(1.5))
    assert np.isfinite(histogram_divergence(np.array([1, 1]), np.array([2, 0])))

"""Neither the order of the samples nor how many run at once leaves a trace in statistics, nor in what is made of them."""

from __future__ import annotations

import random
from itertools import islice

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from fts.vocabulary.quantization import Scheme
from fts_calibration.calibrators import CALIBRATORS, calibrated
from fts_calibration.statistics.collect import collect_statistics
from fts_calibration.statistics.histogram import EMPTY
from fts_calibration.statistics.statistics import Statistics, json_from_statistics

SAMPLES = 12
BATCH_SIZES = (1, 4, 5)  # the last batch of 5 is smaller

TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[n,3,24,24] x) => (float[n,3,24,24] y, float[n,16] mean) {
    zero = Constant<value_ints=[0,0,1,1,0,0,1,1]>()
    padded = Pad<mode="reflect">(x, zero)
    a = Conv(padded, w_in, b_in)
    normed = InstanceNormalization(a, scale, shift)
    r = Relu(normed)
    down = Conv<pads=[1,1,1,1], strides=[2,2]>(r, w_down, b_down)
    slope = PRelu(down, slopes)
    deep = Conv<pads=[1,1,1,1], group=16>(slope, w_deep)
    point = Conv(deep, w_point)
    swish = HardSwish(point)
    sum = Add(swish, down)
    pooled = GlobalAveragePool(sum)
    mean = Flatten(pooled)
    up = ConvTranspose<kernel_shape=[2,2], strides=[2,2]>(sum, w_up)
    joined = Concat<axis=1>(up, a)
    last = Conv<pads=[1,1,1,1]>(joined, w_out)
    y = Tanh(last)
}"""
TENSORS = (
    "x",
    "a",
    "normed",
    "r",
    "down",
    "slope",
    "deep",
    "point",
    "swish",
    "sum",
    "mean",
    "up",
    "joined",
    "last",
    "y",
)


@pytest.fixture(scope="module")
def net() -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    shapes = {
        **{"w_in": (8, 3, 3, 3), "b_in": (8,), "scale": (8,), "shift": (8,), "w_down": (16, 8, 3, 3), "b_down": (16,)},
        **{"slopes": (16, 1, 1), "w_deep": (16, 1, 3, 3), "w_point": (16, 16, 1, 1), "w_up": (16, 8, 2, 2)},
        "w_out": (3, 16, 3, 3),
    }
    model = parser.parse_model(TEXT)
    for name, shape in shapes.items():
        values = rng.normal(size=shape) * 2 / np.sqrt(np.prod(shape[1:]))
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    return onnx.shape_inference.infer_shapes(model)


@pytest.fixture(scope="module")
def pictures() -> list[np.ndarray]:
    """Values of quite different sizes: bins have to widen at other moments in every order."""
    rng = np.random.default_rng(4)
    return [(rng.normal(size=(3, 24, 24)) * 2.0 ** (i % 7 - 3)).astype(np.float32) for i in range(SAMPLES)]


def in_batches(pictures: list[np.ndarray], size: int) -> list[dict[str, np.ndarray]]:
    left = iter(pictures)
    return [{"x": np.stack(batch)} for batch in iter(lambda: list(islice(left, size)), [])]


@pytest.fixture(scope="module")
def one_by_one(net: onnx.ModelProto, pictures: list[np.ndarray]) -> Statistics:
    return collect_statistics(net, in_batches(pictures, 1), TENSORS, TENSORS)


def same_but_for_samples(statistics: Statistics) -> dict[str, object]:
    """A sample is what runs at once, so their number is the number of batches."""
    return {k: v for k, v in json_from_statistics(statistics).items() if k != "samples"}


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("shuffle", range(5))
def test_ranges_histograms_and_calibrated_ranges_are_bit_equal(
    shuffle: int, batch_size: int, net: onnx.ModelProto, pictures: list[np.ndarray], one_by_one: Statistics
) -> None:
    order = list(pictures)
    random.Random(shuffle).shuffle(order)
    found = collect_statistics(net, in_batches(order, batch_size), TENSORS, TENSORS)
    assert found.samples == -(-SAMPLES // batch_size)
    assert same_but_for_samples(found) == same_but_for_samples(one_by_one)
    scheme = Scheme(bits=8, signed=False, symmetric=False, per_channel=False)
    for name in CALIBRATORS:
        assert calibrated(found, name, scheme).ranges == calibrated(one_by_one, name, scheme).ranges


def test_groups_of_samples_merge_to_the_whole(
    net: onnx.ModelProto, pictures: list[np.ndarray], one_by_one: Statistics
) -> None:
    """What several processes count, each its own photos."""
    groups = [in_batches(pictures[start::3], 1) for start in range(3)]
    found = [collect_statistics(net, group, TENSORS, TENSORS) for group in groups]
    for name in TENSORS:
        merged = EMPTY
        for part in found:
            merged = merged.merged(part.histograms[name])
        assert merged == one_by_one.histograms[name]


def test_the_order_decides_when_bins_widen(net: onnx.ModelProto, pictures: list[np.ndarray]) -> None:
    """Else the tests above would show nothing."""
    exponents = [
        collect_statistics(net, in_batches(part, 1), ["a"]).histograms["a"].exponent for part in ([p] for p in pictures)
    ]
    assert len(set(exponents)) >= 5

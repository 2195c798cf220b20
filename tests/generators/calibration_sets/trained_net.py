"""A small net that remembers what it was trained on: its batch norms hold the statistics of pictures under a contract."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper, parser
from tests.generators.calibration_sets.case import tensor
from tests.generators.calibration_sets.scenes import portrait, scene
from tests.generators.run_plain import run_plain

from fts.vocabulary.preprocessing import Preprocessing

CHANNELS = 16
TRAINING_SEED, TRAINING_PICTURES = 900_000, 24

TEXT = """
<ir_version: 8, opset_import: ["": 17]>
net (float[1,3,H,W] x) => (float[1,8,H2,W2] y) {
    a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w1)
    b = BatchNormalization(a, gamma, beta, mean1, var1)
    c = Relu(b)
    d = Conv<pads=[1,1,1,1]>(c, w2)
    e = BatchNormalization(d, gamma, beta, mean2, var2)
    f = Relu(e)
    y = Conv(f, w3)
}"""


def trained_net(pre: Preprocessing) -> onnx.ModelProto:
    """The net with the running means and variances that training on pictures under `pre` leaves in it.

    The filters are a bank of edges and colour differences, as first layers learn them, and random ones behind.
    """
    rng = np.random.default_rng(77)
    weights = {
        "w1": _first_layer(rng, pre),
        "w2": (rng.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 12).astype(np.float32),
        "w3": (rng.standard_normal((8, CHANNELS, 1, 1)) / 4).astype(np.float32),
        "gamma": np.ones(CHANNELS, np.float32),
        "beta": rng.normal(0, 0.2, CHANNELS).astype(np.float32),
        **{
            f"{what}{i}": np.full(CHANNELS, float(what == "var"), np.float32)
            for what in ("mean", "var")
            for i in (1, 2)
        },
    }
    pictures = [scene(TRAINING_SEED + i) for i in range(TRAINING_PICTURES // 2)]
    pictures += [portrait(TRAINING_SEED + i)[0] for i in range(TRAINING_PICTURES // 2)]
    feeds = [{"x": tensor(picture, pre)} for picture in pictures]
    for number, before in ((1, "a"), (2, "d")):  # in order: the second statistics depend on the first
        weights[f"mean{number}"], weights[f"var{number}"] = _moments(_model(weights), feeds, before)
    return _model(weights)


def _first_layer(rng: np.random.Generator, pre: Preprocessing) -> npt.NDArray[np.float32]:
    filters = rng.standard_normal((CHANNELS, 3, 3, 3)) * 0.25
    filters[: CHANNELS // 2] -= filters[: CHANNELS // 2].mean(
        axis=(2, 3), keepdims=True
    )  # edges: no response to flat areas
    opponent = np.array(
        [[1.0, 0.0, -1.0], [1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [0.6, -1.2, 0.6]]
    )  # channels of the tensor
    filters[-4:] = opponent[:, :, None, None] / 9 + rng.standard_normal((4, 3, 3, 3)) * 0.02
    gain = float(np.mean(pre.std)) / (pre.scale * 255)  # training finds weights that suit the scale of its data
    return (filters * gain).astype(np.float32)


def _model(weights: dict[str, npt.NDArray[np.float32]]) -> onnx.ModelProto:
    model = parser.parse_model(TEXT)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def _moments(
    model: onnx.ModelProto, feeds: Sequence[dict[str, npt.NDArray[np.float32]]], name: str
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    seen = np.stack([run_plain(watched, feed)[-1] for feed in feeds])  # (n, 1, C, H, W)
    return seen.mean(axis=(0, 1, 3, 4)).astype(np.float32), seen.var(axis=(0, 1, 3, 4)).astype(np.float32)

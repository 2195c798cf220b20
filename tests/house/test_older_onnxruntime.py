"""A bundle made here gives the same numbers under older ONNX Runtime, down to the lower bound of the metadata."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import fts

from .conftest import MakeEnvironment, run_ok

SIDE_PX = 32
PICTURES = 8
# Integer kernels agree to the last bit but for the rounding of one requantization: a step of the output, twice for the
# two convolutions.
STEPS = 2

GRAPH = """
<ir_version: 8, opset_import: ["" : 13]>
two_convolutions (float[1, 3, 32, 32] x) => (float[1, 3, 32, 32] y) {
  hidden = Conv <pads = [1, 1, 1, 1]> (x, w1)
  positive = Relu (hidden)
  y = Conv <pads = [1, 1, 1, 1]> (positive, w2)
}
"""
INFER = """
import sys
import numpy as np
import onnxruntime
import fts

with fts.load(sys.argv[1], simulate=True) as model:
    np.save(sys.argv[3], model.infer({"x": np.load(sys.argv[2])})["y"])
print(onnxruntime.__version__)
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    random = np.random.default_rng(7)
    model = parser.parse_model(GRAPH)
    for name, shape in (("w1", (8, 3, 3, 3)), ("w2", (3, 8, 3, 3))):
        weights = (random.standard_normal(shape) * 0.2).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weights, name))
    onnx.save(model, folder / "model.onnx")
    (folder / "calib").mkdir()
    for number in range(PICTURES):
        blocks = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        picture = cv2.resize(blocks, (SIDE_PX, SIDE_PX), interpolation=cv2.INTER_LINEAR)
        cv2.imwrite(str(folder / "calib" / f"{number}.png"), picture)
    convert = Path(sysconfig.get_path("scripts")) / "fts-convert"
    options = ("--target", "cpu-int8", "--calib", "calib", "--budget", "none", "-o", "model.fts")
    run_ok(convert, "model.onnx", *options, cwd=folder)
    return folder / "model.fts"


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.19.2", "1.23.2"])
def test_bundle_gives_the_same_numbers(
    version: str, bundle: Path, wheel: Path, make_environment: MakeEnvironment, tmp_path: Path
) -> None:
    x = np.random.default_rng(8).random((1, 3, SIDE_PX, SIDE_PX), np.float32)
    np.save(tmp_path / "x.npy", x)
    with fts.load(bundle, simulate=True) as model:
        here = model.infer({"x": x})["y"]
    older = make_environment(wheel, f"onnxruntime=={version}")
    said = run_ok(older / "python", "-c", INFER, bundle, tmp_path / "x.npy", tmp_path / "y.npy")
    assert said.split() == [version]
    there = np.load(tmp_path / "y.npy")
    step = float(here.max() - here.min()) / 255
    assert np.abs(there - here).max() <= STEPS * step

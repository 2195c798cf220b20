"""Small nets as ONNX text, and pictures with a seed: all that the tests of this folder convert."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import onnx
from onnx import numpy_helper, parser

CONV = "Conv<pads=[1,1,1,1]>"

# Two convolutions and a picture out.
PICTURE = f"""
net (float[1,3,16,16] x) => (float[1,3,16,16] y) {{
    a = {CONV}(x, w_in, b_in)
    r = Relu(a)
    c = {CONV}(r, w_out)
    y = Sigmoid(c)
}}"""
# One convolution and a tensor out: the quickest to convert.
TENSOR = f"net (float[1,3,16,16] x) => (float[1,3,16,16] y) {{ y = {CONV}(x, w) }}"
TWO_INPUTS = f"""
net (float[1,3,16,16] x, float[1,3] age) => (float[1,3,16,16] y) {{
    a = {CONV}(x, w)
    shape = Constant<value_ints=[1,3,1,1]>()
    strength = Reshape(age, shape)
    m = Mul(a, strength)
    y = Sigmoid(m)
}}"""
SAME = "net (float[1,3,16,16] x) => (float[1,3,16,16] y) { y = Conv(x, w_same) }"
TWICE_AS_LARGE = """
net (float[1,3,16,16] x) => (float[1,3,32,32] y) {
    a = Conv(x, w_four)
    y = DepthToSpace<blocksize=2, mode="CRD">(a)
}"""


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "w": (rng.standard_normal((3, 3, 3, 3)) * 0.3).astype(np.float32),
        "w_in": (rng.standard_normal((8, 3, 3, 3)) * 0.3).astype(np.float32),
        "b_in": (rng.standard_normal(8) * 0.1).astype(np.float32),
        "w_out": (rng.standard_normal((3, 8, 3, 3)) * 0.3).astype(np.float32),
        "w_one": (rng.standard_normal((1, 1, 3, 3)) * 0.3).astype(np.float32),
        "w_same": np.eye(3, dtype=np.float32)[:, :, None, None],
        "w_four": np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)[:, :, None, None],
    }


def save_net(path: Path, text: str, opset: int = 17, cast: str = "float32") -> Path:
    """Write a net; weights that its text reads are added, in type `cast`."""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]>{text}')
    read = {name for node in model.graph.node for name in _reads(node)}
    for name, array in weights().items():
        if name in read:
            model.graph.initializer.append(numpy_helper.from_array(array.astype(cast), name))
    onnx.save(model, path)
    return path


def _reads(node: onnx.NodeProto) -> list[str]:
    inner = [name for a in node.attribute if a.HasField("g") for n in a.g.node for name in _reads(n)]
    return [*node.input, *inner]


def smooth_picture(seed: int, height: int = 16, width: int = 16) -> np.ndarray:
    """A BGR picture without fine detail."""
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)


def save_pictures(folder: Path, count: int, *, first_seed: int = 0, height: int = 16, width: int = 16) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        cv2.imwrite(str(folder / f"p{number:03d}.png"), smooth_picture(first_seed + number, height, width))
    return folder


def save_feeds(folder: Path, count: int, shapes: dict[str, tuple[int, ...]], dtype: str = "float32") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    for number in range(count):
        arrays = {name: np.asarray(rng.random(shape) * (255 if dtype == "uint8" else 1)).astype(dtype)
                  for name, shape in shapes.items()}  # fmt: skip
        np.savez(folder / f"f{number:03d}.npz", **arrays)
    return folder

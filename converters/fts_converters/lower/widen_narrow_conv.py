"""A Conv of few output channels becomes one that makes b x b neighbouring pixels at once, and DepthToSpace.

    W'[o, r, c][k] = W[o][k - s (r, c)],   kernel K + (b - 1) s,   stride s b,   b b channels a channel of W

Why: onnxruntime's integer Conv copies each output pixel's window into a row and multiplies the rows by the weights, 16
output channels at a time. With 3 output channels 13 of 16 columns are empty and every input value is copied K x K times;
that is 100 ms for 64 -> 3 channels, 7 x 7 at 256 x 256, and 26 ms with b = 4 (one thread, AVX2), though it multiplies twice
as often. A Relu or Clip behind moves in front of DepthToSpace, so that it stays with the integer kernel.

Each weight appears once a pixel and the rest are zeros, so nothing is rounded. Done where the model of cost below promises
LEAST_GAIN; two spatial axes, one group, no dilation, constant weights, known sizes, explicit pads.

Source: Shi et al. 2016, arXiv:1609.05158, section 3.2 (sub-pixel convolution).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.each_node import change_each
from fts_converters.passes.graph_editing import TensorNames
from fts_converters.passes.graph_reading import constant, only_reader, scalar, static_shape

FIRST_OPSET = 11
BLOCKS = (2, 4)
LEAST_GAIN = 1.5
# Of one value of a window: copying it, and multiplying it by 16 columns; of one value of the result: DepthToSpace. Fitted to
# 9 shapes on AVX2 with onnxruntime 1.32, in ns of one thread; only their ratios matter.
COPY_COST, COLUMNS_COST, COLUMNS, INTERLEAVE_COST = 0.35, 0.2, 16, 4.6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conv:
    """What is needed of a Conv.

    Attributes:
        channels: Output and input channels.
        kernel: Height and width; likewise below.
        strides: s.
        begin: Pads in front.
        input_size: Of the data.
        output_size: Of the result.
    """

    channels: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    begin: tuple[int, int]
    input_size: tuple[int, int]
    output_size: tuple[int, int]

    def coarse_size(self, block: int) -> tuple[int, int]:
        """Sizes of the wide Conv's output."""
        high, wide = (-(-n // block) for n in self.output_size)
        return high, wide

    def wide_kernel(self, block: int) -> tuple[int, int]:
        high, wide = (k + (block - 1) * s for k, s in zip(self.kernel, self.strides, strict=True))
        return high, wide

    def cost(self, block: int) -> float:
        """Of the convolution and what follows from its blocks."""
        rows = np.prod(self.coarse_size(block))
        window = np.prod(self.wide_kernel(block)) * self.channels[1]
        columns = -(-self.channels[0] * block * block // COLUMNS)
        interleave = INTERLEAVE_COST * self.channels[0] * np.prod(self.output_size) if block > 1 else 0.0
        return float(rows * window * (COPY_COST + COLUMNS_COST * columns) + interleave)


def widen_narrow_conv(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Widens every wanted Conv that gains by it. No refusals: a Conv that stays runs as it is."""
    return PassResult(is_changed=change_each(model, "Conv", _replace, choice.is_wanted).is_changed)


def _replace(graph: gs.Graph, node: gs.Node, names: TensorNames) -> str:
    if graph.opset < FIRST_OPSET:
        return "DepthToSpace has its order from opset 11 on"
    weight = constant(node.inputs[1])
    conv = _read(node, weight)
    if weight is None or conv is None:
        return "not of the kind"
    block = min((1, *BLOCKS), key=conv.cost)
    if conv.cost(1) < LEAST_GAIN * conv.cost(block):
        return "it would gain too little"
    inputs = [node.inputs[0], names.constant(f"{node.inputs[1].name}_wide", _wide_weights(weight, conv, block))]
    if len(node.inputs) > 2 and node.inputs[2].name:
        bias = constant(node.inputs[2])
        if bias is None:
            return "its bias is computed"
        inputs.append(names.constant(f"{node.inputs[2].name}_wide", np.repeat(bias, block * block)))
    batch = static_shape(node.inputs[0])[0]  # type: ignore[index]
    coarse = conv.coarse_size(block)
    shape = [batch, conv.channels[0] * block * block, *coarse]
    last = _activation_behind(graph, node)
    result = last.outputs[0] if last is not None else node.outputs[0]
    maps = names.variable(f"{result.name}_blocks", result, shape)
    attrs = {
        "kernel_shape": list(conv.wide_kernel(block)),
        "strides": [s * block for s in conv.strides],
        "dilations": [1, 1],
        "group": 1,
        "pads": _pads(conv, block),
    }
    sums = maps if last is None else names.variable(f"{node.outputs[0].name}_blocks", result, shape)
    graph.nodes.append(gs.Node(op="Conv", name=node.name, attrs=attrs, inputs=inputs, outputs=[sums]))
    node.outputs.clear()
    node.inputs.clear()
    if last is not None:
        last.outputs.clear()
        last.inputs[0] = sums
        last.outputs.append(maps)
    fine_size = [n * block for n in coarse]
    is_whole = tuple(fine_size) == conv.output_size
    fine = result if is_whole else names.variable(f"{result.name}_uncut", result, [batch, conv.channels[0], *fine_size])
    order = {"blocksize": block, "mode": "CRD"}
    graph.nodes.append(
        gs.Node(
            op="DepthToSpace",
            name=names.unused(f"{fine.name}_DepthToSpace"),
            attrs=order,
            inputs=[maps],
            outputs=[fine],
        )
    )
    if not is_whole:
        bounds = {"starts": [0, 0], "ends": list(conv.output_size), "axes": [2, 3]}
        cut = [names.constant(f"{result.name}_{k}", np.array(v, np.int64)) for k, v in bounds.items()]
        graph.nodes.append(
            gs.Node(op="Slice", name=names.unused(f"{result.name}_Slice"), inputs=[fine, *cut], outputs=[result])
        )
    return ""


def _read(node: gs.Node, weight: npt.NDArray[np.generic] | None) -> _Conv | None:
    data, result = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if weight is None or weight.ndim != 4 or weight.dtype != np.float32 or data is None or result is None:
        return None
    if int(node.attrs.get("group", 1)) != 1 or any(d != 1 for d in node.attrs.get("dilations") or ()):
        return None
    if node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or 0 in result:
        return None
    pads = [0] * 4 if node.attrs.get("auto_pad") == "VALID" else node.attrs.get("pads") or [0] * 4
    strides = node.attrs.get("strides") or [1, 1]
    return _Conv(
        channels=(weight.shape[0], weight.shape[1]),
        kernel=(weight.shape[2], weight.shape[3]),
        strides=(int(strides[0]), int(strides[1])),
        begin=(int(pads[0]), int(pads[1])),
        input_size=(data[2], data[3]),
        output_size=(result[2], result[3]),
    )


def _wide_weights(weight: npt.NDArray[np.generic], conv: _Conv, block: int) -> npt.NDArray[np.generic]:
    """(Co, Ci, K, K) to (Co b b, Ci, K + (b - 1) s, ...); the position in the block runs fastest."""
    outputs, inputs = conv.channels
    (high, wide), (step_y, step_x) = conv.kernel, conv.strides
    found = np.zeros((outputs, block, block, inputs, *conv.wide_kernel(block)), weight.dtype)
    for row in range(block):
        for column in range(block):
            y, x = row * step_y, column * step_x
            found[:, row, column, :, y : y + high, x : x + wide] = weight
    return found.reshape(outputs * block * block, inputs, *conv.wide_kernel(block))


def _pads(conv: _Conv, block: int) -> list[int]:
    """Begin pads as they were; end pads so that the windows of the last block fit exactly."""
    reach = [
        (n * block - 1) * s + k for n, s, k in zip(conv.coarse_size(block), conv.strides, conv.kernel, strict=True)
    ]
    ends = [max(0, r - n - p) for r, n, p in zip(reach, conv.input_size, conv.begin, strict=True)]
    return [*conv.begin, *ends]


def _activation_behind(graph: gs.Graph, node: gs.Node) -> gs.Node | None:
    """The Relu, or Clip between constants, that alone reads the result: it treats every element alike."""
    reader = only_reader(graph, node.outputs[0])
    if reader is None or reader.domain or not any(reader is n for n in graph.nodes):
        return None
    if reader.op == "Relu":
        return reader
    bounds = [t for t in reader.inputs[1:] if t.name]
    is_plain_clip = reader.op == "Clip" and reader.inputs[0] is node.outputs[0]
    return reader if is_plain_clip and all(scalar(t) is not None for t in bounds) else None

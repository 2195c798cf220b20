"""Nets that come with Q/DQ of their own, in the manner of the tools that write them.

Weights use the whole of their 8 bits and neighbours have one sign, so that u8*s8 sums in 16 bits would saturate.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIDE = 12
Arrays = dict[str, np.ndarray]


class QdqNet:
    """Adds one operator after another; float tensors are (1, C, H, W) unless an operator changes that."""

    def __init__(self, seed: int = 0, channels: int = 3) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, SIDE, SIDE])]

    def const(self, values: Any, name: str = "") -> str:
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def op(self, op_type: str, inputs: list[str], output: str = "", *, domain: str = "", **attributes: Any) -> str:
        output = output or f"t{len(self.nodes)}"
        name = f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, domain=domain, **attributes))
        return output

    def quantize(self, source: str, scale: Any, zero: Any, **attributes: Any) -> str:
        return self.op("QuantizeLinear", [source, self.const(np.float32(scale)), self.const(zero)], **attributes)

    def dequantize(self, source: str, scale: Any, zero: Any, **attributes: Any) -> str:
        return self.op("DequantizeLinear", [source, self.const(np.float32(scale)), self.const(zero)], **attributes)

    def qdq(self, source: str, scale: float, zero: Any = np.int8(0), **attributes: Any) -> str:  # noqa: B008
        return self.dequantize(self.quantize(source, scale, zero, **attributes), scale, zero, **attributes)

    def integers(self, *shape: int, low: int = -127, high: int = 127) -> np.ndarray:
        """Weights whose neighbours share a sign and of which every channel reaches an end."""
        sign = np.where(self.rng.random((*shape[:-1], 1)) < 0.5, -1, 1)
        values = np.where(
            sign < 0, self.rng.integers(low, low // 2 + 1, shape), self.rng.integers(high // 2, high + 1, shape)
        )
        return values.astype(np.int8 if low < 0 else np.uint8)

    def weight(self, *shape: int, axis: int | None = 0, as_floats: bool = False) -> str:
        """A weight behind DQ, symmetric, one scale a channel along `axis` or one for all."""
        q = self.integers(*shape)
        count = () if axis is None else (shape[axis],)
        scale = (self.rng.uniform(0.5, 2.0, count) / (127 * np.sqrt(q[0].size))).astype(np.float32)
        zero = np.zeros(count, np.int8)
        attributes = {} if axis is None else {"axis": axis}
        if not as_floats:
            return self.dequantize(self.const(q), scale, zero, **attributes)
        spread = scale if axis is None else scale.reshape([-1 if a == axis else 1 for a in range(len(shape))])
        return self.dequantize(
            self.quantize(self.const(q * spread), scale, zero, **attributes), scale, zero, **attributes
        )

    def conv(
        self, source: str, into: int, out: int, kernel: int = 3, *, bias: bool = True, group: int = 1, **weight: Any
    ) -> str:
        inputs = [source, self.weight(out, into // group, kernel, kernel, **weight)]
        if bias:
            inputs.append(self.const(self.rng.uniform(-0.2, 0.2, out).astype(np.float32)))
        return self.op("Conv", inputs, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, group=group)

    def model(
        self, *outputs: str, opset: int = 17, dtype: int = TensorProto.FLOAT, shape: list[int] | None = None
    ) -> onnx.ModelProto:
        values = [helper.make_tensor_value_info(o, dtype, shape) for o in outputs]
        graph = helper.make_graph(self.nodes, "quantized", self.inputs, values, self.constants)
        imports = [helper.make_opsetid("", opset)]
        if any(n.domain for n in self.nodes):
            imports.append(helper.make_opsetid("com.microsoft", 1))
        ir = 8 if opset < 19 else 9 if opset < 21 else 10
        model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=imports, ir_version=ir))
        return model


def tensorrt(as_floats: bool = False) -> onnx.ModelProto:
    """int8 symmetric, Q/DQ on what convolutions read alone, weights a scale a channel, float bias, a residual in float."""
    net = QdqNet(1)
    a = net.op("Relu", [net.conv(net.qdq("x", 1 / 127), 3, 8, as_floats=as_floats)])
    b = net.op("Relu", [net.conv(net.qdq(a, 2 / 127), 8, 8, as_floats=as_floats)])
    c = net.conv(net.qdq(b, 2.5 / 127), 8, 8, as_floats=as_floats)
    d = net.op("Relu", [net.op("Add", [a, c])])
    return net.model(net.conv(net.qdq(d, 3 / 127), 8, 3, as_floats=as_floats))


def one_pair_before_pooling() -> onnx.ModelProto:
    """Q/DQ once, in front of operators that only move values: their readers get integers too."""
    net = QdqNet(2)
    a = net.op("Relu", [net.conv(net.qdq("x", 1 / 127), 3, 8)])
    b = net.op("MaxPool", [net.qdq(a, 2 / 127)], kernel_shape=[2, 2], strides=[2, 2])
    c = net.op("Relu", [net.conv(b, 8, 8)])
    d = net.op("MaxPool", [c], kernel_shape=[2, 2], strides=[2, 2])
    return net.model(net.conv(net.qdq(d, 2 / 127), 8, 3))


def joined_in_float() -> onnx.ModelProto:
    """Two branches meet in a Concat that stands in front of the Q."""
    net = QdqNet(3)
    x = net.qdq("x", 1 / 127)
    a, b = net.op("Relu", [net.conv(x, 3, 8)]), net.conv(x, 3, 4)
    joined = net.op("Concat", [a, b], axis=1)
    return net.model(net.conv(net.qdq(joined, 2 / 127), 12, 3))


def asymmetric() -> onnx.ModelProto:
    """uint8 activations with zero points, Q/DQ behind everything, int32 bias, depthwise, pooling, joins, a linear head."""
    net = QdqNet(4)

    def u8(name: str, scale: float, zero: int) -> str:
        return net.qdq(name, scale, np.uint8(zero))

    def conv(source: str, in_scale: float, into: int, out: int, group: int = 1) -> str:
        q, scale = (
            net.integers(out, into // group, 3, 3),
            net.rng.uniform(0.5, 2, out) / (127 * 3 * np.sqrt(into // group)),
        )
        w = net.dequantize(net.const(q), scale, np.zeros(out, np.int8), axis=0)
        b = net.dequantize(
            net.const(net.rng.integers(-9000, 9000, out).astype(np.int32)),
            np.float32(in_scale) * np.float32(scale), np.zeros(out, np.int32), axis=0,
        )  # fmt: skip
        return net.op("Conv", [source, w, b], kernel_shape=[3, 3], pads=[1] * 4, group=group)

    x = u8("x", 1 / 255, 0)
    a = u8(net.op("Relu", [conv(x, 1 / 255, 3, 8)]), 0.011, 0)
    b = u8(conv(a, 0.011, 8, 8, group=8), 0.02, 131)
    c = u8(net.op("Add", [a, b]), 0.021, 90)
    d = u8(net.op("LeakyRelu", [c], alpha=0.1), 0.015, 20)
    e = u8(net.op("Concat", [d, a], axis=1), 0.015, 20)
    f = u8(net.op("MaxPool", [e], kernel_shape=[2, 2], strides=[2, 2]), 0.015, 20)
    g = u8(net.op("AveragePool", [f], kernel_shape=[3, 3], pads=[1] * 4), 0.014, 17)
    h = u8(net.op("Mul", [g, u8(net.op("Sigmoid", [f]), 1 / 256, 0)]), 0.013, 30)
    pooled = u8(net.op("GlobalAveragePool", [h]), 0.009, 25)
    flat = u8(net.op("Reshape", [pooled, net.const(np.array([1, 16]))]), 0.009, 25)
    w = net.dequantize(net.const(net.integers(16, 5)), 0.003, np.int8(0))
    bias = net.dequantize(
        net.const(net.rng.integers(-4000, 4000, 5).astype(np.int32)), np.float32(0.009) * np.float32(0.003), np.int32(0)
    )
    y = u8(net.op("Gemm", [flat, w, bias]), 0.02, 128)
    return net.model(y, h)


def per_tensor_uint8_weights() -> onnx.ModelProto:
    """Asymmetric uint8 weights with one zero point, as older tools write them; opset 10, no per-channel form yet."""
    net = QdqNet(5)
    w = net.dequantize(net.const(net.integers(8, 3, 3, 3, low=0, high=255)), 0.002, np.uint8(117))
    a = net.op("Relu", [net.op("Conv", [net.qdq("x", 1 / 255, np.uint8(0)), w], pads=[1] * 4, kernel_shape=[3, 3])])
    a = net.qdq(a, 0.01, np.uint8(0))
    return net.model(net.qdq(net.conv(a, 8, 3, axis=None), 0.02, np.uint8(128)), opset=10)


def fake_quant() -> onnx.ModelProto:
    """torch FakeQuantize with a reduced range: Q, Clip of the integers, DQ; scales from Constant nodes; a weight turned."""
    net = QdqNet(6)

    def constant(value: Any) -> str:
        return net.op("Constant", [], value=numpy_helper.from_array(np.asarray(value)))

    def fake(source: str, scale: float, zero: int) -> str:
        s, z = constant(np.float32(scale)), constant(np.uint8(zero))
        clipped = net.op(
            "Clip", [net.op("QuantizeLinear", [source, s, z]), constant(np.uint8(0)), constant(np.uint8(127))]
        )
        return net.op("DequantizeLinear", [clipped, s, z])

    a = fake(net.op("Relu", [net.conv(fake("x", 1 / 127, 0), 3, 8, as_floats=True)]), 2 / 127, 0)
    b = fake(net.conv(a, 8, 8, as_floats=True), 4 / 127, 64)
    flat = net.op("Reshape", [b, constant(np.array([1, -1]))])
    turned = net.op("Transpose", [net.weight(5, 8 * SIDE * SIDE, as_floats=True)], perm=[1, 0])
    y = net.op("MatMul", [flat, turned])
    return net.model(fake(net.op("Add", [y, constant(np.zeros(5, np.float32))]), 4 / 127, 64), b)


def partly() -> onnx.ModelProto:
    """Some layers quantized, others and a ConvTranspose with quantized weights left in float."""
    net = QdqNet(7)
    plain = net.const((net.rng.standard_normal((8, 3, 3, 3)) * 0.2).astype(np.float32))
    a = net.op("Relu", [net.op("Conv", ["x", plain], pads=[1] * 4)])
    b = net.qdq(net.op("Relu", [net.conv(net.qdq(a, 1.5 / 255, np.uint8(0)), 8, 8)]), 2 / 255, np.uint8(0))
    c = net.op("InstanceNormalization", [b, net.const(np.ones(8, np.float32)), net.const(np.zeros(8, np.float32))])
    d = net.op("ConvTranspose", [net.qdq(c, 4 / 255, np.uint8(128)), net.weight(8, 4, 2, 2, axis=1)], strides=[2, 2])
    return net.model(net.op("Tanh", [d]))


def sixteen_bit() -> onnx.ModelProto:
    """int16 activations: opset 21."""
    net = QdqNet(8)
    a = net.op("Relu", [net.conv(net.qdq("x", 1 / 32767, np.int16(0)), 3, 8)])
    b = net.qdq(net.conv(net.qdq(a, 2 / 65535, np.uint16(0)), 8, 8), 4 / 255, np.uint8(128))
    return net.model(net.qdq(net.conv(b, 8, 3), 4 / 255, np.uint8(128)), opset=21)


def four_bit_blocks() -> onnx.ModelProto:
    """4-bit weights with one scale a block of rows: opset 21."""
    net = QdqNet(9)
    a = net.qdq(net.conv(net.qdq("x", 1 / 255, np.uint8(0)), 3, 8), 4 / 255, np.uint8(128))
    flat = net.op("Reshape", [a, net.const(np.array([1, -1]))])
    rows = 8 * SIDE * SIDE
    q = helper.make_tensor("w4", TensorProto.INT4, [rows, 4], net.rng.integers(-8, 8, rows * 4).tolist())
    net.constants.append(q)
    scale = net.const(net.rng.uniform(0.005, 0.02, (rows // 32, 4)).astype(np.float32))
    w = net.op("DequantizeLinear", ["w4", scale], axis=0, block_size=32)
    return net.model(net.op("MatMul", [flat, w]), opset=21)


def batchnorm_behind_quantized_weights() -> onnx.ModelProto:
    """Conv -> BatchNormalization -> Relu -> Q, the norm not folded by whoever quantized; a Pad in front."""
    net = QdqNet(10)
    padded = net.op("Pad", [net.qdq("x", 1 / 127), net.const(np.array([0, 0, 1, 1, 0, 0, 1, 1]))])
    a = net.op("Conv", [padded, net.weight(8, 3, 3, 3)], kernel_shape=[3, 3])
    parts = [net.const(net.rng.uniform(0.5, 1.5, 8).astype(np.float32)) for _ in range(4)]
    b = net.op("Relu", [net.op("BatchNormalization", [a, *parts])])
    c = net.op("Relu", [net.conv(net.qdq(b, 3 / 127), 8, 8)])
    return net.model(net.qdq(net.conv(net.qdq(c, 3 / 127), 8, 3), 4 / 127))


def foreign_bias_scale() -> onnx.ModelProto:
    """A bias in 8 bits with a scale of its own, which is not s_in * s_w; one weight channel along the wrong axis."""
    net = QdqNet(11)
    x = net.qdq("x", 1 / 255, np.uint8(0))
    b = net.dequantize(net.const(net.rng.integers(-127, 128, 8).astype(np.int8)), 0.004, np.int8(0))
    a = net.qdq(net.op("Conv", [x, net.weight(8, 3, 3, 3), b], pads=[1] * 4), 4 / 255, np.uint8(128))
    c = net.op("Conv", [a, net.weight(8, 8, 3, 3, axis=1)], pads=[1] * 4)
    return net.model(net.qdq(c, 4 / 255, np.uint8(128)))


def zero_point_a_channel() -> onnx.ModelProto:
    """Weights with a zero point a channel, which no convolution kernel takes."""
    net = QdqNet(12)
    q, zero = net.integers(8, 3, 3, 3), net.rng.integers(-20, 20, 8).astype(np.int8)
    w = net.dequantize(net.const(q), net.rng.uniform(0.001, 0.003, 8), zero, axis=0)
    a = net.qdq(net.op("Conv", [net.qdq("x", 1 / 255, np.uint8(0)), w], pads=[1] * 4), 4 / 255, np.uint8(128))
    return net.model(net.qdq(net.conv(a, 8, 3), 4 / 255, np.uint8(128)))


def integer_ends() -> onnx.ModelProto:
    """uint8 comes in and uint8 goes out, as in nets made from TFLite files."""
    net = QdqNet(13)
    net.inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 3, SIDE, SIDE])]
    a = net.qdq(net.conv(net.dequantize("x", 1 / 255, np.uint8(0)), 3, 8), 4 / 255, np.uint8(128))
    return net.model(net.quantize(net.conv(a, 8, 3), 4 / 255, np.uint8(128)), dtype=TensorProto.UINT8)


def half_a_condition() -> onnx.ModelProto:
    """Q/DQ inside the branches of an If that stays."""
    net = QdqNet(14)
    a = net.qdq(net.conv(net.qdq("x", 1 / 255, np.uint8(0)), 3, 8), 4 / 255, np.uint8(128))
    mean = net.op("ReduceMean", ["x"], keepdims=0)
    bright = net.op("Greater", [mean, net.const(np.float32(0.5))])
    branches = []
    for name, zero in (("then", 128), ("else", 120)):
        inner = QdqNet(15)
        inner.constants = [
            numpy_helper.from_array(np.float32(3 / 255), f"{name}_s"),
            numpy_helper.from_array(np.uint8(zero), f"{name}_z"),
        ]
        q = helper.make_node("QuantizeLinear", [a, f"{name}_s", f"{name}_z"], [f"{name}_q"], name=f"{name}_quantize")
        d = helper.make_node(
            "DequantizeLinear", [f"{name}_q", f"{name}_s", f"{name}_z"], [f"{name}_d"], name=f"{name}_dequantize"
        )
        out = helper.make_tensor_value_info(f"{name}_d", TensorProto.FLOAT, [1, 8, SIDE, SIDE])
        branches.append(helper.make_graph([q, d], name, [], [out], inner.constants))
    y = net.op("If", [bright], then_branch=branches[0], else_branch=branches[1])
    return net.model(y)


STYLES: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "tensorrt": tensorrt,
    "tensorrt_float_weights": lambda: tensorrt(as_floats=True),
    "one_pair_before_pooling": one_pair_before_pooling,
    "joined_in_float": joined_in_float,
    "asymmetric": asymmetric,
    "per_tensor_uint8_weights": per_tensor_uint8_weights,
    "fake_quant": fake_quant,
    "partly": partly,
    "sixteen_bit": sixteen_bit,
    "four_bit_blocks": four_bit_blocks,
    "batchnorm_behind_quantized_weights": batchnorm_behind_quantized_weights,
    "foreign_bias_scale": foreign_bias_scale,
    "zero_point_a_channel": zero_point_a_channel,
    "integer_ends": integer_ends,
    "half_a_condition": half_a_condition,
}


def feeds(model: onnx.ModelProto, count: int = 3, seed: int = 0) -> Iterator[Arrays]:
    """Inputs in [0, 1], or the whole range of uint8."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        feed = {}
        for value in model.graph.input:
            shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
            integer = value.type.tensor_type.elem_type == TensorProto.UINT8
            feed[value.name] = (
                rng.integers(0, 256, shape, np.uint8) if integer else rng.random(shape).astype(np.float32)
            )
        yield feed


def quantized_by_onnxruntime(model: onnx.ModelProto, samples: list[Arrays], **options: Any) -> onnx.ModelProto:
    """A float net after `onnxruntime.quantization.quantize_static`; options as it takes them."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> Arrays | None:
            return next(self.left, None)

    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        source, result = Path(folder) / "float.onnx", Path(folder) / "quantized.onnx"
        onnx.save(model, source)
        quantize_static(str(source), str(result), Reader(), **options)
        return onnx.load(str(result))

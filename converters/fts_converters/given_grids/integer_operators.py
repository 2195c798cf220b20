"""Quantized operators spelled as DQ -> op -> Q, which is what they are defined to compute.

    QLinearConv(x, w, b) = Q(Conv(DQ(x), DQ(w), DQ(b)))        with the bias on the scale s_x * s_w

Also here: Q and DQ of the com.microsoft domain become those of the standard where these have the types, and constants on
grids of less than 8 bits or in blocks become float constants, exactly: no integer kernel reads them.

Refused, because the scales are computed from the picture or the operator has no spelled form here: ConvInteger,
MatMulInteger, DynamicQuantizeLinear, MatMulNBits and others.

Source: ONNX operator specification; com.microsoft contrib operators of onnxruntime (docs/ContribOperators.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter

from fts.errors import ModelError
from fts_converters.given_grids.grid import DEQUANTIZE, QUANTIZE
from fts_converters.upgrade_opset import opset_of

MICROSOFT = "com.microsoft"
# From this opset on, Q and DQ of the standard know 16 and 4 bits and blocks.
OPSET_OF_16_BITS = 21
WIDE = frozenset({TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16, TensorProto.INT32})
NARROW = frozenset({TensorProto.INT4, TensorProto.UINT4})


class _Refused(Exception):
    """Why an operator cannot be spelled."""


def spell_integer_operators(
    proto: onnx.ModelProto,
    path: Path,
    is_quantized: Callable[[str], object],
    weights: Mapping[str, npt.NDArray[Any]] | None = None,
) -> onnx.ModelProto:
    """Spell every quantized operator.

    Args:
        proto: A valid model without functions; changed in place.
        path: Its file, for messages.
        is_quantized: Whether an operator type is one of a quantized net.
        weights: Values of initializers that are placeholders in `proto` (`LightProto`).

    Returns:
        The model, or a copy in a newer opset where 16-bit Q/DQ of com.microsoft came with an older one.

    Raises:
        ModelError: An operator that cannot be spelled, by name.
    """
    for graph in _graphs(proto.graph):
        _spell_graph(graph, proto.graph, path, is_quantized, weights or {})
    return _with_standard_domain(proto)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node or inner.output:
                    yield from _graphs(inner)


def _spell_graph(
    graph: onnx.GraphProto,
    main: onnx.GraphProto,
    path: Path,
    is_quantized: Callable[[str], object],
    weights: Mapping[str, npt.NDArray[Any]],
) -> None:
    if not any(is_quantized(node.op_type) for node in graph.node):
        return
    writer = _Writer(graph, main, weights)
    for node in graph.node:
        if not is_quantized(node.op_type):
            writer.nodes.append(node)
            continue
        try:
            if node.op_type in (QUANTIZE, DEQUANTIZE):
                _check_q_or_dq(node, writer)
            elif node.op_type in SPELLED:
                SPELLED[node.op_type](node, writer)
            else:
                raise _Refused("it has no spelled form DQ -> operator -> Q with fixed scales")
        except _Refused as refused:
            raise ModelError(
                f"model {str(path)!r}, node {node.name or list(node.output)!r}: the net is already quantized "
                f"({node.op_type}), and its scales cannot be taken over: {refused}. Pass the float net it was made from, "
                "or export it with QuantizeLinear and DequantizeLinear of 8 or 16 bits"
            ) from refused
    nodes = list(writer.nodes)
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(writer.constants)


class _Writer:
    def __init__(self, graph: onnx.GraphProto, main: onnx.GraphProto, weights: Mapping[str, npt.NDArray[Any]]) -> None:
        self._weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._values = {t.name: t for g in (main, graph) for t in g.initializer}
        for node in (*main.node, *graph.node):
            if node.op_type == "Constant":
                self._values.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
        self._types = {v.name: v.type.tensor_type.elem_type for v in (*main.input, *graph.input)}
        self._taken = {name for g in _graphs(main) for n in g.node for name in (*n.input, *n.output, n.name)}
        self._taken |= {v.name for g in _graphs(main) for v in (*g.input, *g.output, *g.initializer)}

    def value(self, name: str) -> npt.NDArray[Any] | None:
        if name in self._weights:
            return self._weights[name]
        return numpy_helper.to_array(self._values[name]) if name in self._values else None

    def elem_type(self, name: str) -> int:
        """ONNX element type of a constant or graph input, 0 when unknown."""
        return int(self._values[name].data_type if name in self._values else self._types.get(name, 0))

    def fresh(self, stem: str) -> str:
        name, count = stem, 1
        while name in self._taken:
            count += 1
            name = f"{stem}#{count}"
        self._taken.add(name)
        return name

    def constant(self, stem: str, values: npt.NDArray[Any]) -> str:
        name = self.fresh(stem)
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def op(self, op_type: str, inputs: Sequence[str], output: str, name: str, **attributes: Any) -> str:
        kept = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(helper.make_node(op_type, list(inputs), [output], name=name, **kept))
        return output

    def dequantize(self, node: onnx.NodeProto, first: int, stem: str, axis: int | None = None) -> str:
        """DQ of the operand whose value, scale and zero point begin at an input."""
        source, scale = node.input[first : first + 2]
        self.require_constant(scale)
        zero = node.input[first + 2] if len(node.input) > first + 2 else ""
        output = self.fresh(f"{node.output[0]}_{stem}")
        name = self.fresh(f"{node.name or node.output[0]}_{stem}")
        return self.op(DEQUANTIZE, [source, scale, *([zero] if zero else [])], output, name, axis=axis)

    def quantize(self, node: onnx.NodeProto, source: str, first: int) -> None:
        """Q of the result, whose scale and zero point begin at an input."""
        self.require_constant(node.input[first])
        zero = node.input[first + 1] if len(node.input) > first + 1 else ""
        name = self.fresh(f"{node.name or node.output[0]}_quantize")
        self.op(QUANTIZE, [source, node.input[first], *([zero] if zero else [])], node.output[0], name)

    def require_constant(self, scale: str) -> None:
        if scale not in self._values:
            raise _Refused(f"its scale {scale!r} is computed")

    def bias(self, node: onnx.NodeProto, position: int, scales: Sequence[str], factor: float = 1.0) -> list[str]:
        """DQ of an int32 bias on the scale that the accumulator has; nothing when there is no bias."""
        if len(node.input) <= position or not node.input[position]:
            return []
        scale = np.float32(factor)
        for name in scales:
            value = self.value(name)
            assert value is not None
            scale = np.asarray(scale * value.reshape(-1), np.float32)
        scale = np.broadcast_to(scale, (scale.size,))
        per_channel = scale.size > 1
        stored = self.constant(f"{node.output[0]}_bias_scale", scale if per_channel else scale.reshape(()))
        output = self.fresh(f"{node.output[0]}_bias")
        name = self.fresh(f"{node.name or node.output[0]}_bias")
        return [self.op(DEQUANTIZE, [node.input[position], stored], output, name, axis=0 if per_channel else None)]


def _attributes(node: onnx.NodeProto, *left_out: str) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name not in left_out}


def _check_q_or_dq(node: onnx.NodeProto, writer: _Writer) -> None:
    attributes = _attributes(node)
    zero = node.input[2] if len(node.input) > 2 else ""
    elem_type = writer.elem_type(zero) if zero else attributes.get("output_dtype", 0)
    if node.op_type == DEQUANTIZE:
        elem_type = elem_type or writer.elem_type(node.input[0])
    values = writer.value(node.input[0])
    if (attributes.get("block_size") or elem_type in NARROW) and values is not None and node.op_type == DEQUANTIZE:
        _fold_dequantize(node, values, attributes, writer)
        return
    if attributes.get("block_size"):
        raise _Refused("it has one scale a block of a tensor that is computed")
    if elem_type and elem_type not in WIDE:
        raise _Refused(f"its integers are of type {TensorProto.DataType.Name(elem_type)}, expected 8 or 16 bits")
    writer.nodes.append(node)


def _fold_dequantize(
    node: onnx.NodeProto, values: npt.NDArray[Any], attributes: Mapping[str, Any], writer: _Writer
) -> None:
    """real = (q - z) * s in float32, s and z repeated over their blocks."""
    scale = writer.value(node.input[1])
    zero = writer.value(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if scale is None or (zero is None and len(node.input) > 2 and node.input[2]):
        raise _Refused("its scale or zero point is computed")
    parts = [scale.astype(np.float32), np.zeros(scale.shape, np.float32) if zero is None else zero.astype(np.float32)]
    axis = int(attributes.get("axis", 1)) % max(values.ndim, 1)
    block = int(attributes.get("block_size", 0))
    if block:
        parts = [np.repeat(p, block, axis=axis).take(range(values.shape[axis]), axis=axis) for p in parts]
    elif scale.size > 1:
        parts = [p.reshape([-1 if a == axis else 1 for a in range(values.ndim)]) for p in parts]
    else:
        parts = [p.reshape(()) for p in parts]
    real = ((values.astype(np.float32) - parts[1]) * parts[0]).astype(scale.dtype)
    stored = writer.constant(f"{node.output[0]}_real", real)
    writer.op("Identity", [stored], node.output[0], node.name)


def _qlinear_conv(node: onnx.NodeProto, writer: _Writer) -> None:
    x, w = writer.dequantize(node, 0, "x"), writer.dequantize(node, 3, "w", axis=0)
    bias = writer.bias(node, 8, [node.input[1], node.input[4]])
    raw = writer.op("Conv", [x, w, *bias], writer.fresh(f"{node.output[0]}_float"), node.name, **_attributes(node))
    writer.quantize(node, raw, 6)


def _qlinear_matmul(node: onnx.NodeProto, writer: _Writer) -> None:
    a, b = writer.dequantize(node, 0, "a", axis=-2), writer.dequantize(node, 3, "b", axis=-1)
    raw = writer.op("MatMul", [a, b], writer.fresh(f"{node.output[0]}_float"), node.name)
    writer.quantize(node, raw, 6)


def _qgemm(node: onnx.NodeProto, writer: _Writer) -> None:
    attributes = _attributes(node)
    a = writer.dequantize(node, 0, "a")
    b = writer.dequantize(node, 3, "b", axis=0 if attributes.get("transB") else 1)
    bias = writer.bias(node, 6, [node.input[1], node.input[4]], float(attributes.get("alpha", 1.0)))
    is_quantized = len(node.input) > 7 and bool(node.input[7])
    raw = writer.fresh(f"{node.output[0]}_float") if is_quantized else node.output[0]
    writer.op("Gemm", [a, b, *bias], raw, node.name, **attributes)
    if is_quantized:
        writer.quantize(node, raw, 7)


def _two_operands(op_type: str) -> Callable[[onnx.NodeProto, _Writer], None]:
    def spell(node: onnx.NodeProto, writer: _Writer) -> None:
        a, b = writer.dequantize(node, 0, "a"), writer.dequantize(node, 3, "b")
        raw = writer.op(op_type, [a, b], writer.fresh(f"{node.output[0]}_float"), node.name)
        writer.quantize(node, raw, 6)

    return spell


def _one_operand(op_type: str) -> Callable[[onnx.NodeProto, _Writer], None]:
    def spell(node: onnx.NodeProto, writer: _Writer) -> None:
        attributes = _attributes(node)
        if attributes.pop("channels_last", 0):
            raise _Refused("it has its channels last")
        if attributes.pop("opset", 13) < 13:
            raise _Refused("it flattens as Softmax did before opset 13")
        x = writer.dequantize(node, 0, "x")
        raw = writer.op(op_type, [x], writer.fresh(f"{node.output[0]}_float"), node.name, **attributes)
        writer.quantize(node, raw, 3)

    return spell


def _qlinear_concat(node: onnx.NodeProto, writer: _Writer) -> None:
    parts = [writer.dequantize(node, p, f"part{p}") for p in range(2, len(node.input), 3)]
    raw = writer.op("Concat", parts, writer.fresh(f"{node.output[0]}_float"), node.name, **_attributes(node))
    writer.quantize(node, raw, 0)


SPELLED: Mapping[str, Callable[[onnx.NodeProto, _Writer], None]] = {
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QGemm": _qgemm,
    "QLinearAdd": _two_operands("Add"),
    "QLinearMul": _two_operands("Mul"),
    "QLinearConcat": _qlinear_concat,
    "QLinearSigmoid": _one_operand("Sigmoid"),
    "QLinearLeakyRelu": _one_operand("LeakyRelu"),
    "QLinearSoftmax": _one_operand("Softmax"),
    "QLinearAveragePool": _one_operand("AveragePool"),
    "QLinearGlobalAveragePool": _one_operand("GlobalAveragePool"),
}


def _with_standard_domain(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Q and DQ of com.microsoft to those of the standard; a net with 16 bits in them is raised to the opset that has them."""
    contrib = [
        n for g in _graphs(proto.graph) for n in g.node if n.domain == MICROSOFT and n.op_type in (QUANTIZE, DEQUANTIZE)
    ]
    if contrib and opset_of(proto) < OPSET_OF_16_BITS and _holds_16_bits(proto):
        try:
            raised = version_converter.convert_version(proto, OPSET_OF_16_BITS)
        except (RuntimeError, onnx.checker.ValidationError):
            return proto  # it stays in its domain, and so in float
        proto = raised
        contrib = [n for g in _graphs(proto.graph) for n in g.node if n.op_type in (QUANTIZE, DEQUANTIZE)]
    for node in contrib:
        node.domain = ""
    return proto


def _holds_16_bits(proto: onnx.ModelProto) -> bool:
    return any(
        t.data_type in (TensorProto.INT16, TensorProto.UINT16) for g in _graphs(proto.graph) for t in g.initializer
    )

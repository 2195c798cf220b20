"""Whole groups in the form of the target's dialect, on the grids that the net came with; all else in float.

    activations   uint8: int8 on zero point z is uint8 on z + 128, the same reals in every bit
    weights       int8 where the dialect has the instructions; else uint8, z + 128, whose sums of u8*u8 products are exact on
                  any x86, or int8 as they are when none is beyond +-64: 2 * 255 * 64 still fits 16 bits
    bias          int32 on the scale s_in * s_w, which is how kernels read it
    float results of a Conv come from ConvInteger, times s_in * s_w; its weights are uint8 always (exact, and packed ahead)
    Relu, Clip    a Clip of the integers behind the Q, or nothing where the grid ends there anyway

An operator in float that reads DQ is kept from being fused by a Max of one tensor in front of it, as in `encode_qdq`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_graphsurgeon as gs

from fts.vocabulary.dialect import Dialect
from fts_converters.given_grids.float_form import float_form
from fts_converters.given_grids.grid import DEQUANTIZE, QUANTIZE, Grid, grid_of, is_dq
from fts_converters.given_grids.integer_units import GivenUnit
from fts_converters.model import Model
from fts_converters.passes.graph_editing import TensorNames
from fts_converters.passes.graph_reading import constant, producer
from fts_converters.passes.name_nodes import name_nodes
from fts_converters.quantize.encode_qdq import (
    CROSSED_BY_ENGINE,
    FUSED_BEHIND_DQ,
    FUSED_BETWEEN_DQ_AND_Q,
    WEIGHTS_QUANTIZED_BY_ENGINE,
)

# Magnitude of int8 weights whose products with uint8 never saturate in 16 bits: 2 * 255 * 64 = 32640 < 32768.
HARMLESS = 64
SIGN = 128
# Operators in front of which a float reader of DQ is kept apart from it.
FUSED = FUSED_BETWEEN_DQ_AND_Q | WEIGHTS_QUANTIZED_BY_ENGINE | FUSED_BEHIND_DQ | CROSSED_BY_ENGINE


def encode_given(model: Model, units: Iterable[GivenUnit], dialect: Dialect) -> onnx.ModelProto:
    """Encode; the model is used up.

    Args:
        model: The net that the units were found in.
        units: Whole groups of it.
        dialect: Says whether the sums of u8*s8 are exact.
    """
    _Encoder(model, list(units), dialect).run()
    name_nodes(model)
    return model.to_proto()


class _Encoder:
    def __init__(self, model: Model, units: list[GivenUnit], dialect: Dialect) -> None:
        self.model = model
        self.graph = model.graph
        self.units = units
        self.is_s8_exact = dialect.weight.bits == 8
        self.names = TensorNames(self.graph)
        self.keep: list[gs.Node] = []
        self.given_dequantizers: list[gs.Node] = []
        self.was_signed: dict[int, bool] = {}
        self.constants: dict[int, tuple[gs.Tensor, gs.Tensor, gs.Tensor]] = {}

    def run(self) -> None:
        quantizers = {id(q): q for u in self.units for q in self._quantizers(u)}
        for quantizer in quantizers.values():
            self._widen(quantizer)
        for unit in self.units:
            if unit.role == "passthrough":
                self._move(unit)
            else:
                self._compute(unit)
        for dequantizer in self.given_dequantizers:
            self._guard_float_readers(dequantizer)
        float_form(self.model, keep={id(n) for n in self.keep})

    def _quantizers(self, unit: GivenUnit) -> list[gs.Node]:
        sources = [producer(dq.inputs[0], QUANTIZE) for dq in unit.operands.values()]
        return [q for q in (*sources, unit.quantizer) if q is not None]

    def _widen(self, quantizer: gs.Node) -> None:
        """Q and all its DQs to uint8."""
        integers = quantizer.outputs[0]
        dequantizers = [r for r in integers.outputs if is_dq(r)]
        self.given_dequantizers += dequantizers
        for node in (quantizer, *dequantizers):
            grid = _known(node)
            self.was_signed[id(node)] = grid.dtype == np.int8
            node.inputs = [node.inputs[0], *self._grid_tensors(node.name, grid.scale.reshape(()), self._u8_zero(grid))]
            node.attrs.clear()
            self.keep.append(node)
        integers.dtype = np.dtype(np.uint8)

    def _compute(self, unit: GivenUnit) -> None:
        node = unit.node
        if node.op == "Conv" and unit.quantizer is None:
            self._compute_to_float(unit)
            return
        for position, dq in unit.operands.items():
            if position == unit.weight or constant(dq.inputs[0]) is not None:
                node.inputs[position] = self._constant(dq, is_weight=position == unit.weight)
            else:
                node.inputs[position] = self._read(dq.inputs[0], dq, node)
        if unit.bias is not None:
            node.inputs = [*node.inputs[:2], self._bias(unit)]
        if unit.quantizer is None:
            return
        quantizer = unit.quantizer
        if unit.activation is not None:
            quantizer.inputs[0] = node.outputs[0]
            unit.activation.inputs.clear()
            unit.activation.outputs.clear()
        if unit.bounds is not None:
            integers = quantizer.outputs[0]
            raw = gs.Variable(self.names.unused(f"{integers.name}_raw"), dtype=np.dtype(np.uint8), shape=integers.shape)
            quantizer.outputs[0] = raw
            self.graph.nodes.append(self._clip(unit, raw, integers, f"{node.name}_clip"))

    def _compute_to_float(self, unit: GivenUnit) -> None:
        """Conv without a Q: ConvInteger, whose sums are exact, times s_in * s_w, plus the bias."""
        node, data, weight = unit.node, _known(unit.operands[0]), _known(unit.operands[1])
        given = np.asarray(constant(unit.operands[1].inputs[0]))
        integers, zero = self._stored(given, weight, is_weight=False)
        shape = (-1, *[1] * (given.ndim - 2))
        scale = np.broadcast_to(weight.scale * data.scale[0], (given.shape[0],)).astype(np.float32).reshape(shape)
        output, shape_out = node.outputs[0], node.outputs[0].shape
        node.op = "ConvInteger"
        node.inputs = [
            unit.operands[0].inputs[0],
            self.names.constant(f"{node.name}_weight_given", integers),
            unit.operands[0].inputs[2],
            self.names.constant(f"{node.name}_weight_zero_point", zero.reshape(-1)[0]),
        ]
        sums = gs.Variable(self.names.unused(f"{node.name}_sums"), dtype=np.dtype(np.int32), shape=shape_out)
        node.outputs = [sums]
        real = self._float_op("Cast", [sums], node, shape_out, to=onnx.TensorProto.FLOAT)
        real = self._float_op("Mul", [real, self.names.constant(f"{node.name}_step", scale)], node, shape_out)
        if unit.bias is not None:
            bias = unit.bias.astype(np.float32).reshape(shape)
            real = self._float_op("Add", [real, self.names.constant(f"{node.name}_bias", bias)], node, shape_out)
        real.inputs[0].outputs[0] = output

    def _float_op(self, op: str, inputs: list[gs.Tensor], like: gs.Node, shape: Any, **attrs: Any) -> gs.Tensor:
        output = gs.Variable(self.names.unused(f"{like.name}_{op}"), dtype=np.dtype(np.float32), shape=shape)
        self.graph.nodes.append(gs.Node(op=op, name=output.name, attrs=attrs, inputs=inputs, outputs=[output]))
        return output

    def _move(self, unit: GivenUnit) -> None:
        """The operator on integers, without DQ and Q."""
        node, quantizer = unit.node, unit.quantizer
        assert quantizer is not None
        source, integers = unit.operands[0].inputs[0], quantizer.outputs[0]
        quantizer.inputs.clear()
        quantizer.outputs.clear()
        node.outputs.clear()
        if unit.bounds is None:
            node.inputs[0] = source
            node.outputs.append(integers)
            return
        node.inputs.clear()
        self.graph.nodes.append(self._clip(unit, source, integers, node.name))

    @staticmethod
    def _u8_zero(grid: Grid) -> npt.NDArray[Any]:
        return (grid.zero_point.reshape(()) + (SIGN if grid.dtype == np.int8 else 0)).astype(np.uint8)

    def _clip(self, unit: GivenUnit, source: gs.Tensor, output: gs.Tensor, name: str) -> gs.Node:
        assert unit.bounds is not None
        assert unit.quantizer is not None
        shift = SIGN if self.was_signed[id(unit.quantizer)] else 0
        ends = [self.names.constant(f"{name}_end", np.array(b + shift, np.uint8)) for b in unit.bounds]
        return gs.Node(op="Clip", name=name, inputs=[source, *ends], outputs=[output])

    def _read(self, integers: gs.Tensor, like: gs.Node, reader: gs.Node) -> gs.Tensor:
        """A DQ of the reader's own: the group is then whole whoever else reads the integers."""
        output = gs.Variable(
            self.names.unused(f"{integers.name}_for_{reader.name}"), dtype=np.dtype(np.float32), shape=integers.shape
        )
        return self._dequantize([integers, *like.inputs[1:]], output)

    def _dequantize(self, inputs: list[gs.Tensor], output: gs.Tensor, axis: int | None = None) -> gs.Tensor:
        attrs = {} if axis is None else {"axis": axis}
        node = gs.Node(op=DEQUANTIZE, name=f"{output.name}_{DEQUANTIZE}", attrs=attrs, inputs=inputs, outputs=[output])
        self.graph.nodes.append(node)
        self.keep.append(node)
        return output

    def _constant(self, dq: gs.Node, *, is_weight: bool) -> gs.Tensor:
        grid = _known(dq)
        if id(dq) not in self.constants:
            integers, zero = self._stored(np.asarray(constant(dq.inputs[0])), grid, is_weight=is_weight)
            scale = grid.scale if grid.axis is not None else grid.scale.reshape(())
            stored = self.names.constant(f"{dq.inputs[0].name}_given", integers)
            self.constants[id(dq)] = (stored, *self._grid_tensors(dq.name, scale, zero))
        output = gs.Variable(self.names.unused(f"{dq.outputs[0].name}_given"), dtype=np.dtype(np.float32))
        return self._dequantize(list(self.constants[id(dq)]), output, grid.axis)

    def _stored(
        self, integers: npt.NDArray[Any], grid: Grid, *, is_weight: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Integers and zero point as the kernel reads them best; their difference is as given."""
        zero = grid.zero_point if grid.axis is not None else grid.zero_point.reshape(())
        wide = integers.astype(np.int32) - (SIGN if grid.dtype == np.uint8 else 0)
        signed_zero = zero - (SIGN if grid.dtype == np.uint8 else 0)
        is_harmless = bool((np.abs(wide) <= HARMLESS).all())
        if is_weight and not signed_zero.any() and (self.is_s8_exact or is_harmless):
            return wide.astype(np.int8), signed_zero.astype(np.int8)
        return (wide + SIGN).astype(np.uint8), (signed_zero + SIGN).astype(np.uint8)

    def _bias(self, unit: GivenUnit) -> gs.Tensor:
        weight, data = _known(unit.operands[1]), _known(unit.operands[0])
        assert unit.bias is not None
        scale = (weight.scale * data.scale[0]).astype(np.float32)
        values = np.rint(unit.bias / scale.astype(np.float64)).astype(np.int32)
        per_channel = weight.axis is not None
        tensors = [
            self.names.constant(f"{unit.node.name}_bias_given", values),
            self.names.constant(f"{unit.node.name}_bias_scale", scale if per_channel else scale.reshape(())),
        ]
        output = gs.Variable(self.names.unused(f"{unit.node.name}_bias_real"), dtype=np.dtype(np.float32))
        return self._dequantize(tensors, output, 0 if per_channel else None)

    def _grid_tensors(
        self, stem: str, scale: npt.NDArray[np.float32], zero: npt.NDArray[Any]
    ) -> tuple[gs.Tensor, gs.Tensor]:
        return self.names.constant(f"{stem}_scale", scale), self.names.constant(f"{stem}_zero_point", zero)

    def _guard_float_readers(self, dequantizer: gs.Node) -> None:
        if not dequantizer.outputs:
            return
        tensor = dequantizer.outputs[0]
        readers = [r for r in tensor.outputs if r.op in FUSED]
        if not readers:
            return
        guarded = gs.Variable(self.names.unused(f"{tensor.name}_in_float"), dtype=tensor.dtype, shape=tensor.shape)
        for reader in readers:
            reader.inputs = [guarded if t is tensor else t for t in reader.inputs]
        self.graph.nodes.append(gs.Node(op="Max", name=guarded.name, inputs=[tensor], outputs=[guarded]))


def _known(node: gs.Node) -> Grid:
    """The grid of a Q or DQ of a unit: `find_given_units` takes no other."""
    grid = grid_of(node)
    assert grid is not None
    return grid

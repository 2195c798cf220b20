"""Write a plan into the graph as whole DQ -> op -> Q units, the form that ONNX Runtime turns into integer kernels.

A pure function of (graph, units, plan, statistics, dialect). For a unit's output O the operator writes `O` under a new
name, Q follows, and whoever reads O in float reads DQ of it under the old name, so that graph outputs and subgraphs keep
their names. It does *not* choose anything: what is int8 is in the plan, what a grid looks like is in the dialect.

Outputs that only float operators read get one grid a channel, although the kernel knows one output scale S and zero
point 0: with the weights' scale multiplied by S / s_c and the bias made b * S / s_c + S * z_c the kernel computes
u = round(y / s_c) + z_c, and the DQ behind it divides channel by channel. The weights keep their integers, so this costs
nothing and loses nothing; what it gains is that a quiet channel is not rounded on the grid of a loud one, which a
normalisation behind it would amplify.

ONNX Runtime fuses every DQ -> op -> Q it has an integer kernel for, also where the plan keeps the operator in float, and
where a DQ has a grid a channel it then refuses the whole graph. So in front of such an operator stands a Max of one
tensor: it is the identity, no optimizer of ONNX Runtime removes it, and the group is no longer whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from fts.vocabulary.dialect import Dialect
from fts.vocabulary.plan import Plan
from fts.vocabulary.quantization import QuantParams, Scheme
from fts_calibration.recovery.weight_update import WeightUpdate
from fts_calibration.statistics.statistics import Statistics
from fts_converters.quantize.check_update import check_update
from fts_converters.quantize.encode_sums import encode_sums
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.interleave_integers import interleave_integers, is_interleaved_alone
from fts_converters.quantize.interleaved_channels import interleaved_channels
from fts_converters.quantize.plan_nodes import FULL_WEIGHT_BITS, SUM_BITS
from fts_converters.quantize.ranges import params_from_range, quantize
from fts_converters.quantize.units import Candidates, Unit
from fts_converters.quantize.weight_grid import weight_grid, weight_integers

# An int32 bias must stay below 2^31; half of it leaves the accumulator as much room as the bias takes.
BIAS_LIMIT = 2.0**30
# uint8 = int8 + 128.
SIGN = 128
# u8*u8 is exact where u8*s8 of 8 bits saturates, so weights of the finer form are unsigned.
FULL_WEIGHTS = Scheme(bits=FULL_WEIGHT_BITS, signed=False, symmetric=False, per_channel=True)
# Least channel scale beside the greatest. A dead channel would else drive the factor S / s_c out of float32.
LEAST_CHANNEL_SCALE = 2.0**-40
# Operators that ONNX Runtime fuses between DQ and Q (its qdq_selector_action_transformer.cc), weights aside.
FUSED_BETWEEN_DQ_AND_Q = frozenset(
    {"Add", "AveragePool", "Concat", "Conv", "GlobalAveragePool", "LeakyRelu", "Mul", "Sigmoid", "Softmax", "Where"}
)
# Those whose float weights and bias it quantizes itself, one scale a tensor, when data comes out of a DQ and goes into a Q
# (its weight_bias_quantization.cc): ConvTranspose would run in float on 8-bit weights.
WEIGHTS_QUANTIZED_BY_ENGINE = frozenset({"Conv", "ConvTranspose", "Gemm"})
# And those it fuses behind DQ alone, whoever reads them.
FUSED_BEHIND_DQ = frozenset({"Gemm", "MatMul"})
# Operators that it removes in front of a Q, or across which it moves a Q or a DQ: a group can reach over them.
CROSSED_BY_ENGINE = frozenset(
    {"Cast", "Clip", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Relu", "Reshape"}
    | {"Resize", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A QDQ graph.

    Attributes:
        model: The graph to build from and to run.
        notes: (node name, text) of weights whose scale had to be enlarged for their bias.
        grids: Of the tensors that are quantized, by their name in the float graph.
    """

    model: onnx.ModelProto
    notes: tuple[tuple[str, str], ...]
    grids: Mapping[str, QuantParams] = field(default_factory=dict)


def encode_qdq(
    index: GraphIndex,
    candidates: Candidates,
    plan: Plan,
    statistics: Statistics,
    dialect: Dialect,
    update: WeightUpdate = WeightUpdate.NONE,
) -> Encoded:
    """Encode the int8 units of a plan.

    Args:
        index: Index of the cleaned FP32 graph.
        candidates: Units of that graph.
        plan: Decisions; a unit is encoded when its main node is int8.
        statistics: Range of every activation of a unit, by tensor name.
        dialect: Grids and the form of the bias.
        update: Weights and biases in the place of the net's own, for the units that are encoded.

    Raises:
        ValueError: A part of the update does not fit the unit that it is for.
    """
    precisions = {n.name: n.precision for n in plan.nodes}
    units = {name: unit for name, unit in candidates.units.items() if precisions.get(name) == "int8"}
    forms = {n.name: (n.weight_bits, n.output_bits) for n in plan.nodes if n.name in units}
    check_update(update, units.values(), index)
    with_channel_grids = frozenset(n.name for n in plan.nodes if n.has_channel_grids)
    return _Encoder(index, units, forms, with_channel_grids, statistics, dialect, update).run()


class _Encoder:
    def __init__(
        self,
        index: GraphIndex,
        units: Mapping[str, Unit],
        forms: Mapping[str, tuple[int, int]],
        with_channel_grids: frozenset[str],
        statistics: Statistics,
        dialect: Dialect,
        update: WeightUpdate,
    ) -> None:
        self.index = index
        self.update = update
        self.units = units
        self.statistics = statistics
        self.dialect = dialect
        self.in_sums = {name for name, (_, output_bits) in forms.items() if output_bits == SUM_BITS}
        self.weight_bits = {name: bits for name, (bits, _) in forms.items()}
        self.by_output = {u.output: u for u in units.values() if u.name not in self.in_sums}
        integer_reads = {a for u in units.values() for a in u.activations}
        self.per_channel = {
            name for name, u in self.by_output.items() if u.name in with_channel_grids and name not in integer_reads
        } & set(statistics.channel_ranges)
        self.interleaved = {name for name in self.per_channel if is_interleaved_alone(name, index)}
        # Where weights have 7 bits, what a sum kernel alone reads of a float tensor is quantized to int8 (`_signed`).
        self.has_signed_sums = dialect.weight.bits < FULL_WEIGHT_BITS
        self.quantized = set(self.by_output) | {
            a for u in units.values() if not (self.has_signed_sums and u.name in self.in_sums) for a in u.activations
        }
        self.members = {n: u for u in units.values() for n in u.nodes}
        graph = index.model.graph
        self.taken = set(index.names)
        self.taken_nodes = {n.name for n in graph.node}
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.integer_name: dict[str, str] = {}
        self.grids: dict[str, QuantParams] = {}
        self.grid_names: dict[str, tuple[str, str]] = {}
        self.signed: dict[str, tuple[str, str]] = {}
        self.notes: list[tuple[str, str]] = []

    def run(self) -> Encoded:
        graph = self.index.model.graph
        for value in graph.input:
            if value.name in self.quantized:
                self._add_quantize(value.name, value.name)
        for name in sorted(self.quantized & set(self.index.initializers)):
            self._add_quantize(name, name)
        for node in graph.node:
            self._add_node(node)
        used = {name for node in self.nodes for name in node.input} | self.index.captured | self.index.outputs
        kept = [self.index.tensor(t.name) for t in graph.initializer if t.name in used]
        kept += [t for t in self.initializers if t.name in used]
        encoded = helper.make_graph(self.nodes, graph.name, list(graph.input), list(graph.output), kept)
        model = helper.make_model(encoded, opset_imports=list(self.index.model.opset_import))
        model.ir_version = self.index.model.ir_version
        model.producer_name = "fts"
        model.functions.extend(self.index.model.functions)
        return Encoded(model=model, notes=tuple(self.notes), grids=dict(self.grids))

    def _add_node(self, node: onnx.NodeProto) -> None:
        unit = self.members.get(node.name)
        if unit is None and node.op_type == "DepthToSpace" and node.input[0] in self.interleaved:
            self._interleave(node)
            return
        if unit is not None and node.name == unit.name and unit.name in self.in_sums:
            self._add_in_sums(node, unit)
            return
        new = onnx.NodeProto()
        new.CopyFrom(node)
        if unit is not None and node.name == unit.name:
            self._quantize_operands(new, unit)
        if unit is None and self._would_be_fused(node):
            first = next(p for p, name in enumerate(node.input) if self._comes_from_integers(name))
            new.input[first] = self._fresh(f"{node.input[first]}_in_float")
            self.nodes.append(
                helper.make_node(
                    "Max", [node.input[first]], [new.input[first]], name=self._fresh_node(f"{node.name}_stays_float")
                )
            )
        self.nodes.append(new)
        for position, name in enumerate(node.output):
            if name in self.by_output:
                raw = self._fresh(f"{name}_float")
                new.output[position] = raw
                self._add_quantize(name, raw)
                if self._is_read_in_float(name) and name not in self.interleaved:
                    self._add_dequantize(name, name)
            elif name in self.quantized:
                self._add_quantize(name, name)

    def _add_in_sums(self, node: onnx.NodeProto, unit: Unit) -> None:
        source, output = unit.activations[0], node.output[0]
        is_unsigned = source in self.by_output or not self.has_signed_sums
        if is_unsigned:
            integers, zero_point = self.integer_name[source], self._grid_tensors(source)[1]
        else:
            integers, zero_point = self._signed(source)
        self.nodes += encode_sums(
            node,
            unit,
            self.index,
            integers,
            float(self._grid(source).scale[0]),
            zero_point,
            FULL_WEIGHT_BITS if is_unsigned else self.dialect.weight.bits,
            output,
            self._weight(unit),
            self.update.weight_scales.get(unit.weight),
            self._bias(unit),
            self._add_initializer,
            self._fresh,
        )
        if output in self.quantized:
            self._add_quantize(output, output)

    def _signed(self, name: str) -> tuple[str, str]:
        """A float tensor on the same grid as int8 instead of uint8: its integers and zero point."""
        if name not in self.signed:
            scale, _ = self._grid_tensors(name)
            zero = self._grid(name).zero_point.reshape(()) - SIGN
            zero_name = self._add_initializer(f"{name}_signed_zero_point", zero.astype(np.int8))
            integers = self._fresh(f"{name}_signed")
            self._append("QuantizeLinear", [name, scale, zero_name], integers, name)
            self.signed[name] = integers, zero_name
        return self.signed[name]

    def _interleave(self, node: onnx.NodeProto) -> None:
        """DepthToSpace on the integers; channels that become one have one grid, so DQ may follow it."""
        name, output = node.input[0], node.output[0]
        shape = self.index.shape(name)
        assert shape is not None
        moved = self._fresh(f"{output}_quantized")
        self.nodes += interleave_integers(
            node, self.integer_name[name], moved, shape, self._add_initializer, self._fresh
        )
        grid = self._grid(name)
        first = [int(places[0]) for places in interleaved_channels(name, shape[1], self.index)]
        scale = self._add_initializer(f"{output}_scale", grid.scale[first])
        zero = self._add_initializer(f"{output}_zero_point", grid.zero_point[first].astype(grid.scheme.storage))
        self._append("DequantizeLinear", [moved, scale, zero], output, output, axis=1)

    def _quantize_operands(self, node: onnx.NodeProto, unit: Unit) -> None:
        for position, name in enumerate(node.input):
            if not name:
                continue
            if name == unit.weight and position == 1:
                grid = self._weight_grid(unit)
                weight = _along(self._weight(unit), self._output_factor(unit), unit.weight_axis)
                integers = weight_integers(weight, grid, self._pair_sum_limit(unit))
                node.input[position] = self._add_integers(name, integers, grid, unit)
                if self._bias(unit) is not None or unit.output in self.per_channel:
                    del node.input[2:]
                    node.input.append(self._add_bias(unit, grid))
            elif name in unit.activations:
                read = self._fresh(f"{name}_dequantized")
                self._add_dequantize(name, read)
                node.input[position] = read
            elif name in unit.constants:
                node.input[position] = self._add_constant(name, self.index.array(name), self._constant_grid(name), unit)

    def _would_be_fused(self, node: onnx.NodeProto) -> bool:
        """Would ONNX Runtime make an integer kernel, or integer weights, of a node that the plan keeps in float?"""
        if node.op_type not in FUSED_BETWEEN_DQ_AND_Q | WEIGHTS_QUANTIZED_BY_ENGINE | FUSED_BEHIND_DQ:
            return False
        goes_to_integers = self._goes_to_integers(node.output[0])
        if (
            node.op_type in WEIGHTS_QUANTIZED_BY_ENGINE
            and goes_to_integers
            and self._comes_from_integers(node.input[0])
        ):
            return True
        if not goes_to_integers and node.op_type not in FUSED_BEHIND_DQ:
            return False
        floats = [i for i in node.input if i and self.index.dtype(i) == "float32"]
        return bool(floats) and all(self._comes_from_integers(i) for i in floats)

    def _comes_from_integers(self, name: str) -> bool:
        producer = self.index.producers.get(name)
        if name in self.by_output or producer is None or producer.op_type not in CROSSED_BY_ENGINE:
            return name in self.by_output
        return self._comes_from_integers(producer.input[0])

    def _goes_to_integers(self, name: str) -> bool:
        readers: Iterable[onnx.NodeProto] = self.index.readers.get(name, ())
        passed = (o for r in readers if r.op_type in CROSSED_BY_ENGINE for o in r.output)
        return name in self.quantized or any(self._goes_to_integers(p) for p in passed)

    def _is_read_in_float(self, name: str) -> bool:
        if name in self.index.outputs or name in self.index.captured:
            return True
        readers: Iterable[onnx.NodeProto] = self.index.readers.get(name, ())
        return any(r.name not in self.units or name not in self.units[r.name].activations for r in readers)

    def _grid(self, name: str) -> QuantParams:
        """Grid of an activation; behind a unit that only moves values it is the grid in front of it."""
        if name not in self.grids:
            unit = self.by_output.get(name)
            if unit is not None and unit.role == "passthrough":
                self.grids[name] = self._grid(unit.activations[0])
            elif name in self.per_channel:
                seen_by_channel = self.statistics.channel_ranges[name]
                low = np.array([r.low for r in seen_by_channel], np.float32)
                high = np.array([r.high for r in seen_by_channel], np.float32)
                for places in interleaved_channels(name, len(low), self.index):
                    low[places], high[places] = low[places].min(), high[places].max()
                self.grids[name] = _audible(params_from_range(low, high, self.dialect.activation, axis=1), low, high)
            else:
                seen = self.statistics.ranges[name]
                low, high = np.array([seen.low], np.float32), np.array([seen.high], np.float32)
                self.grids[name] = params_from_range(low, high, self.dialect.activation)
        return self.grids[name]

    def _constant_grid(self, name: str) -> QuantParams:
        values = self.index.array(name)
        low, high = values.min(initial=0.0), values.max(initial=0.0)
        bounds = np.array([low], np.float32), np.array([high], np.float32)
        return params_from_range(*bounds, self.dialect.activation)

    def _weight_grid(self, unit: Unit) -> QuantParams:
        """Weight scales as the kernel sees them, enlarged where the int32 bias in steps of s_in * s_w would overflow."""
        scheme = FULL_WEIGHTS if self._has_full_weights(unit) else self.dialect.weight
        grid = weight_grid(self._weight(unit), scheme, unit.weight_axis, self._pair_sum_limit(unit))
        if unit.weight in self.update.weight_scales:
            grid = replace(grid, scale=self.update.weight_scales[unit.weight])
        bias = self._kernel_bias(unit)
        factor = self._output_factor(unit)
        scale = grid.scale.astype(np.float64) * factor
        if bias is not None and self.dialect.bias_bits is not None:
            least = np.abs(bias) / (BIAS_LIMIT * float(self._grid(unit.activations[0]).scale[0]))
            least = least if unit.weight_axis is not None else least.max(initial=0.0, keepdims=True)
            count = int((least > scale).sum())
            if count:
                text = f"{count} of {scale.size} weight scales enlarged, since the bias would overflow 32 bits"
                self.notes.append((unit.name, text))
            scale = np.maximum(scale, least)
        return QuantParams(
            scale=scale.astype(np.float32), zero_point=grid.zero_point, scheme=grid.scheme, axis=grid.axis
        )

    def _has_full_weights(self, unit: Unit) -> bool:
        return self.weight_bits[unit.name] != self.dialect.weight.bits

    def _pair_sum_limit(self, unit: Unit) -> int | None:
        return None if self._has_full_weights(unit) else self.dialect.pair_sum_limit

    def _output_factor(self, unit: Unit) -> npt.NDArray[np.float64]:
        """S / s_c for outputs with one grid a channel, 1 for all others."""
        if unit.output not in self.per_channel:
            return np.ones(1)
        return _kernel_output_scale(self._grid(unit.output)) / self._grid(unit.output).scale.astype(np.float64)

    def _kernel_bias(self, unit: Unit) -> npt.NDArray[np.float64] | None:
        """The bias that the kernel adds, in real numbers; None without one."""
        bias = self._bias(unit)
        if unit.output not in self.per_channel:
            return bias
        grid = self._grid(unit.output)
        shift = _kernel_output_scale(grid) * grid.zero_point.astype(np.float64)
        return shift if bias is None else bias * self._output_factor(unit) + shift

    def _weight(self, unit: Unit) -> npt.NDArray[np.float32]:
        """The unit's weight before it is rounded."""
        own: npt.NDArray[np.float32] = self.index.array(unit.weight)
        return self.update.weights.get(unit.weight, own)

    def _bias(self, unit: Unit) -> npt.NDArray[np.float64] | None:
        """The unit's bias before it is rounded, (C,); None without one."""
        if unit.name in self.update.biases:
            return self.update.biases[unit.name].astype(np.float64)
        return self.index.array(unit.bias).astype(np.float64).reshape(-1) if unit.bias else None

    def _add_bias(self, unit: Unit, weight_grid: QuantParams) -> str:
        bias = self._kernel_bias(unit)
        assert bias is not None
        stem = unit.bias or f"{unit.output}_bias"
        scale = (weight_grid.scale * self._grid(unit.activations[0]).scale[0]).astype(np.float32)
        values = np.rint(bias / scale.astype(np.float64)).astype(np.int32)
        integers = self._add_initializer(f"{stem}_quantized", values)
        per_channel = unit.weight_axis is not None
        scale_name = self._add_initializer(f"{stem}_scale", scale if per_channel else scale.reshape(()))
        output = self._fresh(f"{stem}_dequantized")
        axis = {"axis": 0} if per_channel else {}
        self._append("DequantizeLinear", [integers, scale_name], output, f"{unit.name}_bias", **axis)
        return output

    def _add_constant(self, name: str, values: npt.NDArray[np.float32], grid: QuantParams, unit: Unit) -> str:
        return self._add_integers(name, quantize(values, grid), grid, unit)

    def _add_integers(self, name: str, values: npt.NDArray[np.generic], grid: QuantParams, unit: Unit) -> str:
        integers = self._add_initializer(f"{name}_quantized", values)
        output = self._fresh(f"{name}_dequantized")
        per_channel = grid.axis is not None
        scale = grid.scale if per_channel else grid.scale.reshape(())
        zero = grid.zero_point.astype(grid.scheme.storage)
        scale_name = self._add_initializer(f"{name}_scale", scale)
        zero_name = self._add_initializer(f"{name}_zero_point", zero if per_channel else zero.reshape(()))
        axis = {"axis": grid.axis} if per_channel else {}
        self._append("DequantizeLinear", [integers, scale_name, zero_name], output, f"{unit.name}_{name}", **axis)
        return output

    def _grid_tensors(self, name: str) -> tuple[str, str]:
        """Scale and zero point of a tensor as initializers."""
        if name not in self.grid_names:
            grid = self._grid(name)
            shape = (-1,) if grid.axis is not None else ()
            self.grid_names[name] = (
                self._add_initializer(f"{name}_scale", grid.scale.reshape(shape)),
                self._add_initializer(f"{name}_zero_point", grid.zero_point.astype(grid.scheme.storage).reshape(shape)),
            )
        return self.grid_names[name]

    def _kernel_grid_tensors(self, name: str) -> tuple[str, str]:
        """Scale and zero point of the Q behind a kernel: one for the tensor, whatever its channels have."""
        if name not in self.per_channel:
            return self._grid_tensors(name)
        grid = self._grid(name)
        scale = np.array(_kernel_output_scale(grid), np.float32)
        zero = np.array(0, grid.scheme.storage)
        return self._add_initializer(f"{name}_kernel_scale", scale), self._add_initializer(f"{name}_kernel_zero", zero)

    def _add_quantize(self, name: str, source: str) -> None:
        scale, zero_point = self._kernel_grid_tensors(name)
        self.integer_name[name] = self._fresh(f"{name}_quantized")
        self._append("QuantizeLinear", [source, scale, zero_point], self.integer_name[name], name)

    def _add_dequantize(self, name: str, output: str) -> None:
        scale, zero_point = self._grid_tensors(name)
        axis = {} if self._grid(name).axis is None else {"axis": self._grid(name).axis}
        self._append("DequantizeLinear", [self.integer_name[name], scale, zero_point], output, output, **axis)

    def _append(self, op_type: str, inputs: list[str], output: str, stem: str, **attributes: Any) -> None:
        name = self._fresh_node(f"{stem}_{op_type}")
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))

    def _add_initializer(self, stem: str, values: npt.NDArray[np.generic]) -> str:
        name = self._fresh(stem)
        self.initializers.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def _fresh(self, stem: str) -> str:
        return _unique(stem, self.taken)

    def _fresh_node(self, stem: str) -> str:
        return _unique(stem, self.taken_nodes)


def _audible(grid: QuantParams, low: npt.NDArray[np.float32], high: npt.NDArray[np.float32]) -> QuantParams:
    """The same grid with no channel's scale below LEAST_CHANNEL_SCALE of the greatest."""
    least = float(grid.scale.max()) * LEAST_CHANNEL_SCALE
    span = least * (grid.scheme.qmax - grid.scheme.qmin)
    return params_from_range(low, np.maximum(high, np.minimum(low, 0.0) + np.float32(span)), grid.scheme, grid.axis)


def _kernel_output_scale(grid: QuantParams) -> float:
    """S: any positive number does; the greatest channel scale keeps the factors S / s_c at 1 or more."""
    return float(grid.scale.max())


def _along(
    values: npt.NDArray[np.float32], factor: npt.NDArray[np.float64], axis: int | None
) -> npt.NDArray[np.float32]:
    """Multiply along an axis."""
    if axis is None or factor.size == 1:
        return values
    shape = [1] * values.ndim
    shape[axis] = -1
    return (values * factor.reshape(shape)).astype(np.float32)


def _unique(stem: str, taken: set[str]) -> str:
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem}#{count}"
    taken.add(name)
    return name

"""Write a plan into the graph as whole DQ -> op -> Q units, the form that ONNX Runtime turns into integer kernels.

A pure function of (graph, units, plan, statistics, dialect). For a unit's output O the operator writes `O` under a new
name, Q follows, and whoever reads O in float reads DQ of it under the old name, so that graph outputs and subgraphs keep
their names. It does *not* choose anything: what is int8 is in the plan, what a grid looks like is in the dialect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from fts.vocabulary.dialect import Dialect
from fts.vocabulary.plan import Plan
from fts.vocabulary.quantization import QuantParams
from fts_calibration.statistics.statistics import Statistics
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.ranges import params_from_range, quantize, weight_params
from fts_converters.quantize.units import Candidates, Unit

# An int32 bias must stay below 2^31; half of it leaves the accumulator as much room as the bias takes.
BIAS_LIMIT = 2.0**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A QDQ graph.

    Attributes:
        model: The graph to build from and to run.
        notes: (node name, text) of weights whose scale had to be enlarged for their bias.
    """

    model: onnx.ModelProto
    notes: tuple[tuple[str, str], ...]


def encode_qdq(
    index: GraphIndex, candidates: Candidates, plan: Plan, statistics: Statistics, dialect: Dialect
) -> Encoded:
    """Encode the int8 units of a plan.

    Args:
        index: Index of the cleaned FP32 graph.
        candidates: Units of that graph.
        plan: Decisions; a unit is encoded when its main node is int8.
        statistics: Range of every activation of a unit, by tensor name.
        dialect: Grids and the form of the bias.
    """
    precisions = {n.name: n.precision for n in plan.nodes}
    units = {name: unit for name, unit in candidates.units.items() if precisions.get(name) == "int8"}
    return _Encoder(index, units, statistics, dialect).run()


class _Encoder:
    def __init__(self, index: GraphIndex, units: Mapping[str, Unit], statistics: Statistics, dialect: Dialect) -> None:
        self.index = index
        self.units = units
        self.statistics = statistics
        self.dialect = dialect
        self.by_output = {u.output: u for u in units.values()}
        self.quantized = set(self.by_output) | {a for u in units.values() for a in u.activations}
        self.members = {n: u for u in units.values() for n in u.nodes}
        graph = index.model.graph
        self.taken = {*index.producers, *index.readers, *index.initializers, *(i.name for i in graph.input)}
        self.taken_nodes = {n.name for n in graph.node}
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.integer_name: dict[str, str] = {}
        self.grids: dict[str, QuantParams] = {}
        self.grid_names: dict[str, tuple[str, str]] = {}
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
        kept = [t for t in (*graph.initializer, *self.initializers) if t.name in used]
        encoded = helper.make_graph(self.nodes, graph.name, list(graph.input), list(graph.output), kept)
        model = helper.make_model(encoded, opset_imports=list(self.index.model.opset_import))
        model.ir_version = self.index.model.ir_version
        model.producer_name = "fts"
        model.functions.extend(self.index.model.functions)
        return Encoded(model=model, notes=tuple(self.notes))

    def _add_node(self, node: onnx.NodeProto) -> None:
        unit = self.members.get(node.name)
        new = onnx.NodeProto()
        new.CopyFrom(node)
        if unit is not None and node.name == unit.name:
            self._quantize_operands(new, unit)
        self.nodes.append(new)
        for position, name in enumerate(node.output):
            if name in self.by_output:
                raw = self._fresh(f"{name}_float")
                new.output[position] = raw
                self._add_quantize(name, raw)
                if self._is_read_in_float(name):
                    self._add_dequantize(self.integer_name[name], name, self._grid(name), name)
            elif name in self.quantized:
                self._add_quantize(name, name)

    def _quantize_operands(self, node: onnx.NodeProto, unit: Unit) -> None:
        for position, name in enumerate(node.input):
            if not name:
                continue
            if name == unit.weight and position == 1:
                grid = self._weight_grid(unit)
                node.input[position] = self._add_constant(name, self.index.array(name), grid, unit)
                if unit.bias:
                    node.input[2] = self._add_bias(unit, grid)
            elif name in unit.activations:
                read = self._fresh(f"{name}_dequantized")
                self._add_dequantize(self.integer_name[name], read, self._grid(name), name)
                node.input[position] = read
            elif name in unit.constants:
                node.input[position] = self._add_constant(name, self.index.array(name), self._constant_grid(name), unit)

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
        """Weight scales, enlarged where the int32 bias in steps of s_in * s_w would overflow."""
        grid = weight_params(self.index.array(unit.weight), self.dialect.weight, unit.weight_axis)
        if not unit.bias or self.dialect.bias_bits is None:
            return grid
        bias = np.abs(self.index.array(unit.bias).astype(np.float64).reshape(-1))
        least = bias / (BIAS_LIMIT * float(self._grid(unit.activations[0]).scale[0]))
        least = least if unit.weight_axis is not None else least.max(initial=0.0, keepdims=True)
        enlarged = np.maximum(grid.scale.astype(np.float64), least).astype(np.float32)
        count = int((enlarged > grid.scale).sum())
        if count:
            self.notes.append(
                (unit.name, f"{count} of {enlarged.size} weight scales enlarged, since the bias would overflow 32 bits")
            )
        return QuantParams(scale=enlarged, zero_point=grid.zero_point, scheme=grid.scheme, axis=grid.axis)

    def _add_bias(self, unit: Unit, weight_grid: QuantParams) -> str:
        bias = self.index.array(unit.bias).astype(np.float64).reshape(-1)
        scale = (weight_grid.scale * self._grid(unit.activations[0]).scale[0]).astype(np.float32)
        values = np.rint(bias / scale.astype(np.float64)).astype(np.int32)
        integers = self._add_initializer(f"{unit.bias}_quantized", values)
        per_channel = unit.weight_axis is not None
        scale_name = self._add_initializer(f"{unit.bias}_scale", scale if per_channel else scale.reshape(()))
        output = self._fresh(f"{unit.bias}_dequantized")
        axis = {"axis": 0} if per_channel else {}
        self._append("DequantizeLinear", [integers, scale_name], output, f"{unit.name}_bias", **axis)
        return output

    def _add_constant(self, name: str, values: npt.NDArray[np.float32], grid: QuantParams, unit: Unit) -> str:
        integers = self._add_initializer(f"{name}_quantized", quantize(values, grid))
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
        if name not in self.grid_names:
            grid = self._grid(name)
            zero = grid.zero_point.astype(grid.scheme.storage).reshape(())
            self.grid_names[name] = (
                self._add_initializer(f"{name}_scale", grid.scale.reshape(())),
                self._add_initializer(f"{name}_zero_point", zero),
            )
        return self.grid_names[name]

    def _add_quantize(self, name: str, source: str) -> None:
        scale, zero_point = self._grid_tensors(name)
        self.integer_name[name] = self._fresh(f"{name}_quantized")
        self._append("QuantizeLinear", [source, scale, zero_point], self.integer_name[name], name)

    def _add_dequantize(self, integers: str, output: str, grid: QuantParams, name: str) -> None:
        scale, zero_point = self._grid_tensors(name)
        self._append("DequantizeLinear", [integers, scale, zero_point], output, output)

    def _append(self, op_type: str, inputs: list[str], output: str, stem: str, **attributes: object) -> None:
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


def _unique(stem: str, taken: set[str]) -> str:
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem}#{count}"
    taken.add(name)
    return name

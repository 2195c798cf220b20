"""A net, the plan for it and all that encoding takes, as one value: what every rung of recovery works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import onnx

from fts.vocabulary.dialect import Dialect
from fts.vocabulary.plan import Plan
from fts.vocabulary.quantization import QuantParams, Scheme
from fts_calibration.recovery.weight_update import FloatArray, WeightUpdate
from fts_calibration.statistics.statistics import Statistics
from fts_converters.quantize.check_update import TAKES_BIAS
from fts_converters.quantize.encode_qdq import encode_qdq
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.plan_nodes import SUM_BITS
from fts_converters.quantize.units import Candidates, Unit
from fts_converters.quantize.weight_grid import PAIRED, weight_grid, weight_integers

Feed = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightForm:
    """A symmetric grid of weights, seen from its middle.

    Attributes:
        scheme: Bits and symmetry; an engine may store it around another number.
        pair_sum_limit: See `Dialect`.
    """

    scheme: Scheme
    pair_sum_limit: int | None = None

    @property
    def most(self) -> int:
        """Greatest integer."""
        return PAIRED.qmax if self.pair_sum_limit is not None else self.scheme.qmax


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedNet:
    """What recovery starts from.

    Attributes:
        index: Of the float net.
        candidates: Its units.
        plan: What is int8.
        statistics: Ranges.
        dialect: Grids.
        feeds: The calibrate split, read anew at each call.
        exact_u8s8: As `open_session`.
    """

    index: GraphIndex
    candidates: Candidates
    plan: Plan
    statistics: Statistics
    dialect: Dialect
    feeds: Callable[[], Iterable[Feed]]
    exact_u8s8: bool

    def encode(self, update: WeightUpdate) -> onnx.ModelProto:
        """The quantized net."""
        return encode_qdq(self.index, self.candidates, self.plan, self.statistics, self.dialect, update).model

    def weighted_units(self) -> list[Unit]:
        """Units in INT8 with a constant weight, in the order of the graph."""
        planned = {n.name for n in self.plan.nodes if n.precision == "int8"}
        return [u for u in self.candidates.units.values() if u.name in planned and u.weight]

    def weight_form(self, unit: Unit) -> WeightForm:
        """Which integers the weights of a unit may be under the plan."""
        node = self.plan.by_name()[unit.name]
        usual = self.dialect.weight
        if node.output_bits == SUM_BITS:
            return WeightForm(scheme=replace(usual, signed=True, symmetric=True))
        if node.weight_bits != usual.bits:
            return WeightForm(scheme=replace(usual, bits=node.weight_bits))
        return WeightForm(scheme=usual, pair_sum_limit=self.dialect.pair_sum_limit)

    def own_bias(self, unit: Unit) -> FloatArray:
        """The float net's bias of a unit, (C,): zeros where it has none."""
        if unit.bias:
            return np.asarray(self.index.array(unit.bias), np.float32).reshape(-1)
        shape = self.index.shape(unit.weight)
        assert shape is not None
        assert unit.weight_axis is not None
        return np.zeros(shape[unit.weight_axis], np.float32)

    def bias_matters(self, unit: Unit) -> bool:
        """Does the unit's kernel add a bias, and does what reads it keep the mean of a channel?"""
        if unit.op_type not in TAKES_BIAS:
            return False
        readers = self.index.readers.get(unit.output, [])
        is_seen = unit.output in self.index.outputs or unit.output in self.index.captured
        return is_seen or not all(r.op_type == "InstanceNormalization" for r in readers)

    def rounded_weight(self, unit: Unit, update: WeightUpdate) -> FloatArray:
        """The weight that the unit's kernel computes with under an update."""
        weight = update.weights.get(unit.weight, self.index.array(unit.weight))
        form = self.weight_form(unit)
        grid = weight_grid(weight, form.scheme, unit.weight_axis, form.pair_sum_limit)
        scale = update.weight_scales.get(unit.weight, grid.scale)
        grid = QuantParams(scale=scale, zero_point=grid.zero_point, scheme=grid.scheme, axis=grid.axis)
        steps = weight_integers(weight, grid, form.pair_sum_limit).astype(np.float32)
        shape = [1] * weight.ndim
        if unit.weight_axis is not None:
            shape[unit.weight_axis] = -1
        return (steps - grid.zero_point.astype(np.float32).reshape(shape)) * scale.reshape(shape)

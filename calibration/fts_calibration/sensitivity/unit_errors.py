"""What rounding does at a unit's own output while all in front of it is FP32: the unit runs by itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx

from fts.engines.onnxruntime_session import OrtSession, open_session
from fts_calibration.sensitivity.exhaustive import Measurement
from fts_calibration.sensitivity.float_net import FloatNet, part_of
from fts_calibration.sensitivity.table import UnitTensors

Arrays = Mapping[str, npt.NDArray[np.generic]]


class UnitErrors:
    """One session a unit, of no more than the unit's own nodes.

    Attributes:
        outputs: Unit name to the float tensor at which its error is seen.
        inputs: Unit name to the FP32 tensors that it needs.
    """

    def __init__(self, given: Measurement) -> None:
        self.outputs: dict[str, str] = {}
        self.inputs: dict[str, tuple[str, ...]] = {}
        self._sessions: dict[str, OrtSession] = {}
        types = given.net.types
        for unit in given.units:
            encoded = given.encode(unit.name)
            output = _first_float(encoded, given.net, unit)
            moved = given.net.behind(unit.name)
            starts = [types[name] for name in types if name in given.net.inputs or name in given.net.producer]
            part = part_of(encoded, [types[output]], [value for value in starts if value.name not in moved])
            self.outputs[unit.name] = output
            self.inputs[unit.name] = tuple(value.name for value in part.graph.input)
            self._sessions[unit.name] = open_session(
                part.SerializeToString(), exact_u8s8=given.exact_u8s8, what=f"unit {unit.name!r} of the encoded graph"
            )

    def tensors(self, unit: str) -> tuple[str, ...]:
        """FP32 tensors that `of` reads."""
        return (*self.inputs[unit], self.outputs[unit])

    def of(self, unit: str, values: Arrays) -> npt.NDArray[np.float64]:
        """INT8 less FP32 at the unit's output.

        Args:
            unit: Name of one of the measurement's.
            values: FP32 tensors of one sample, those of `tensors` among them.
        """
        (found,) = self._sessions[unit].run({name: values[name] for name in self.inputs[unit]})
        return found.astype(np.float64) - values[self.outputs[unit]].astype(np.float64)


def _first_float(encoded: onnx.ModelProto, net: FloatNet, unit: UnitTensors) -> str:
    """The unit's output, or the first tensor behind it that is float: a move of data may be done on integers."""
    made = {name for node in encoded.graph.node for name in node.output}
    name = unit.output
    while name not in made:
        name = net.first_behind(name)
    return name

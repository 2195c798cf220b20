"""The part of a net that has to run when one unit of it is quantized: what depends on the unit, and what that needs.

All in front of the unit is what it is in FP32, so the part begins at FP32 tensors that were kept. ONNX Runtime fuses
operators differently around a cut, so that the numbers agree with those of the whole net up to float32's rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import onnx

from fts_calibration.sensitivity.float_net import FloatNet, part_of
from fts_calibration.sensitivity.table import UnitTensors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Suffix:
    """What to run for one unit.

    Attributes:
        model: The part; its inputs are kept tensors. None where no output asked for depends on the unit.
        macs: Multiply-accumulates of one inference of it.
    """

    model: onnx.ModelProto | None
    macs: int


def suffix_of(
    encoded: onnx.ModelProto, net: FloatNet, unit: UnitTensors, kept: Iterable[str], outputs: Sequence[str]
) -> Suffix:
    """Cut an encoded net in front of its one quantized unit.

    Args:
        encoded: The net with this unit alone in INT8; float tensors and nodes have the names that they have in `net`.
        net: The FP32 net.
        unit: The unit.
        kept: Tensors at which the part may begin, the net's inputs among them.
        outputs: Outputs of the net that are of interest.
    """
    moved = net.behind(unit.name)
    wanted = [name for name in outputs if name in moved]
    if not wanted:
        return Suffix(model=None, macs=0)
    given = [net.types[name] for name in kept if name not in moved]
    model = part_of(encoded, [net.types[name] for name in wanted], given)
    return Suffix(model=model, macs=sum(net.macs.get(node.name, 0) for node in model.graph.node))

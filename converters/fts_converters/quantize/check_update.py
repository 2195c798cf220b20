"""Does a weight update fit the units that it is for? A wrong one is a wrong call, never a wrong net."""

from __future__ import annotations

from collections.abc import Iterable

from fts_calibration.recovery.weight_update import WeightUpdate
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.units import Unit

# Operators whose kernel adds a bias, one value an output channel.
TAKES_BIAS = ("Conv", "ConvTranspose", "Gemm")


def check_update(update: WeightUpdate, units: Iterable[Unit], index: GraphIndex) -> None:
    """Check shapes and scales of an update.

    A weight tensor may be shared: all its units take the new values. Scales run along one axis, so units that share a
    tensor and read it along different axes can have none in common.

    Raises:
        ValueError: A part of the update does not fit; names the unit.
    """
    axes: dict[str, int | None] = {}
    for unit in units:
        if unit.weight in update.weight_scales and axes.setdefault(unit.weight, unit.weight_axis) != unit.weight_axis:
            raise ValueError(
                f"weight {unit.weight!r}: update with scales, but {unit.name!r} reads it along axis {unit.weight_axis} and "
                f"another unit along {axes[unit.weight]}: no scales fit different axes"
            )
        _check_unit(update, unit, index)


def _check_unit(update: WeightUpdate, unit: Unit, index: GraphIndex) -> None:
    weight, scales = update.weights.get(unit.weight), update.weight_scales.get(unit.weight)
    bias = update.biases.get(unit.name)
    shape = index.shape(unit.weight) if unit.weight else None
    channels = 1 if shape is None or unit.weight_axis is None else shape[unit.weight_axis]
    if weight is not None and weight.shape != shape:
        raise ValueError(f"weight {unit.weight!r} of {unit.name!r}: update of shape {weight.shape}, expected {shape}")
    if scales is not None and (scales.shape != (channels,) or not (scales > 0).all()):
        raise ValueError(
            f"weight {unit.weight!r} of {unit.name!r}: found {scales}, expected {channels} positive scales"
        )
    if bias is not None and (unit.op_type not in TAKES_BIAS or bias.shape != (channels,)):
        raise ValueError(
            f"{unit.op_type} {unit.name!r}: bias of shape {bias.shape}, expected ({channels},) and one of {TAKES_BIAS}"
        )

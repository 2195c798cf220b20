"""Histograms for the report: what the tensors that matter most held in calibration, and what their grids can hold.

Few tensors and few bins, so that a report stays small however deep the net is: those that the units reading and writing them
lose most by, worst unit first, or where nothing was measured those of the units with the most work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fts.vocabulary.quantization import QuantParams
from fts_calibration.statistics.histogram import Histogram
from fts_converters.quantize.search_budget import UnitLoss
from fts_converters.quantize.units import Candidates

MOST_TENSORS = 12
# Neighbouring bins are put together until no more than these are left; then there are more than half of them.
MOST_BINS = 96


def calibration_histograms(
    histograms: Mapping[str, Histogram],
    grids: Mapping[str, QuantParams],
    candidates: Candidates,
    losses: Sequence[UnitLoss],
) -> list[dict[str, Any]]:
    """Entries of report.json, most important first.

    Args:
        histograms: By tensor name, over the calibrate split in FP32.
        grids: By name, of the tensors that are quantized.
        candidates: Units of the net.
        losses: Units measured alone, worst first.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in _units_by_weight(candidates, losses):
        unit = candidates.units[name]
        for tensor in (*unit.activations, unit.output):
            seen = histograms.get(tensor)
            if tensor in grids and tensor not in found and seen is not None and seen.total:
                found[tensor] = {"tensor": tensor, "unit": name, **_entry(seen, grids[tensor])}
            if len(found) == MOST_TENSORS:
                return list(found.values())
    return list(found.values())


def _units_by_weight(candidates: Candidates, losses: Sequence[UnitLoss]) -> list[str]:
    measured = [loss.unit for loss in losses if loss.unit in candidates.units]
    others = [u for u in candidates.units.values() if u.name not in set(measured)]
    return [*measured, *(u.name for u in sorted(others, key=lambda u: -u.macs))]


def _entry(seen: Histogram, grid: QuantParams) -> dict[str, Any]:
    low, high, counts = _rebinned(seen)
    entry: dict[str, Any] = {"low": low, "high": high, "counts": counts.tolist(), "tag": "measured"}
    if grid.axis is not None:
        return {**entry, "grid": "channel"}
    step, zero = float(grid.scale[0]), int(grid.zero_point[0])
    least, most = (grid.scheme.qmin - zero) * step, (grid.scheme.qmax - zero) * step
    # Half a step is what rounding loses anywhere; a bin counts where its middle lies.
    outside = int(seen.counts[(seen.centers < least - step / 2) | (seen.centers > most + step / 2)].sum())
    clip = [float(f"{bound:.7g}") for bound in (least, most)]
    return {**entry, "grid": "tensor", "clip": clip, "clipped": float(f"{outside / seen.total:.4g}")}


def _rebinned(seen: Histogram) -> tuple[float, float, npt.NDArray[np.int64]]:
    """(low, high, counts) of equal bins, each a power of two of those seen and anchored at 0 like them."""
    shift = 0
    last = seen.first + len(seen.counts) - 1
    while (last >> shift) - (seen.first >> shift) >= MOST_BINS:
        shift += 1
    first = seen.first >> shift
    counts = np.zeros((last >> shift) - first + 1, np.int64)
    np.add.at(counts, ((seen.first + np.arange(len(seen.counts))) >> shift) - first, seen.counts)
    width = 2.0 ** (seen.exponent + shift)
    return first * width, (first + len(counts)) * width, counts

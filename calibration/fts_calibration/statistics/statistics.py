"""What a pass over the calibration split says about each tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fts_calibration.statistics.histogram import Histogram, histogram_from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRange:
    """Exact bounds of a tensor over all samples, float32 values in the tensor's own unit."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Ranges and distributions by tensor name.

    Attributes:
        ranges: Exact minimum and maximum.
        samples: Number of samples seen.
        channel_ranges: The same channel by channel (axis 1), for the tensors that were asked for.
        histograms: Distribution of all values.
    """

    ranges: Mapping[str, TensorRange]
    samples: int
    channel_ranges: Mapping[str, tuple[TensorRange, ...]] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)


def merged_statistics(one: Statistics, other: Statistics) -> Statistics:
    """Statistics of the samples of both, of the same tensors; exact, as if one pass had seen all.

    A tensor whose values only one of them counted has its bounds merged, and no histogram.
    """
    histograms = {
        name: histogram.merged(other.histograms[name])
        for name, histogram in one.histograms.items()
        if name in other.histograms
    }
    return Statistics(
        ranges={name: _union(seen, other.ranges[name]) for name, seen in one.ranges.items()},
        samples=one.samples + other.samples,
        channel_ranges={
            name: tuple(_union(a, b) for a, b in zip(rows, other.channel_ranges[name], strict=True))
            for name, rows in one.channel_ranges.items()
        },
        histograms=histograms,
    )


def _union(a: TensorRange, b: TensorRange) -> TensorRange:
    return TensorRange(low=min(a.low, b.low), high=max(a.high, b.high))


def json_from_statistics(statistics: Statistics) -> dict[str, Any]:
    """A JSON object; floats survive it exactly."""
    return {
        "samples": statistics.samples,
        "ranges": {n: [r.low, r.high] for n, r in statistics.ranges.items()},
        "channel_ranges": {n: [[r.low, r.high] for r in rows] for n, rows in statistics.channel_ranges.items()},
        "histograms": {n: h.to_json() for n, h in statistics.histograms.items()},
    }


def statistics_from_json(data: Mapping[str, Any]) -> Statistics:
    """The inverse of `json_from_statistics`."""
    return Statistics(
        samples=data["samples"],
        ranges={n: TensorRange(low=low, high=high) for n, (low, high) in data["ranges"].items()},
        channel_ranges={
            n: tuple(TensorRange(low=low, high=high) for low, high in rows)
            for n, rows in data["channel_ranges"].items()
        },
        histograms={n: histogram_from_json(h) for n, h in data["histograms"].items()},
    )

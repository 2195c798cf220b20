"""Signed histograms that give the same counts whatever the order and the parts the values come in.

Bin i holds the values in [i w, (i + 1) w) with w = 2^e, so bins lie anchored at 0 and a bin of width 2 w is exactly two of
width w: bin i becomes bin floor(i / 2). The width follows from the greatest magnitude alone, hence merging histograms of
parts gives, bit for bit, the histogram of the whole. Scaling by a power of two and taking the floor are exact in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fts.imaging.opencv import cv2

# Bins on either side of 0. 4096 leave 2048 to 4096 of them to the wider side: 8 to 16 a step of an 8-bit grid.
HALF = 4096
# Least width: 2^-e is a finite float32.
LEAST_EXPONENT = -120
# float32 counts of OpenCV are exact up to 2^24; this many values also stay in the cache.
CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histogram:
    """Counts of a tensor's values.

    Attributes:
        exponent: e; bins are 2^e wide.
        first: Index of the first bin, counted from 0; negative left of 0.
        counts: int64 (B,), without empty bins at either end; (0,) when nothing was seen.
        zeros: How many values are 0 exactly (they are counted in bin 0 too).
        low: Least value seen, inf when none.
        high: Greatest value seen, -inf when none.
    """

    exponent: int
    first: int
    counts: npt.NDArray[np.int64]
    zeros: int
    low: float
    high: float

    @property
    def total(self) -> int:
        """How many values were seen."""
        return int(self.counts.sum())

    @property
    def edges(self) -> npt.NDArray[np.float64]:
        """(B + 1,) bounds of the bins, in the tensor's unit."""
        return np.arange(self.first, self.first + len(self.counts) + 1, dtype=np.float64) * 2.0**self.exponent

    @property
    def centers(self) -> npt.NDArray[np.float64]:
        """(B,) middles of the bins."""
        return (np.arange(self.first, self.first + len(self.counts), dtype=np.float64) + 0.5) * 2.0**self.exponent

    def __eq__(self, other: object) -> bool:
        """Bit for bit."""
        if not isinstance(other, Histogram):
            return NotImplemented
        return self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def merged(self, other: Histogram) -> Histogram:
        """Histogram of the values of both."""
        exponent = max(self.exponent, other.exponent)
        parts = [_widened(h, exponent) for h in (self, other) if len(h.counts)]
        low, high = min(self.low, other.low), max(self.high, other.high)
        zeros = self.zeros + other.zeros
        if not parts:
            return Histogram(exponent=exponent, first=0, counts=self.counts, zeros=zeros, low=low, high=high)
        first = min(f for f, _ in parts)
        counts = np.zeros(max(f + len(c) for f, c in parts) - first, np.int64)
        for start, part in parts:
            counts[start - first : start - first + len(part)] += part
        return Histogram(exponent=exponent, first=first, counts=counts, zeros=zeros, low=low, high=high)

    def scaled(self, power: int) -> Histogram:
        """Histogram of the values times 2^power, exactly."""
        factor = 2.0**power
        return Histogram(
            exponent=self.exponent + power,
            first=self.first,
            counts=self.counts,
            zeros=self.zeros,
            low=self.low * factor,
            high=self.high * factor,
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON object; nothing is rounded. Bounds of nothing are null."""
        is_empty = not len(self.counts)
        return {
            "exponent": self.exponent,
            "first": self.first,
            "counts": self.counts.tolist(),
            "zeros": self.zeros,
            "bounds": None if is_empty else [self.low, self.high],
        }


EMPTY = Histogram(
    exponent=LEAST_EXPONENT, first=0, counts=np.zeros(0, np.int64), zeros=0, low=float("inf"), high=float("-inf")
)


def histogram_from_json(data: dict[str, Any]) -> Histogram:
    """The inverse of `Histogram.to_json`."""
    low, high = data["bounds"] or (float("inf"), float("-inf"))
    return Histogram(
        exponent=data["exponent"],
        first=data["first"],
        counts=np.array(data["counts"], np.int64),
        zeros=data["zeros"],
        low=low,
        high=high,
    )


def histogram_of(values: npt.NDArray[np.float32]) -> Histogram:
    """Count an array of any shape.

    Args:
        values: float32, finite.

    Raises:
        ValueError: It holds NaN or infinity.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    if not flat.size:
        return EMPTY
    low, high = float(flat.min()), float(flat.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError(f"values from {low} to {high}, expected finite ones")
    exponent = _exponent(low, high)
    factor = np.float32(2.0**-exponent)
    counts = np.zeros(2 * HALF, np.int64)
    for start in range(0, flat.size, CHUNK):
        chunk = flat[start : start + CHUNK]
        bins = chunk * factor
        np.floor(bins, out=bins)
        if exponent > 0 and low < 0:  # a tiny negative value times a factor below 1 may become 0: it is left of 0
            np.minimum(bins, np.float32(-1), where=chunk < 0, out=bins)
        bins += np.float32(HALF)
        places = bins.astype(np.uint16).reshape(1, -1)
        counts += cv2.calcHist([places], [0], None, [2 * HALF], [0, 2 * HALF]).reshape(-1).astype(np.int64)
    used = np.flatnonzero(counts)
    first, last = int(used[0]), int(used[-1])
    return Histogram(
        exponent=exponent,
        first=first - HALF,
        counts=counts[first : last + 1],
        zeros=int(flat.size - np.count_nonzero(flat)),
        low=low,
        high=high,
    )


def _exponent(low: float, high: float) -> int:
    """Least e with -HALF 2^e <= low and high < HALF 2^e."""
    exponent = LEAST_EXPONENT
    if low < 0 or high > 0:
        reach = max(-low, high)
        exponent = max(exponent, int(np.ceil(np.log2(reach / HALF))) - 1)
    while low < -HALF * 2.0**exponent or high >= HALF * 2.0**exponent:
        exponent += 1
    return exponent


def _widened(histogram: Histogram, exponent: int) -> tuple[int, npt.NDArray[np.int64]]:
    """First bin and counts at a greater width."""
    shift = exponent - histogram.exponent
    if not shift:
        return histogram.first, histogram.counts
    bins = (histogram.first + np.arange(len(histogram.counts))) >> min(shift, 62)  # floor division
    first = int(bins[0])
    counts = np.zeros(int(bins[-1]) - first + 1, np.int64)
    np.add.at(counts, bins - first, histogram.counts)
    return first, counts

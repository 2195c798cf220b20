"""Signed histograms that give the same counts whatever the order and the parts the values come in.

Bin i holds the values in [i w, (i + 1) w) with w = 2^e, so bins lie anchored at 0 and a bin of width 2 w is exactly two of
width w: bin i becomes bin floor(i / 2). The width follows from the greatest magnitude alone, hence merging histograms of
parts gives, bit for bit, the histogram of the whole. Scaling by a power of two and taking the floor are exact in float32.
"""

from __future__ import annotations

import math
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
CHUNK = 1 << 17


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


class Workspace:
    """What counting needs beside the values, for one thread: allocated anew for each block it costs more than counting."""

    def __init__(self) -> None:
        self.bins = np.empty((1, CHUNK), np.float32)
        self.places = np.empty((1, CHUNK), np.uint16)
        self.flags = np.empty((1, CHUNK), np.bool_)


class HistogramCounter:
    """Counts values part by part, in bins as wide as the values so far need: the histogram of the whole at any time."""

    def __init__(self, seen: Histogram = EMPTY) -> None:
        """Go on behind what was seen."""
        self._exponent = seen.exponent
        self._counts = np.zeros(2 * HALF, np.int64)  # bins -HALF to HALF - 1
        self._counts[HALF + seen.first : HALF + seen.first + len(seen.counts)] = seen.counts
        self._zeros = seen.zeros
        self._low, self._high = seen.low, seen.high

    def add(self, values: npt.NDArray[np.float32], low: float, high: float, space: Workspace) -> None:
        """Count values.

        Args:
            values: float32, finite, contiguous, of any shape; at most CHUNK.
            low: The least of them.
            high: The greatest.
            space: Of the calling thread.

        Raises:
            ValueError: A bound is NaN or infinity.
        """
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(f"values from {low} to {high}, expected finite ones")
        reach = HALF * 2.0**self._exponent
        if low < -reach or high >= reach:
            self._widen(_exponent(low, high))
        self._low, self._high = min(self._low, low), max(self._high, high)
        row = values.reshape(1, -1)
        bins, places, flags = space.bins[:, : row.size], space.places[:, : row.size], space.flags[:, : row.size]
        if low <= 0 <= high:
            self._zeros += int(np.count_nonzero(np.equal(row, 0, out=flags)))
        np.multiply(row, np.float32(2.0**-self._exponent), out=bins)
        if low >= 0:
            np.copyto(places, bins, casting="unsafe")  # takes the floor
            self._counts[HALF:] += _counted(places, HALF)
            return
        np.floor(bins, out=bins)
        if self._exponent > 0:  # a tiny negative value times a factor below 1 may become 0: it is left of 0
            np.copyto(bins, np.float32(-1), where=_tiny(row, bins, flags))
        bins += np.float32(HALF)
        np.copyto(places, bins, casting="unsafe")
        self._counts += _counted(places, 2 * HALF)

    @property
    def histogram(self) -> Histogram:
        """Of the values so far."""
        used = np.flatnonzero(self._counts)
        if not used.size:
            return EMPTY
        first, last = int(used[0]), int(used[-1])
        return Histogram(
            exponent=self._exponent,
            first=first - HALF,
            counts=self._counts[first : last + 1].copy(),
            zeros=self._zeros,
            low=self._low,
            high=self._high,
        )

    def _widen(self, exponent: int) -> None:
        shift = min(exponent - self._exponent, HALF.bit_length() - 1)  # by then one bin is left on either side of 0
        sums = self._counts.reshape(-1, 2**shift).sum(axis=1)
        self._counts[:] = 0
        self._counts[HALF - len(sums) // 2 : HALF + len(sums) // 2] = sums
        self._exponent = exponent


def histogram_of(values: npt.NDArray[np.float32]) -> Histogram:
    """Count an array of any shape.

    Args:
        values: float32, finite.

    Raises:
        ValueError: It holds NaN or infinity.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    counter, space = HistogramCounter(), Workspace()
    for start in range(0, flat.size, CHUNK):
        chunk = flat[start : start + CHUNK]
        counter.add(chunk, float(chunk.min()), float(chunk.max()), space)
    return counter.histogram


def _tiny(
    row: npt.NDArray[np.float32], bins: npt.NDArray[np.float32], flags: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Where a negative value has come to bin 0."""
    np.equal(bins, 0, out=flags)
    flags &= row < 0
    return flags


def _counted(places: npt.NDArray[np.uint16], bins: int) -> npt.NDArray[np.int64]:
    """How often each of 0 to bins - 1 occurs in places (1, N)."""
    return np.asarray(cv2.calcHist([places], [0], None, [bins], [0, bins]).reshape(-1), np.int64)


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

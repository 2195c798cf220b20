"""All that is kept of one tensor over a data set: its distribution and, where asked for, the bounds of its channels.

Each value is read from memory once: bounds and bins are taken of a block while it lies in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from fts_calibration.statistics.histogram import CHUNK, EMPTY, Histogram, HistogramCounter, Workspace

FloatArray = npt.NDArray[np.float32]


class TensorCounter:
    """Counts a tensor sample by sample."""

    def __init__(
        self, *, by_channel: bool, seen: Histogram = EMPTY, channels: Sequence[tuple[float, float]] = ()
    ) -> None:
        """Go on behind what was seen.

        Args:
            by_channel: Whether bounds are wanted channel by channel (axis 1) too.
            seen: Distribution so far.
            channels: Least and greatest value of each channel so far, empty for none.
        """
        self._by_channel = by_channel
        self._counter = HistogramCounter(seen)
        bounds = np.array(channels, np.float32).reshape(-1, 2)
        self._low, self._high = bounds[:, 0].copy(), bounds[:, 1].copy()

    def add(self, array: npt.NDArray[np.generic], space: Workspace) -> tuple[float, float]:
        """Count one sample in the calling thread's workspace.

        Returns:
            Its own least and greatest value, inf and -inf where it has no element.

        Raises:
            ValueError: It holds NaN or infinity; what was counted so far is lost.
        """
        values = np.ascontiguousarray(array, np.float32)
        sample = np.inf, -np.inf
        if not values.size:
            return sample
        has_channels = self._by_channel and values.ndim >= 2
        channels = values.shape[1] if has_channels else 1
        if has_channels and not self._low.size:
            self._low, self._high = np.full(channels, np.inf, np.float32), np.full(channels, -np.inf, np.float32)
        for rows in values.reshape(values.shape[0] if has_channels else 1, channels, -1):
            for first, block in _blocks(rows):
                starts = np.arange(0, block.size, block.shape[1])
                low, high = (f.reduceat(block.reshape(-1), starts) for f in (np.minimum, np.maximum))
                least, greatest = float(low.min()), float(high.max())
                self._counter.add(block, least, greatest, space)
                sample = min(sample[0], least), max(sample[1], greatest)
                if has_channels:
                    part = slice(first, first + len(block))
                    np.minimum(self._low[part], low, out=self._low[part])
                    np.maximum(self._high[part], high, out=self._high[part])
        return sample

    @property
    def histogram(self) -> Histogram:
        """Distribution of all values so far."""
        return self._counter.histogram

    @property
    def channels(self) -> tuple[tuple[float, float], ...]:
        """Least and greatest value of each channel so far."""
        return tuple(zip(self._low.tolist(), self._high.tolist(), strict=True))


def _blocks(rows: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    """Parts of (R, N) of at most CHUNK values, whole rows where they fit, each with its first row."""
    length = rows.shape[1]
    if length > CHUNK:
        for row in range(len(rows)):
            for start in range(0, length, CHUNK):
                yield row, rows[row : row + 1, start : start + CHUNK]
        return
    step = CHUNK // length
    for first in range(0, len(rows), step):
        yield first, rows[first : first + step]

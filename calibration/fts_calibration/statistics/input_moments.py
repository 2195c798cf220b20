"""Per-channel mean, deviation and bounds of the inputs themselves, for synthetic golden pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Feed = Mapping[str, npt.NDArray[np.generic]]


class InputMoments:
    """Accumulates while feeds pass through `tap`.

    Attributes:
        channel_axes: Input name to its channel axis, for the inputs that are watched.
    """

    def __init__(self, channel_axes: Mapping[str, int]) -> None:
        self.channel_axes = channel_axes
        self._sums: dict[str, npt.NDArray[np.float64]] = {}

    def tap(self, feeds: Iterable[Feed]) -> Iterator[Feed]:
        """Pass feeds on unchanged, and take note of them."""
        for feed in feeds:
            for name, axis in self.channel_axes.items():
                self._add(name, np.moveaxis(feed[name].astype(np.float64), axis, 0))
            yield feed

    def state(self) -> dict[str, Any]:
        """A JSON object to `resume` from; floats survive it exactly."""
        return {name: sums.tolist() for name, sums in self._sums.items()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on behind the feeds that a state has seen."""
        self._sums = {name: np.array(sums, np.float64) for name, sums in state.items()}

    def _add(self, name: str, values: npt.NDArray[np.float64]) -> None:
        flat = values.reshape(values.shape[0], -1)
        new = np.stack([flat.sum(1), (flat**2).sum(1), np.full(len(flat), flat.shape[1]), flat.min(1), flat.max(1)])
        old = self._sums.get(name)
        if old is not None:
            new[:3] += old[:3]
            new[3], new[4] = np.minimum(new[3], old[3]), np.maximum(new[4], old[4])
        self._sums[name] = new

    def to_json(self) -> dict[str, Any]:
        """{input: {"mean": [C], "std": [C], "low": [C], "high": [C]}}."""
        result = {}
        for name, (total, squares, count, low, high) in self._sums.items():
            mean = total / count
            std = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
            result[name] = {"mean": mean.tolist(), "std": std.tolist(), "low": low.tolist(), "high": high.tolist()}
        return result

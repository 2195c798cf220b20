"""Are there enough photos? Ranges from one half of the calibrate split, against ranges from the other half.

With independent samples the widths w1 and w2 of a tensor over two halves differ by about twice the error s of the width w
over all n samples (each half has sqrt(2) s, their difference 2 s), and errors fall as 1 / sqrt(n). So s is half the root
mean square of (w1 - w2) / w, and n (s / LIMIT)^2 samples bring it down to LIMIT. Extremes of heavy tails converge more
slowly than that: "about n more" is the least to expect.

One division into halves is itself a matter of chance. Samples are dealt into 8 parts, and all 35 ways to make two halves
of 8 parts are averaged: that takes the memory of 8 ranges a tensor, however many samples there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from fts_calibration.audit.finding import Finding

PARTS = 8
# Error of a range that is left to chance. A scale 18 % too large costs 1.4 dB, and one too small clips. Sets of different
# pictures measure 0.02 to 0.12, one with a single picture that decides all ranges 0.24.
LIMIT = 0.18


class PartRanges:
    """Bounds of every tensor over each of 8 parts of the samples, in constant memory.

    Samples come in the order of their sha256, so that the part one falls into has nothing to do with what it shows.
    """

    def __init__(self) -> None:
        self._parts: dict[int, npt.NDArray[np.float64]] = {}  # part to (2, T): low, high
        self.samples = 0

    def add(self, low: npt.NDArray[np.float64], high: npt.NDArray[np.float64]) -> None:
        """Bounds of one sample: the least and the greatest value of each of T tensors, (T,); inf and -inf where it is empty."""
        part = self.samples % PARTS
        new = np.stack([low, high])
        old = self._parts.get(part)
        if old is not None:
            new = np.stack([np.minimum(old[0], new[0]), np.maximum(old[1], new[1])])
        self._parts[part] = new
        self.samples += 1

    def state(self) -> dict[str, Any]:
        """A JSON object to `resume` from; floats survive it exactly."""
        return {"samples": self.samples, "parts": [self._parts[part].tolist() for part in range(len(self._parts))]}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on behind the samples that a state has seen."""
        self.samples = int(state["samples"])
        self._parts = {part: np.array(bounds, np.float64) for part, bounds in enumerate(state["parts"])}

    def to_json(self) -> dict[str, Any]:
        """{"samples": n, "errors": estimated relative error of each tensor's width}; constant tensors left out."""
        return {"samples": self.samples, "errors": self._errors().tolist() if len(self._parts) == PARTS else []}

    def _errors(self) -> npt.NDArray[np.float64]:
        low, high = (np.stack([self._parts[part][i] for part in range(PARTS)]) for i in (0, 1))  # (PARTS, T)
        moving = high.max(axis=0) > low.min(axis=0)  # a tensor without elements reaches from inf to -inf
        low, high = low[:, moving], high[:, moving]
        squares = []
        for half in combinations(range(1, PARTS), PARTS // 2 - 1):
            first = [0, *half]  # part 0 stands in the first half: each division is met once
            second = [part for part in range(PARTS) if part not in first]
            apart = _width(low[first], high[first]) - _width(low[second], high[second])
            squares.append((apart / _width(low, high)) ** 2)
        return np.asarray(np.sqrt(np.mean(squares, axis=0)) / 2)


def _width(low: npt.NDArray[np.float64], high: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(high.max(axis=0) - low.min(axis=0))


def check_stable_ranges(parts: Mapping[str, Any]) -> Iterator[Finding]:
    """Finding unstable-ranges, from what `PartRanges.to_json` gave; fewer than 8 samples cannot be judged."""
    samples, errors = int(parts["samples"]), [float(e) for e in parts["errors"]]
    if not errors:
        yield Finding(
            id="stability-not-checked",
            severity="note",
            message=f"whether other photos would give other ranges was not checked: {samples} calibrate, {PARTS} are needed",
            fix="Give more photos.",
        )
    elif (error := median(errors)) > LIMIT:
        more = int(np.ceil(samples * ((error / LIMIT) ** 2 - 1)))
        yield Finding(
            id="unstable-ranges",
            severity="warning",
            message=(
                f"ranges depend on which {samples} photos they come from: between halves of them, half of the {len(errors)} "
                f"tensors change their width by {2 * error:.0%} or more"
            ),
            fix=f"Give about {more} more calibration photos, or take out those that are unlike all others.",
        )

"""The exhaustive measurement on the few samples that decide: those that score worst with everything in INT8.

Where the worst sample counts, most of the others never come into play: a net that has nothing to find in a photo cannot
lose it. Which ones matter is known from the first plan that a search scores.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fts_calibration.metrics.budget import Score
from fts_calibration.sensitivity.exhaustive import Measurement, measure_exhaustively
from fts_calibration.sensitivity.table import SensitivityTable

Arrays = Mapping[str, npt.NDArray[np.generic]]
METHOD = "sampled"
SAMPLES = 2


def hardest_samples(scores: Sequence[Score], count: int = SAMPLES) -> tuple[int, ...]:
    """Places of the samples that miss a budget by most, in the order of the samples; first ones of equals.

    Args:
        scores: Of the net with everything in INT8.
        count: How many.
    """
    by_sample = list(zip(*([v - s.budget.at_least for v in s.values] for s in scores), strict=True))
    order = sorted(range(len(by_sample)), key=lambda place: min(by_sample[place]))
    return tuple(sorted(order[:count]))


def measure_on_samples(
    given: Measurement,
    samples: Collection[int],
    *,
    processes: int | None = None,
    on_unit: Callable[[str, Score], None] = lambda unit, score: None,
) -> SensitivityTable:
    """`measure_exhaustively` on some of the samples; peaks of PSNR stay those of all.

    Args:
        given: Net, units and all samples.
        samples: Places of those to use.
        processes: As of `measure_exhaustively`.
        on_unit: Likewise.
    """
    few = replace(
        given,
        feeds=lambda: _chosen(given.feeds(), samples),
        references=_Chosen(given, samples),
    )
    return replace(measure_exhaustively(few, processes=processes, on_unit=on_unit), method=METHOD)


class _Chosen:
    """FP32 outputs of some samples."""

    def __init__(self, given: Measurement, samples: Collection[int]) -> None:
        self._all = given.references
        self._samples = frozenset(samples)
        self.peaks = given.references.peaks

    def __iter__(self) -> Iterator[Arrays]:
        return _chosen(self._all, self._samples)

    def __len__(self) -> int:
        return len(self._samples)


def _chosen(items: Iterable[Arrays], samples: Collection[int]) -> Iterator[Arrays]:
    return (item for place, item in enumerate(items) if place in samples)

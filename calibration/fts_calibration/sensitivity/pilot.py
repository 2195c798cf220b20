"""Some units on all samples; the others on the samples that decided there; what is missing follows from both.

Most samples never come into play: where a photo holds nothing that the net could lose, it decides nothing, and a photo
that is hard is hard for most units. So every PILOT_STEP-th unit is measured on all samples, and the others on the CHOSEN
samples that were the worst of most of those. For a unit u and a sample j that it was not measured on, the metric is taken to
be a share of the unit plus a share of the sample (a two-way layout without interaction):

    value(u, j) = mean over chosen i of value(u, i) + pilot(j) − pilot(i)        pilot(j): mean over the pilot's units

`benchmarks/sensitivity.py`, 5 samples, the worst one counts: rank correlation with the exhaustive measurement 0.93 to 1.0 for
0.57 to 0.71 of its work. Of a mean it knows less: filled values count in full there, and where samples reach the metric's
ceiling they do not add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import numpy.typing as npt

from fts_calibration.metrics.budget import WORST, Budget, Score
from fts_calibration.sensitivity.exhaustive import (
    Measurement,
    Memory,
    deciding_score,
    measure_exhaustively,
    values_alone,
)
from fts_calibration.sensitivity.measure_part import Values
from fts_calibration.sensitivity.table import SensitivityTable, table_from_scores

Arrays = Mapping[str, npt.NDArray[np.generic]]
METHOD = "pilot"
PILOT_STEP = 4
CHOSEN = 2


def measure_with_pilot(
    given: Measurement,
    *,
    processes: int | None = None,
    on_unit: Callable[[str, Score], None] = lambda unit, score: None,
) -> SensitivityTable:
    """Scores of which a part is measured; with no more than CHOSEN samples, the exhaustive measurement.

    Args:
        given: Net, units and samples.
        processes: As of `measure_exhaustively`.
        on_unit: Told the score of each unit, those of the pilot first.

    Raises:
        EngineError: onnxruntime refuses an encoded net, or a process died.
    """
    samples = len(given.references)
    if samples <= CHOSEN:
        return measure_exhaustively(given, processes=processes, on_unit=on_unit)
    budgets = given.budgets
    first, others = given.units[::PILOT_STEP], [u for p, u in enumerate(given.units) if p % PILOT_STEP]
    pilot, passes = values_alone(
        replace(given, units=first),
        processes=processes,
        on_unit=lambda unit, values: on_unit(unit, deciding_score(values, budgets)),
    )
    chosen = deciding_samples(list(pilot.values()), budgets)
    few = replace(
        given,
        units=others,
        feeds=lambda: _chosen(given.feeds(), chosen),
        references=_ChosenReferences(given, chosen),
        memory=_ChosenMemory(memory=given.memory, samples=chosen),
    )
    means = {
        name: [fmean(column) for column in zip(*(v[name] for v in pilot.values()), strict=True)] for name in budgets
    }

    def filled(values: Values) -> Values:
        return {name: _filled(values[name], chosen, means[name], budget) for name, budget in budgets.items()}

    rest, more = values_alone(
        few,
        processes=processes,
        on_unit=lambda unit, values: on_unit(unit, deciding_score(filled(values), budgets)),
    )
    found = {**pilot, **{unit: filled(values) for unit, values in rest.items()}}
    scores = {unit.name: deciding_score(found[unit.name], budgets) for unit in given.units}
    return table_from_scores(METHOD, scores, samples=samples, forward_passes=passes + more)


def deciding_samples(pilot: Sequence[Values], budgets: Mapping[str, Budget]) -> tuple[int, ...]:
    """Places of the CHOSEN samples that are the worst of most units, in the order of the samples; first ones of equals."""
    wins: Counter[int] = Counter()
    for values in pilot:
        columns = zip(*([v - budget.at_least for v in values[name]] for name, budget in budgets.items()), strict=True)
        margins = [min(column) for column in columns]
        wins[margins.index(min(margins))] += 1
        samples = len(margins)
    order = sorted(range(samples), key=lambda place: -wins[place])
    return tuple(sorted(order[:CHOSEN]))


def _filled(values: Sequence[float], chosen: Sequence[int], means: Sequence[float], budget: Budget) -> list[float]:
    """One value a sample: those measured as they are, the others by the formula at the top of this file."""
    measured = dict(zip(chosen, values, strict=True))
    own = fmean(value - means[place] for place, value in measured.items())
    best = -WORST[budget.metric]  # of each metric, the best value is the negative of the worst
    return [measured.get(place, min(max(own + mean, -best), best)) for place, mean in enumerate(means)]


def _chosen(items: Iterable[Arrays], samples: Collection[int]) -> Iterator[Arrays]:
    return (item for place, item in enumerate(items) if place in samples)


class _ChosenReferences:
    """FP32 outputs of some samples; peaks are those of all."""

    def __init__(self, given: Measurement, samples: Sequence[int]) -> None:
        self._all = given.references
        self._samples = samples
        self.peaks = given.references.peaks

    def __iter__(self) -> Iterator[Arrays]:
        return _chosen(self._all, self._samples)

    def __len__(self) -> int:
        return len(self._samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChosenMemory:
    """The memory of all samples, under digests of its own."""

    memory: Memory
    samples: tuple[int, ...]

    def get(self, digest: str) -> Values | None:
        return self.memory.get(f"{digest} on {self.samples}")

    def put(self, digest: str, values: Values) -> None:
        self.memory.put(f"{digest} on {self.samples}", values)

"""Some units on all samples; the others on the samples that decided there; what is missing follows from both.

Most samples never come into play: where a photo holds nothing that the net could lose, it decides nothing, and a photo
that is hard is hard for most units. So every PILOT_STEP-th unit is measured on all samples, and the others on the CHOSEN
samples that were the worst of most of those. For a unit u and a sample j that it was not measured on, the metric is taken to
be a share of the unit plus a share of the sample (a two-way layout without interaction):

    value(u, j) = mean over chosen i of value(u, i) + pilot(j) − pilot(i)        pilot(j): mean over the pilot's units

That is so in decibels, where a unit's noise times a sample's hardness is a sum; so metrics that are distances from a best
value, and the noise that goes with a coarse metric, are filled in by their logarithms. Decisions of a rate, 0 or 1, are not.

`benchmarks/sensitivity.py`, 5 samples, the worst one counts: rank correlation with the exhaustive measurement 0.93 to 1.0 for
0.57 to 0.71 of its work. Of a mean it knows less: filled values count in full there, and where samples reach the metric's
ceiling they do not add up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import numpy.typing as npt

from fts_calibration.metrics.budget import LEAST_ERROR, Budget, Score, worst
from fts_calibration.metrics.relative_noise import CEILING
from fts_calibration.metrics.sample_values import SampleValues
from fts_calibration.sensitivity.exhaustive import (
    Measurement,
    Memory,
    Scores,
    measure_exhaustively,
    scores_alone,
)
from fts_calibration.sensitivity.table import SensitivityTable, table_from_scores

Arrays = Mapping[str, npt.NDArray[np.generic]]
METHOD = "pilot"
PILOT_STEP = 4
CHOSEN = 2
# Noise that a logarithm takes for none: float32 leaves about 1e-14.
LEAST_NOISE = 1e-12


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
        on_unit: Told the score that decides of each unit, those of the pilot first.

    Raises:
        EngineError: onnxruntime refuses an encoded net, or a process died.
    """
    samples = len(given.references)
    if samples <= CHOSEN or not given.units:
        return measure_exhaustively(given, processes=processes, on_unit=on_unit)
    first, others = given.units[::PILOT_STEP], [u for p, u in enumerate(given.units) if p % PILOT_STEP]
    pilot, passes = scores_alone(
        replace(given, units=first),
        processes=processes,
        on_unit=lambda unit, scores: on_unit(unit, worst(scores)),
    )
    chosen = deciding_samples(list(pilot.values()))
    few = replace(
        given,
        units=others,
        feeds=lambda: _chosen(given.feeds(), chosen),
        references=_ChosenReferences(given, chosen),
        memory=_ChosenMemory(memory=given.memory, samples=chosen),
    )
    means = [_SampleMeans(of_output) for of_output in zip(*pilot.values(), strict=True)]

    def filled(scores: Scores) -> Scores:
        return tuple(of_output.filled(score, chosen) for of_output, score in zip(means, scores, strict=True))

    rest, more = scores_alone(
        few,
        processes=processes,
        on_unit=lambda unit, scores: on_unit(unit, worst(filled(scores))),
    )
    found = {**pilot, **{unit: filled(scores) for unit, scores in rest.items()}}
    in_order = {unit.name: found[unit.name] for unit in given.units}
    return table_from_scores(METHOD, in_order, samples=samples, forward_passes=passes + more)


def deciding_samples(pilot: Sequence[Scores]) -> tuple[int, ...]:
    """Places of the CHOSEN samples that are the worst of most units, in the order of the samples; first ones of equals.

    Where a coarse metric says the same of samples, the noise tells which is worse.
    """
    wins: Counter[int] = Counter()
    for scores in pilot:
        nearness = [min(of_sample) for of_sample in zip(*map(_nearness, scores), strict=True)]
        wins[nearness.index(min(nearness))] += 1
        samples = len(nearness)
    order = sorted(range(samples), key=lambda place: -wins[place])
    return tuple(sorted(order[:CHOSEN]))


def _nearness(score: Score) -> list[tuple[float, float]]:
    """What sorts samples, the worst first."""
    noise = score.noise or (0.0,) * len(score.values)
    return [(score.budget.margin_of(v), -n) for v, n in zip(score.values, noise, strict=True)]


class _SampleMeans:
    """pilot(j) of one output, of the metric and of the noise."""

    def __init__(self, pilot: Sequence[Score]) -> None:
        budget = pilot[0].budget
        self._values = [
            fmean(_level(budget, v) for v in of_sample) for of_sample in zip(*(s.values for s in pilot), strict=True)
        ]
        self._noise = [fmean(map(_noise_level, of_sample)) for of_sample in zip(*(s.noise for s in pilot), strict=True)]

    def filled(self, score: Score, chosen: Sequence[int]) -> Score:
        """One value a sample: those measured as they are, the others by the formula at the top of this file."""
        budget = score.budget
        values = _filled([_level(budget, v) for v in score.values], chosen, self._values)
        noise = _filled([_noise_level(n) for n in score.noise], chosen, self._noise) if score.noise else []
        measured = dict(zip(chosen, score.values, strict=True))
        measured_noise = dict(zip(chosen, score.noise, strict=True)) if score.noise else {}
        return replace(
            score,
            values=tuple(measured.get(place, _value_at(budget, level)) for place, level in enumerate(values)),
            noise=tuple(measured_noise.get(place, _noise_at(level)) for place, level in enumerate(noise)),
        )


def _filled(measured: Sequence[float], chosen: Sequence[int], means: Sequence[float]) -> list[float]:
    own = fmean(level - means[place] for level, place in zip(measured, chosen, strict=True))
    return [own + mean for mean in means]


def _level(budget: Budget, value: float) -> float:
    """A value where shares of units and samples add up."""
    kind = budget.kind
    return value if _adds_up(budget) else math.log(abs(kind.best - value) + LEAST_ERROR)


def _value_at(budget: Budget, level: float) -> float:
    """The inverse of `_level`, within what the metric can be."""
    kind = budget.kind
    least, most = sorted((kind.best, kind.worst))
    if not _adds_up(budget):
        distance = math.exp(level) - LEAST_ERROR
        level = kind.best + distance if kind.is_less_better else kind.best - distance
    return min(max(level, least), most)


def _adds_up(budget: Budget) -> bool:
    return budget.kind.growth == "decibels" or budget.kind.is_rate


def _noise_level(noise: float) -> float:
    return math.log(noise + LEAST_NOISE)


def _noise_at(level: float) -> float:
    return min(max(math.exp(level) - LEAST_NOISE, 0.0), CEILING)


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

    def get(self, digest: str) -> SampleValues | None:
        return self.memory.get(f"{digest} on {self.samples}")

    def put(self, digest: str, values: SampleValues) -> None:
        self.memory.put(f"{digest} on {self.samples}", values)

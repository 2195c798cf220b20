"""Score a net against the FP32 outputs over a split, one sample at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import fmean

import numpy as np
import numpy.typing as npt

from fts_calibration.metrics.budget import Budget, Score
from fts_calibration.metrics.reference_outputs import ReferenceOutputs
from fts_calibration.metrics.relative_noise import relative_noise

Arrays = Mapping[str, npt.NDArray[np.generic]]


def evaluate(
    run: Callable[[Arrays], Arrays],
    feeds: Iterable[Arrays],
    references: ReferenceOutputs,
    budgets: Mapping[str, Budget],
) -> tuple[Score, ...]:
    """Run a net over the feeds and compare.

    Args:
        run: One feed to all outputs by name.
        feeds: The split that `references` was made from, in the same order.
        references: FP32 outputs.
        budgets: Output name, or ALL_OUTPUTS for a user's metric, to its budget; outputs without one are not scored.

    Raises:
        UsageError: An output is not what its metric reads, or the user's function fails.
    """
    pairs = ((reference, run(feed)) for feed, reference in zip(feeds, references, strict=True))
    return scores_of_outputs(pairs, references.peaks, budgets)


def scores_of_outputs(
    pairs: Iterable[tuple[Arrays, Arrays]], peaks: Mapping[str, float], budgets: Mapping[str, Budget]
) -> tuple[Score, ...]:
    """Compare outputs sample by sample.

    Args:
        pairs: (FP32 outputs, outputs to judge) of each sample, both by name; all of the net's for a user's metric.
        peaks: Output name to the range of the FP32 output over the split.
        budgets: As of `evaluate`.

    Returns:
        One score a budget, in their order.

    Raises:
        UsageError: As of `evaluate`.
    """
    values: dict[str, list[float]] = {name: [] for name in budgets}
    noise: dict[str, list[float]] = {name: [] for name in budgets}
    for reference, outputs in pairs:
        for name, budget in budgets.items():
            if budget.user is not None:
                values[name].append(budget.user.value(reference, outputs))
                noise[name].append(fmean(relative_noise(reference[o], outputs[o]) for o in reference))
                continue
            values[name].append(value_of(budget, reference[name], outputs[name], peaks[name]))
            if budget.kind.is_coarse:
                noise[name].append(relative_noise(reference[name], outputs[name]))
    return tuple(Score(output=n, budget=b, values=tuple(values[n]), noise=tuple(noise[n])) for n, b in budgets.items())


def value_of(budget: Budget, reference: npt.NDArray[np.generic], test: npt.NDArray[np.generic], peak: float) -> float:
    """The metric, or its worst value where a data-dependent shape differs: such outputs have nothing in common."""
    if reference.shape != test.shape:
        return budget.kind.worst
    return budget.kind.measure(reference, test, peak, budget.meaning)

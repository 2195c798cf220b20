"""Score a net against the FP32 outputs over a split, one sample at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from fts_calibration.metrics.budget import METRICS, WORST, Budget, Score
from fts_calibration.metrics.reference_outputs import ReferenceOutputs

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
        budgets: Output name to its budget; outputs without one are not scored.
    """
    values: dict[str, list[float]] = {name: [] for name in budgets}
    for feed, reference in zip(feeds, references, strict=True):
        outputs = run(feed)
        for name, budget in budgets.items():
            values[name].append(value_of(budget.metric, reference[name], outputs[name], references.peaks[name]))
    return tuple(Score(output=n, budget=b, values=tuple(values[n])) for n, b in budgets.items())


def value_of(metric: str, reference: npt.NDArray[np.generic], test: npt.NDArray[np.generic], peak: float) -> float:
    """The metric, or its worst value where a data-dependent shape differs: such outputs have nothing in common."""
    return METRICS[metric](reference, test, peak) if reference.shape == test.shape else WORST[metric]

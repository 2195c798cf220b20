"""What metrics said of each sample, in a form that JSON keeps exactly: for caches and for answers of other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fts_calibration.metrics.budget import Budget, Score

# Output name to [values, noise] of a `Score`; thresholds are left out, since another budget may ask for the same metric.
SampleValues = Mapping[str, Sequence[Sequence[float]]]


def values_from_scores(scores: Sequence[Score]) -> dict[str, list[list[float]]]:
    """Values and noise by output."""
    return {s.output: [list(s.values), list(s.noise)] for s in scores}


def scores_from_values(found: SampleValues, budgets: Mapping[str, Budget]) -> tuple[Score, ...]:
    """The inverse of `values_from_scores`: one score a budget, in their order."""
    return tuple(
        Score(output=n, budget=b, values=tuple(found[n][0]), noise=tuple(found[n][1])) for n, b in budgets.items()
    )

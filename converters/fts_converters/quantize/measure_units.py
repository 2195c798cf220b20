"""Measure how sensitive units are, by the method that was asked for or is known to be good enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from fts.vocabulary.device_profile import DeviceProfile
from fts.vocabulary.dialect import Dialect
from fts_calibration.metrics.budget import ENOUGH_FOR_A_MEAN, Score
from fts_calibration.sensitivity.exhaustive import measure_exhaustively
from fts_calibration.sensitivity.pilot import measure_with_pilot
from fts_calibration.sensitivity.table import SensitivityTable
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.plan_nodes import plan_only
from fts_converters.quantize.trials import Trials
from fts_converters.quantize.units import Candidates

Method = Literal["fast", "full"]
# Names of units and the scores with everything in INT8, to what each of them costs.
Measure = Callable[[Sequence[str], Sequence[Score]], SensitivityTable]


def units_measure(
    method: Method | None,
    index: GraphIndex,
    candidates: Candidates,
    profile: DeviceProfile,
    dialect: Dialect,
    trials: Trials,
    on_step: Callable[[str], None],
) -> Measure:
    """How a search measures its units.

    Args:
        method: "full" or "fast"; None for the usual one.
        index: Index of the net.
        candidates: Its units.
        profile: Target.
        dialect: Encoding.
        trials: Samples and budgets.
        on_step: Told of each unit.
    """

    def measure(units: Sequence[str], all_int8: Sequence[Score]) -> SensitivityTable:
        done = 0

        def tell(unit: str, score: Score) -> None:
            nonlocal done
            done += 1
            value = f"{score.budget.metric} {score.budget.figure(score.value)} on {score.output!r}"
            on_step(f"alone in INT8 {done}/{len(units)}: {candidates.units[unit].op_type} {unit}: {value}")

        given = trials.measurement(units, lambda unit: plan_only(index, candidates, profile, dialect, unit))
        chosen = method or usual_method(all_int8)
        return (measure_with_pilot if chosen == "fast" else measure_exhaustively)(given, on_unit=tell)

    return measure


def usual_method(scores: Sequence[Score]) -> Method:
    """The fast one where it orders units as the full one does: where the worst of few samples counts, not a mean."""
    counts_worst = (
        s.budget.statistic == "min" or (s.budget.statistic == "plain" and len(s.values) < ENOUGH_FOR_A_MEAN)
        for s in scores
    )
    return "fast" if all(counts_worst) else "full"

"""Measure how sensitive units are, by the method that was asked for or is known to be good enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from fts.vocabulary.device_profile import DeviceProfile
from fts.vocabulary.dialect import Dialect
from fts_calibration.metrics.budget import Score
from fts_calibration.sensitivity.exhaustive import measure_exhaustively
from fts_calibration.sensitivity.pilot import measure_with_pilot
from fts_calibration.sensitivity.table import SensitivityTable
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.levels import Level, plan_alone
from fts_converters.quantize.trials import Trials
from fts_converters.quantize.units import Candidates

Method = Literal["fast", "full"]
# Names of units, the level at which each stands alone, and the scores with everything in INT8, to what each of them costs.
Measure = Callable[[Sequence[str], Level, Sequence[Score]], SensitivityTable]


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

    def measure(units: Sequence[str], level: Level, all_int8: Sequence[Score]) -> SensitivityTable:
        done = 0
        form = "INT8" if level == "int8" else "a finer form"

        def tell(unit: str, score: Score) -> None:
            nonlocal done
            done += 1
            value = f"{score.budget.metric} {score.budget.figure(score.value)} on {score.output!r}"
            on_step(f"alone in {form} {done}/{len(units)}: {candidates.units[unit].op_type} {unit}: {value}")

        given = trials.measurement(units, lambda unit: plan_alone(index, candidates, profile, dialect, unit, level))
        chosen = method or usual_method(all_int8)
        return (measure_with_pilot if chosen == "fast" else measure_exhaustively)(given, on_unit=tell)

    return measure


def usual_method(scores: Sequence[Score]) -> Method:
    """The fast one where it orders units as the full one does: where the worst sample counts, not a mean or a rate."""
    return "fast" if all(s.budget.is_of_the_worst_sample(len(s.values)) for s in scores) else "full"

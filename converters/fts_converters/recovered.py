"""Where the recovery ladder stands in a conversion: before the search for all in INT8, and behind it for the plan found.

The search then tries plans that already have the better weights. A plan with other forms is recovered anew from the net's
own weights: its grids differ, and what its units read is another thing then.
"""

from __future__ import annotations

from dataclasses import replace

from fts.vocabulary.dialect import Dialect
from fts.vocabulary.plan import Plan
from fts_calibration.metrics.budget import worst
from fts_calibration.recovery.weight_update import WeightUpdate
from fts_converters.prepare import Prepared
from fts_converters.progress import Progress
from fts_converters.quantize.search_budget import SearchResult
from fts_converters.quantize.trials import Trials, open_trials
from fts_converters.recover.ladder import recover
from fts_converters.recover.planned_net import PlannedNet
from fts_converters.request import ConvertRequest
from fts_converters.warnings_log import WarningLog


def recovered(
    request: ConvertRequest,
    prepared: Prepared,
    plan: Plan,
    dialect: Dialect,
    trials: Trials,
    warnings: WarningLog,
    progress: Progress,
) -> Prepared:
    """The net with the weights and biases of those rungs that gain under a plan."""
    net = _planned(prepared, plan, dialect, trials)
    if request.recover == "none" or not net.weighted_units():
        return prepared
    with open_trials(trials):
        found = recover(
            net,
            trials,
            highest=request.recover,
            minutes=request.minutes,
            on_step=progress.step,
            on_warning=warnings.add,
        )
    return replace(prepared, update=found.update, rungs=found.rungs)


def recovered_again(
    request: ConvertRequest,
    prepared: Prepared,
    first: Plan,
    found: SearchResult,
    dialect: Dialect,
    trials: Trials,
    progress: Progress,
) -> tuple[Prepared, SearchResult]:
    """The ladder once more, when the plan found is another one than recovery was done for; the better of both is kept."""
    net = _planned(prepared, found.plan, dialect, trials)
    is_other = _forms(found.plan) != _forms(first)
    if request.recover == "none" or not is_other or not net.weighted_units():
        return prepared, found
    with open_trials(trials):
        again = recover(
            net,
            trials,
            highest=request.recover,
            minutes=request.minutes,
            start=WeightUpdate.NONE,
            on_step=progress.step,
        )
        scores = {id(u): trials.scores(found.plan, update=u) for u in (prepared.update, again.update)}
    before, after = scores[id(prepared.update)], scores[id(again.update)]
    is_better = worst(after).margin > worst(before).margin
    update, kept = (again.update, after) if is_better else (prepared.update, before)
    better = replace(found, scores=kept, is_met=all(s.margin >= 0 for s in kept))
    return replace(prepared, update=update, rungs=prepared.rungs + again.rungs), better


def _forms(plan: Plan) -> list[tuple[str, int, int]]:
    return [(n.precision, n.weight_bits, n.output_bits) for n in plan.nodes]


def _planned(prepared: Prepared, plan: Plan, dialect: Dialect, trials: Trials) -> PlannedNet:
    return PlannedNet(
        index=prepared.index,
        candidates=prepared.candidates,
        plan=plan,
        statistics=prepared.statistics,
        dialect=dialect,
        feeds=lambda: prepared.data.feeds("calibrate"),
        exact_u8s8=trials.exact_u8s8,
    )

"""Find a plan that meets the accuracy budget with as much INT8 as possible.

Start with everything in INT8. While the budget fails, the unit that alone in INT8 loses most of the metric (by a table of
sensitivity, made on the select split) goes to float; each plan is then run and scored as a whole. A unit that would bring
INT8 below its least share of the MACs is passed over for the next one. When no unit is left, the attempt with the best
metric is returned as not met.

A handful of photos that just holds the budget says little about the next ones. So where the worst sample counts (n < 20),
the search goes on until the budget holds with a reserve of one standard deviation over the samples, as long as a step
brings at least a tenth of what is missing. The reserve is an aim: without it the budget is met all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import stdev

from fts.vocabulary.device_profile import DeviceProfile
from fts.vocabulary.dialect import Dialect
from fts.vocabulary.plan import Plan
from fts_calibration.metrics.budget import ENOUGH_FOR_A_MEAN, Score, worst
from fts_calibration.sensitivity.table import SensitivityTable
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.measure_units import Measure
from fts_converters.quantize.plan_nodes import plan_nodes
from fts_converters.quantize.trials import Trials
from fts_converters.quantize.units import Candidates

# Below this share of what is missing, a unit in float costs more speed than the reserve is worth.
LEAST_GAIN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLoss:
    """What a unit alone in INT8 leaves of the metric.

    Attributes:
        unit: Name of its main node.
        op_type: Operator.
        score: The worst output's score.
        mac_share: Its share of the net's multiply-accumulates, 0..1.
        decision: What the search did with it.
    """

    unit: str
    op_type: str
    score: Score
    mac_share: float
    decision: str = "int8"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The plan found.

    Attributes:
        plan: Best plan tried.
        scores: Its scores on the select split.
        is_met: The budget holds on every output.
        losses: Units measured alone, worst first; empty when the first plan held.
        tried: Number of whole plans scored.
        sensitivity: Where the losses come from; None when the first plan held.
    """

    plan: Plan
    scores: tuple[Score, ...]
    is_met: bool
    losses: tuple[UnitLoss, ...]
    tried: int
    sensitivity: SensitivityTable | None = None


def search_budget(
    index: GraphIndex,
    candidates: Candidates,
    profile: DeviceProfile,
    dialect: Dialect,
    trials: Trials,
    *,
    measure: Measure,
    min_int8: float,
    on_step: Callable[[str], None],
) -> SearchResult:
    """Search as described at the top of this file.

    Args:
        index: Index of the cleaned graph.
        candidates: Its units.
        profile: Target.
        dialect: Encoding.
        trials: Scores plans.
        measure: What units alone cost.
        min_int8: Least share of the MACs that stays int8, 0..1.
        on_step: Told what is going on.
    """
    kept: dict[str, str] = {}
    plan = plan_nodes(index, candidates, profile, dialect, kept_float=kept)
    scores = trials.scores(plan)
    on_step(f"all in INT8: {_tell(scores)}")
    best = SearchResult(plan=plan, scores=scores, is_met=_holds(scores), losses=(), tried=1)
    if _missing(scores) <= 0:
        return best
    integer = {n.name for n in plan.nodes if n.precision == "int8"}
    units = [u.name for u in candidates.units.values() if u.name in integer and u.role != "passthrough"]
    table = measure(units, scores)
    losses = _losses(table, candidates)
    decisions = {loss.unit: "int8" for loss in losses}
    tried = 1
    for loss in losses:
        reason = f"in float for the budget: alone in INT8 it leaves {_tell((loss.score,))}"
        plan = plan_nodes(index, candidates, profile, dialect, kept_float={**kept, loss.unit: reason})
        if plan.planned_integer_share < min_int8:
            decisions[loss.unit] = f"int8: in float, less than {min_int8:.0%} of the MACs would be INT8"
            continue
        scores = trials.scores(plan)
        tried += 1
        on_step(f"{loss.unit} in float: {_tell(scores)}, INT8 {plan.planned_integer_share:.0%} of the MACs")
        gain = worst(scores).margin - worst(best.scores).margin
        if best.is_met and gain < LEAST_GAIN * _missing(best.scores):
            break
        kept[loss.unit] = reason
        decisions[loss.unit] = "float"
        if gain > 0:
            best = SearchResult(plan=plan, scores=scores, is_met=_holds(scores), losses=(), tried=tried)
        if _missing(scores) <= 0:
            break
    planned = best.plan.by_name()
    for unit, decision in decisions.items():
        if decision == "float" and planned[unit].precision == "int8":
            decisions[unit] = "int8: in float, it made no better plan"
    told = tuple(
        UnitLoss(unit=s.unit, op_type=s.op_type, score=s.score, mac_share=s.mac_share, decision=decisions[s.unit])
        for s in losses
    )
    return SearchResult(
        plan=best.plan, scores=best.scores, is_met=best.is_met, losses=told, tried=tried, sensitivity=table
    )


def _losses(table: SensitivityTable, candidates: Candidates) -> list[UnitLoss]:
    total = sum(candidates.macs.values()) or 1
    return [
        UnitLoss(
            unit=name,
            op_type=candidates.units[name].op_type,
            score=table.scores[name],
            mac_share=candidates.macs.get(name, 0) / total,
        )
        for name in table.worst_first()
    ]


def _holds(scores: tuple[Score, ...]) -> bool:
    return all(s.margin >= 0 for s in scores)


def _missing(scores: tuple[Score, ...]) -> float:
    """How much the worst output lacks to its budget and reserve; not positive when it has both."""
    return max(_reserve(s) - s.margin for s in scores)


def _reserve(score: Score) -> float:
    """One standard deviation over the samples where the worst of them counts, else 0: a bound on a mean has its own."""
    is_worst_sample = score.budget.statistic != "mean" and len(score.values) < ENOUGH_FOR_A_MEAN
    return stdev(score.values) if is_worst_sample and len(score.values) > 1 else 0.0


def _tell(scores: tuple[Score, ...]) -> str:
    score = worst(scores)
    return f"{score.budget.metric} {score.budget.figure(score.value)} on {score.output!r}"

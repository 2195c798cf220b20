"""Find a plan that meets the accuracy budget with as much INT8 as possible.

Start with everything in INT8. While the budget fails, the unit that alone in INT8 loses most of the metric (measured one
at a time on the select split) goes to float. A unit that would bring INT8 below its least share of the MACs is passed
over for the next one. When no unit is left, the attempt with the best metric is returned as not met.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fts.vocabulary.device_profile import DeviceProfile
from fts.vocabulary.dialect import Dialect
from fts.vocabulary.plan import Plan
from fts_calibration.metrics.budget import Score, worst
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.plan_nodes import plan_nodes, plan_only
from fts_converters.quantize.trials import Trials
from fts_converters.quantize.units import Candidates


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
    """

    plan: Plan
    scores: tuple[Score, ...]
    is_met: bool
    losses: tuple[UnitLoss, ...]
    tried: int


def search_budget(
    index: GraphIndex,
    candidates: Candidates,
    profile: DeviceProfile,
    dialect: Dialect,
    trials: Trials,
    *,
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
        min_int8: Least share of the MACs that stays int8, 0..1.
        on_step: Told what is going on.
    """
    kept: dict[str, str] = {}
    plan = plan_nodes(index, candidates, profile, dialect, kept_float=kept)
    scores = trials.scores(plan)
    on_step(f"all in INT8: {_tell(scores)}")
    best = SearchResult(plan=plan, scores=scores, is_met=_holds(scores), losses=(), tried=1)
    if best.is_met:
        return best
    losses = _measure_alone(index, candidates, profile, dialect, trials, plan, on_step)
    decisions = {loss.unit: "int8" for loss in losses}
    tried = 1
    for loss in losses:
        reason = f"in float for the budget: alone in INT8 it leaves {_tell((loss.score,))}"
        plan = plan_nodes(index, candidates, profile, dialect, kept_float={**kept, loss.unit: reason})
        if plan.planned_integer_share < min_int8:
            decisions[loss.unit] = f"int8: in float, less than {min_int8:.0%} of the MACs would be INT8"
            continue
        kept[loss.unit] = reason
        decisions[loss.unit] = "float"
        scores = trials.scores(plan)
        tried += 1
        on_step(f"{loss.unit} in float: {_tell(scores)}, INT8 {plan.planned_integer_share:.0%} of the MACs")
        if worst(scores).margin > worst(best.scores).margin:
            best = SearchResult(plan=plan, scores=scores, is_met=_holds(scores), losses=(), tried=tried)
        if best.is_met:
            break
    told = tuple(
        UnitLoss(unit=s.unit, op_type=s.op_type, score=s.score, mac_share=s.mac_share, decision=decisions[s.unit])
        for s in losses
    )
    return SearchResult(plan=best.plan, scores=best.scores, is_met=best.is_met, losses=told, tried=tried)


def _measure_alone(
    index: GraphIndex,
    candidates: Candidates,
    profile: DeviceProfile,
    dialect: Dialect,
    trials: Trials,
    plan: Plan,
    on_step: Callable[[str], None],
) -> list[UnitLoss]:
    planned = {n.name for n in plan.nodes if n.precision == "int8"}
    units = [u for u in candidates.units.values() if u.name in planned and u.role != "passthrough"]
    total = sum(candidates.macs.values()) or 1
    losses = []
    for position, unit in enumerate(units, 1):
        score = worst(trials.scores(plan_only(index, candidates, profile, dialect, unit.name)))
        losses.append(UnitLoss(unit=unit.name, op_type=unit.op_type, score=score, mac_share=unit.macs / total))
        on_step(f"alone in INT8 {position}/{len(units)}: {unit.op_type} {unit.name}: {_tell((score,))}")
    return sorted(losses, key=lambda loss: loss.score.margin)


def _holds(scores: tuple[Score, ...]) -> bool:
    return all(s.margin >= 0 for s in scores)


def _tell(scores: tuple[Score, ...]) -> str:
    score = worst(scores)
    return f"{score.budget.metric} {score.value:.2f} on {score.output!r}"

"""Find the cheapest plan that meets the accuracy budget.

Start with everything in INT8. Where that fails, each unit is measured alone, in INT8 and in the engine's finer integer form,
on the select split (`measure_units`); `upgrade_path` orders the steps out of INT8 by what they bring for their cost. Along
the path the first plan that holds is found by halving, every plan being run; then steps that turn out not to be needed are
taken back, the costliest first. A step that would bring INT8 below its least share of the MACs is left out. When nothing
holds, the attempt with the best metric is returned as not met.

A handful of photos that just holds the budget says little about the next ones. So where the worst sample counts (n < 20),
a plan should hold with a reserve of one standard deviation over the samples. The reserve is an aim: where it is out of reach,
the budget is held with nearly as much of it as there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import stdev

from fts.vocabulary.device_profile import DeviceProfile
from fts.vocabulary.dialect import Dialect
from fts.vocabulary.plan import Plan
from fts_calibration.metrics.budget import Score, worst
from fts_calibration.metrics.used_share import used_share
from fts_calibration.sensitivity.table import SensitivityTable
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.levels import Level, plan_cost, plan_levels
from fts_converters.quantize.measure_units import Measure
from fts_converters.quantize.plan_nodes import is_fine
from fts_converters.quantize.trials import Trials
from fts_converters.quantize.units import Candidates, Unit
from fts_converters.quantize.upgrade_path import Choice, Upgrade, upgrade_path

# Below this share of the noise of all units, a unit is not measured in a finer form: it does not matter.
LEAST_NOISE = 0.002
# Of what was gained towards a reserve out of reach, this share may be given up for a cheaper plan.
LEAST_GAIN, LEAST_REACHED = 0.1, 0.5
# Tries to take a step back, so that a net of hundreds of units ends.
MOST_STEPS_BACK = 12
# What a unit without MACs adds in float, as a share of the net: conversions of what it reads and writes.
BRIDGE_COST = 1e-3


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
class TriedPlan:
    """A whole plan that was run.

    Attributes:
        score: Its worst output on the select split.
        integer_share: Of the MACs planned as int8, 0..1.
        fine_share: Of the MACs in a finer integer form, 0..1.
        cost: Work as a share of the net in float (`plan_cost`).
    """

    score: Score
    integer_share: float
    fine_share: float
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The plan found.

    Attributes:
        plan: Best plan tried.
        scores: Its scores on the select split.
        is_met: The budget holds on every output.
        losses: Units measured alone, worst first; empty when the first plan held.
        tried: Number of whole plans scored.
        front: Those of them that no other one beats in both cost and metric, cheapest first.
        sensitivity: Units alone in INT8, which the losses come from; None when the first plan held.
    """

    plan: Plan
    scores: tuple[Score, ...]
    is_met: bool
    losses: tuple[UnitLoss, ...]
    tried: int
    front: tuple[TriedPlan, ...] = ()
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
        measure: What units alone cost at a level.
        min_int8: Least share of the MACs that stays int8, 0..1.
        on_step: Told what is going on.
    """
    search = _Search(index, candidates, profile, dialect, trials, on_step)
    first = search.run({}, {}, "all in INT8")
    if first.missing <= 0:
        return search.result(first, ())
    units = search.units_of(first.plan)
    int8 = measure([u.name for u in units], "int8", first.scores)
    losses = search.losses(int8)
    finer = search.worth_a_finer_form(units, int8, first.scores)
    fine = measure([u.name for u in finer], "fine", first.scores).scores if finer else {}
    steps = _within_share(search.choices(units, int8.scores, fine, first.scores), search, min_int8)
    reasons = {s.unit: f"alone in INT8 it leaves {_tell((losses[s.unit].score,))}" for s in steps}
    held = search.first_that_holds(steps, reasons, 0.0)
    allowed = 0.0
    if held is None and search.best().is_met:
        allowed = search.nearly_least_missing()
        held = search.cheapest(allowed)
    best = search.best() if held is None else search.without_needless(held, reasons, allowed)
    return replace(search.result(best, tuple(losses.values()), min_int8), sensitivity=int8)


Scores = tuple[Score, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    levels: Mapping[str, Level]
    plan: Plan
    scores: Scores
    cost: float

    @property
    def missing(self) -> float:
        """How much the worst output lacks to its budget and reserve; not positive when it has both."""
        return max(_reserve(s) - s.margin for s in self.scores)

    @property
    def is_met(self) -> bool:
        """The budget holds on every output."""
        return all(s.margin >= 0 for s in self.scores)


class _Search:
    """The net, what is asked of it, and every plan that was run."""

    def __init__(
        self,
        index: GraphIndex,
        candidates: Candidates,
        profile: DeviceProfile,
        dialect: Dialect,
        trials: Trials,
        on_step: Callable[[str], None],
    ) -> None:
        self._net = (index, candidates, profile, dialect)
        self._trials = trials
        self._on_step = on_step
        self._runs: list[_Run] = []
        self.macs = candidates.macs
        self.total_macs = sum(candidates.macs.values()) or 1

    def run(self, levels: Mapping[str, Level], reasons: Mapping[str, str], what: str) -> _Run:
        """Score a plan, once."""
        levels = {u: level for u, level in levels.items() if level != "int8"}
        for known in self._runs:
            if known.levels == levels:
                return known
        told = {
            u: f"{'in float' if level == 'float' else 'chosen'} for the budget: {reasons[u]}"
            for u, level in levels.items()
        }
        plan = plan_levels(*self._net, levels, told)
        run = _Run(levels=levels, plan=plan, scores=self._trials.scores(plan), cost=plan_cost(plan, self._net[3]))
        self._runs.append(run)
        self._on_step(
            f"{what}: {_tell(run.scores)}, INT8 {plan.planned_integer_share:.0%} of the MACs, work {run.cost:.2f}"
        )
        return run

    def units_of(self, plan: Plan) -> list[Unit]:
        """Units that a plan has in INT8 and that round."""
        planned = {n.name for n in plan.nodes if n.precision == "int8"}
        return [u for u in self._net[1].units.values() if u.name in planned and u.role != "passthrough"]

    def losses(self, table: SensitivityTable) -> dict[str, UnitLoss]:
        """Each unit alone in INT8, worst first."""
        return {
            name: UnitLoss(
                unit=name,
                op_type=self._net[1].units[name].op_type,
                score=worst(table.scores[name]),
                mac_share=self.macs.get(name, 0) / self.total_macs,
            )
            for name in table.worst_first()
        }

    def worth_a_finer_form(self, units: Sequence[Unit], table: SensitivityTable, whole: Scores) -> list[Unit]:
        """Those that have one, and whose noise in INT8 matters."""
        noise = {u.name: _noise(table.scores[u.name], whole) for u in units}
        least = LEAST_NOISE * sum(noise.values())
        return [u for u in units if noise[u.name] >= least and self._has_fine(u)]

    def choices(
        self, units: Sequence[Unit], int8: Mapping[str, Scores], fine: Mapping[str, Scores], whole: Scores
    ) -> dict[str, tuple[Choice, ...]]:
        """What each unit offers, by its scores alone in INT8 and, where it was measured so, in a finer form."""
        found = {}
        for unit in units:
            noise = _noise(int8[unit.name], whole)
            offered = [Choice(level="int8", cost=self._unit_cost(unit, "int8"), noise=noise)]
            if unit.name in fine:
                noise = _noise(fine[unit.name], whole)
                offered.append(Choice(level="fine", cost=self._unit_cost(unit, "fine"), noise=noise))
            offered.append(Choice(level="float", cost=self._unit_cost(unit, "float"), noise=0.0))
            found[unit.name] = tuple(offered)
        return found

    def first_that_holds(self, steps: Sequence[Upgrade], reasons: Mapping[str, str], allowed: float) -> _Run | None:
        """The shortest beginning of the path that lacks no more than `allowed`, by halving; None where not all of it does."""
        whole = self.run(_levels_after(steps), reasons, f"{len(steps)} of {len(steps)} steps")
        low, high, held = 0, len(steps), whole if whole.missing <= allowed else None
        while high - low > 1:
            middle = (low + high) // 2
            run = self.run(_levels_after(steps[:middle]), reasons, f"{middle} of {len(steps)} steps")
            if run.missing <= allowed:
                high, held = middle, run
            else:
                low = middle
        return held

    def without_needless(self, run: _Run, reasons: Mapping[str, str], allowed: float) -> _Run:
        """Take back what can be, the costliest first."""
        units = self._net[1].units
        for name in sorted(run.levels, key=lambda u: -self._unit_cost(units[u], run.levels[u]))[:MOST_STEPS_BACK]:
            below: tuple[Level, ...] = ("int8", "fine") if run.levels[name] == "float" else ("int8",)
            for level in below:
                tried = self.run({**run.levels, name: level}, reasons, f"{name} at {level}")
                if tried.missing <= allowed and tried.is_met >= run.is_met and tried.cost <= run.cost:
                    run = tried
                    break
        return run

    def nearly_least_missing(self) -> float:
        """The least that a plan that meets the budget lacks to its reserve, and a tenth of what was gained on the way.

        Infinite where no plan comes half way to the reserve: the budget alone then says what is cheapest.
        """
        least, at_first = min(r.missing for r in self._runs if r.is_met), self._runs[0].missing
        gained = max(at_first - least, 0.0)
        return float("inf") if gained < LEAST_REACHED * at_first else least + LEAST_GAIN * gained

    def cheapest(self, allowed: float) -> _Run:
        """Of the plans that meet the budget and lack no more than `allowed`."""
        return min((r for r in self._runs if r.is_met and r.missing <= allowed), key=lambda r: r.cost)

    def best(self) -> _Run:
        """The run whose worst output is nearest to its budget; the cheapest of equals."""
        return max(self._runs, key=lambda r: (worst(r.scores).margin, -r.cost))

    def result(self, run: _Run, losses: Sequence[UnitLoss], min_int8: float = 0.0) -> SearchResult:
        """What is returned, with the decisions told unit by unit."""
        planned = run.plan.by_name()
        decided = {u: _decision(planned[u].precision, level) for u, level in run.levels.items()}
        told = tuple(replace(s, decision=decided.get(s.unit, self._why_int8(s, min_int8, run))) for s in losses)
        return SearchResult(
            plan=run.plan,
            scores=run.scores,
            is_met=run.is_met,
            losses=told,
            tried=len(self._runs),
            front=self._front(),
        )

    def _why_int8(self, loss: UnitLoss, min_int8: float, run: _Run) -> str:
        is_kept = run.plan.planned_integer_share - loss.mac_share < min_int8 and worst(run.scores).margin < 0
        return f"int8: in float, less than {min_int8:.0%} of the MACs would be INT8" if is_kept else "int8"

    def _front(self) -> tuple[TriedPlan, ...]:
        found: list[TriedPlan] = []
        for run in sorted(self._runs, key=lambda r: (r.cost, -worst(r.scores).margin)):
            if not found or worst(run.scores).margin > found[-1].score.margin:
                fine = sum(n.macs for n in run.plan.nodes if is_fine(n, self._net[3])) / self.total_macs
                share = run.plan.planned_integer_share
                found.append(TriedPlan(score=worst(run.scores), integer_share=share, fine_share=fine, cost=run.cost))
        return tuple(found)

    def _has_fine(self, unit: Unit) -> bool:
        plan = plan_levels(*self._net, {unit.name: "fine"}, {unit.name: ""})
        return is_fine(plan.by_name()[unit.name], self._net[3])

    def _unit_cost(self, unit: Unit, level: Level) -> float:
        plan = plan_levels(*self._net, {unit.name: level}, {unit.name: ""})
        bridge = BRIDGE_COST if level == "float" and not unit.macs else 0.0
        return plan_cost(plan, self._net[3]) + bridge


def _noise(alone: Scores, whole: Scores) -> float:
    """What a unit alone adds, summed over the outputs by how much each of them lacks as a whole."""
    return sum(used_share(w) * used_share(s, w) for w, s in zip(whole, alone, strict=True))


def _levels_after(steps: Sequence[Upgrade]) -> dict[str, Level]:
    return {s.unit: s.level for s in steps}


def _within_share(choices: Mapping[str, Sequence[Choice]], search: _Search, min_int8: float) -> tuple[Upgrade, ...]:
    """The path on which enough stays INT8: a unit whose step to float would be one too many has no such choice."""
    while True:
        path = upgrade_path(choices)
        integer = search.total_macs
        too_many = None
        for step in path:
            if step.level == "float":
                integer -= search.macs.get(step.unit, 0)
                if integer < min_int8 * search.total_macs * (1 - 1e-12) and search.macs.get(step.unit, 0):
                    too_many = step.unit
                    break
        if too_many is None:
            return path
        choices = {**choices, too_many: [c for c in choices[too_many] if c.level != "float"]}


def _decision(precision: str, level: Level) -> str:
    if level == "float":
        return "float" if precision != "int8" else "int8"
    return "int8: in a finer form"


def _reserve(score: Score) -> float:
    """What one standard deviation over the samples takes where the worst of them counts, in decibels of error.

    Else 0: a bound on a mean has its own.
    """
    if not score.budget.is_of_the_worst_sample(len(score.values)) or len(score.values) < 2:
        return 0.0
    spread = stdev(score.values) if score.budget.is_less_better else -stdev(score.values)
    return score.margin - score.budget.margin_of(score.value + spread)


def _tell(scores: Scores) -> str:
    score = worst(scores)
    return f"{score.budget.metric} {score.budget.figure(score.value)} on {score.output!r}"

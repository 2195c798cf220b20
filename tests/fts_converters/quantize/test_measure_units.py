"""Units alone at each level, with recovered weights: what the search is told is what whole plans score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from tests.fts_converters.quantize.measured_nets import branches_net

from fts_calibration.metrics.budget import ALL_OUTPUTS, Budget, Score, parse_budget, parse_budgets
from fts_calibration.metrics.user_metric import load_user_metric
from fts_calibration.recovery.weight_update import WeightUpdate
from fts_converters.cache import StageCache
from fts_converters.quantize.levels import plan_alone
from fts_converters.quantize.measure_units import units_measure
from fts_converters.quantize.plan_nodes import is_fine
from fts_converters.quantize.trials import Trials, open_trials
from fts_devices.profiles import load_profile

# As in test_sensitivity_exhaustive.py: a cut moves sums by float32's last bits.
SAME = 1e-6
PROFILE = load_profile("cpu-int8")
BUDGETS = {"y": parse_budget("psnr>=60"), "z": parse_budget("iou>=95%")}


class Case:
    """The branched net, opened for trials as a conversion does."""

    def __init__(self, bench, dialect: str, folder=None) -> None:
        self.net = branches_net(bench)
        self.feeds = bench.feeds(self.net, 4)
        self.trial = bench.trial(self.net, self.feeds, dialect=dialect)
        self.dialect = PROFILE.dialects[dialect]
        self.units = [u.name for u in self.trial.candidates.units.values() if u.role != "passthrough"]
        self.cache = StageCache(folder)

    def trials(self, update: WeightUpdate = WeightUpdate.NONE, budgets: Mapping[str, Budget] = BUDGETS) -> Trials:
        return Trials(
            index=self.trial.index,
            candidates=self.trial.candidates,
            statistics=self.trial.statistics,
            dialect=self.dialect,
            feeds=lambda: iter(self.feeds),
            split_digest="these",
            budgets=budgets,
            exact_u8s8=True,
            cache=self.cache,
            update=update,
        )

    def plan(self, unit: str, level):
        return plan_alone(self.trial.index, self.trial.candidates, PROFILE, self.dialect, unit, level)

    def with_finer_forms(self) -> list[str]:
        return [u for u in self.units if is_fine(self.plan(u, "fine").by_name()[u], self.dialect)]

    def measured(self, trials: Trials, units, level, method="full", steps=None):
        on_step = (lambda step: None) if steps is None else steps.append
        net = (self.trial.index, self.trial.candidates, PROFILE, self.dialect)
        return units_measure(method, *net, trials, on_step)(units, level, [])

    def update(self) -> WeightUpdate:
        """Other weights and another bias: what recovery could have found, and more than rounding moves."""
        index = self.trial.index
        weights = {n: index.array(n) * np.float32(0.9) for n in ("w_left", "w_wide", "w_z")}
        return WeightUpdate(weights=weights, biases={"deep": np.linspace(-0.3, 0.3, 6, dtype=np.float32)})


def assert_same(found: tuple[Score, ...], expected: tuple[Score, ...], values: float = SAME) -> None:
    assert [s.output for s in found] == [s.output for s in expected]
    for score, known in zip(found, expected, strict=True):
        assert score.budget == known.budget
        assert score.values == pytest.approx(known.values, rel=values)
        assert score.noise == pytest.approx(known.noise, rel=1e-4)


@pytest.mark.parametrize("dialect", ["any", "vnni"])
@pytest.mark.parametrize("level", ["int8", "fine"])
@pytest.mark.parametrize("is_recovered", [False, True])
def test_scores_are_those_of_the_whole_plan_with_one_unit(bench, dialect, level, is_recovered) -> None:
    case = Case(bench, dialect)
    units = case.units if level == "int8" else case.with_finer_forms()
    assert len(units) >= 4
    with open_trials(case.trials(case.update() if is_recovered else WeightUpdate.NONE)) as trials:
        table = case.measured(trials, units, level)
        assert list(table.scores) == units
        for unit in units:
            assert_same(table.scores[unit], trials.scores(case.plan(unit, level)))
        noise = {unit: table.scores[unit][1].noise for unit in units}
    assert {unit for unit, of_samples in noise.items() if all(n > 0 for n in of_samples)} == {"right", "z"}
    assert {len(of_samples) for of_samples in noise.values()} == {4}


def test_levels_and_updates_are_told_apart_by_the_cache(bench, tmp_path) -> None:
    case = Case(bench, "any", tmp_path)
    units = case.with_finer_forms()
    found = []
    for update in (WeightUpdate.NONE, case.update()):
        for level in ("int8", "fine"):
            with open_trials(case.trials(update)) as trials:
                found.append(case.measured(trials, units, level).scores)
            case.cache, remembering = StageCache(None), case.cache
            with open_trials(case.trials(update)) as trials:
                afresh = case.measured(trials, units, level).scores
            case.cache = remembering
            for unit in units:
                assert_same(found[-1][unit], afresh[unit])
    assert len({tuple(s.values for unit in units for s in scores[unit]) for scores in found}) == 4


def test_another_threshold_reads_what_was_measured_and_another_metric_does_not(bench, tmp_path, monkeypatch) -> None:
    case = Case(bench, "any", tmp_path)
    with open_trials(case.trials()) as trials:
        first = case.measured(trials, case.units, "int8")
    monkeypatch.setattr("fts_calibration.sensitivity.measure_part.PartRunner.values_of", None)
    stricter = {**BUDGETS, "y": parse_budget("psnr>=70")}
    with open_trials(case.trials(budgets=stricter)) as trials:
        again = case.measured(trials, case.units, "int8")
    assert all(again.scores[u][0].values == first.scores[u][0].values for u in case.units)
    assert all(again.scores[u][0].budget.threshold == 70 for u in case.units)
    with (
        open_trials(case.trials(budgets={**BUDGETS, "y": parse_budget("sqnr>=70")})) as trials,
        pytest.raises(TypeError),
    ):
        case.measured(trials, case.units, "int8")


def test_a_metric_of_the_users_own_sees_all_outputs(bench, tmp_path, monkeypatch) -> None:
    text = "import numpy as np\n\ndef error(reference, test):\n    assert sorted(reference) == sorted(test) == ['y', 'z']\n"
    text += "    return float(np.abs(test['y'] - reference['y']).max() + np.abs(test['z'] - reference['z']).max())\n"
    (tmp_path / "of_ours.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fts_calibration.sensitivity.exhaustive.usual_processes", lambda parts: 2)
    asked = parse_budgets(["metric<=0.5"], load_user_metric("of_ours:error")).whole
    case = Case(bench, "any")
    with open_trials(case.trials(budgets={ALL_OUTPUTS: replace(asked, best=0.0)})) as trials:
        table = case.measured(trials, case.units, "int8")
        for unit in case.units:
            assert_same(table.scores[unit], trials.scores(case.plan(unit, "int8")), values=1e-4)
        pilot = case.measured(trials, case.units, "int8", "fast")
    assert pilot.scores["left"] == table.scores["left"]
    assert all(len(s.noise) == 4 and all(n > 0 for n in s.noise) for (s,) in table.scores.values())


def test_each_unit_is_told_with_its_level(bench) -> None:
    case, steps = Case(bench, "any"), []
    with open_trials(case.trials(budgets={"y": parse_budget("psnr>=60")})) as trials:
        case.measured(trials, case.units[:2], "int8", steps=steps)
        case.measured(trials, case.units[:1], "fine", "fast", steps)
    assert [s.partition(": psnr")[0] for s in steps] == [
        "alone in INT8 1/2: Conv left",
        "alone in INT8 2/2: Conv right",
        "alone in a finer form 1/1: Conv left",
    ]

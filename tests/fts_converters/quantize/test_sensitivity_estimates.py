"""Methods that do less than the exhaustive one: what they measure is right, and what they fill in follows their formula."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.fts_converters.quantize.measured_nets import branches

from fts.engines.onnxruntime_session import open_session
from fts_calibration.metrics.budget import Budget, Score, parse_budget
from fts_calibration.metrics.used_share import used_share
from fts_calibration.sensitivity.activation_spread import estimate_from_spread
from fts_calibration.sensitivity.exhaustive import measure_exhaustively
from fts_calibration.sensitivity.local_sqnr import estimate_local_sqnr
from fts_calibration.sensitivity.pilot import CHOSEN, PILOT_STEP, deciding_samples, measure_with_pilot
from fts_calibration.sensitivity.spearman import spearman
from fts_calibration.sensitivity.unit_errors import UnitErrors
from fts_calibration.statistics.collect import collect_statistics
from fts_converters.quantize.measure_units import usual_method


@pytest.fixture(scope="module")
def given(bench):
    found = branches(bench, samples=5).given
    with found.references:
        yield found


@pytest.fixture(scope="module")
def truth(given):
    return measure_exhaustively(given, processes=1)


@dataclass(frozen=True)
class Sample:
    """What a metric says of one sample."""

    budget: Budget
    value: float
    noise: float | None = None


def answer_from(monkeypatch, sample_of):
    """Let units be measured by a function of (unit, sample), where samples 0 and 2 are those that decide."""

    def from_table(part, *, processes, on_unit):
        places = range(5) if len(part.references) == 5 else (0, 2)
        found = {}
        for unit in part.units:
            samples = [sample_of(unit.name, place) for place in places]
            found[unit.name] = (
                Score(
                    output="y",
                    budget=samples[0].budget,
                    values=tuple(s.value for s in samples),
                    noise=tuple(s.noise for s in samples if s.noise is not None),
                ),
            )
            on_unit(unit.name, found[unit.name])
        return found, 1.0

    monkeypatch.setattr("fts_calibration.sensitivity.pilot.scores_alone", from_table)


def test_the_pilot_measures_what_it_says_and_orders_as_the_truth_does(given, truth) -> None:
    told = []
    table = measure_with_pilot(given, processes=1, on_unit=lambda unit, score: told.append(unit))
    names = [u.name for u in given.units]
    assert sorted(told) == sorted(names)
    assert list(table.scores) == names
    assert (table.method, table.samples) == ("pilot", 5)
    assert table.forward_passes < truth.forward_passes
    for place, name in enumerate(names):
        for score, known in zip(table.scores[name], truth.scores[name], strict=True):
            pairs = zip(score.values, known.values, strict=True)
            same = [a == pytest.approx(b, rel=1e-6) for a, b in pairs]
            assert all(same) if place % PILOT_STEP == 0 else sum(same) >= CHOSEN
    assert spearman(list(table.losses.values()), list(truth.losses.values())) > 0.9


def test_with_two_samples_the_pilot_is_the_exhaustive_measurement(bench) -> None:
    small = branches(bench, samples=2).given
    with small.references:
        assert measure_with_pilot(small, processes=1) == measure_exhaustively(small, processes=1)


def test_filled_values_add_a_share_of_the_unit_and_one_of_the_sample(given, monkeypatch) -> None:
    """On a table that is such a sum, what is filled in is the truth."""
    unit_share = {u.name: 30.0 + 3.0 * p for p, u in enumerate(given.units)}
    sample_share = [0.0, 5.0, -4.0, 2.0, -3.0]
    budget = parse_budget("psnr>=30")
    answer_from(monkeypatch, lambda unit, s: Sample(budget, unit_share[unit] + sample_share[s]))
    for unit, (score,) in measure_with_pilot(given).scores.items():
        assert score.values == pytest.approx([unit_share[unit] + s for s in sample_share])
        assert score.noise == ()


@pytest.mark.parametrize(
    ("budget", "value"),
    [
        ("nme<=0.02", lambda error: error),
        ("age.max<=1", lambda error: error),
        ("cosine>=0.99", lambda error: 1 - error),
    ],
)
def test_errors_and_noise_are_filled_in_by_factors_of_the_unit_and_the_sample(
    given, monkeypatch, budget, value
) -> None:
    unit_share = {u.name: 1e-3 * 1.5**p for p, u in enumerate(given.units)}
    sample_share = [1.0, 0.2, 4.0, 0.5, 0.1]
    parsed = parse_budget(budget)
    answer_from(
        monkeypatch,
        lambda unit, s: Sample(
            parsed, value(unit_share[unit] * sample_share[s]), 1e-2 * unit_share[unit] * sample_share[s]
        ),
    )
    for unit, (score,) in measure_with_pilot(given).scores.items():
        errors = [unit_share[unit] * s for s in sample_share]
        assert [abs(parsed.kind.best - v) for v in score.values] == pytest.approx(errors, rel=1e-4)
        assert score.noise == pytest.approx([1e-2 * e for e in errors], rel=1e-4)


def test_units_that_do_not_move_a_mask_still_differ_by_their_noise(given, monkeypatch) -> None:
    """As the search sees them: shares of the noise with all in INT8, hard samples chosen or not."""
    unit_share = {u.name: 1e-6 * 2.0**p for p, u in enumerate(given.units)}
    sample_share = [3.0, 0.2, 5.0, 0.5, 0.1]
    budget = parse_budget("iou>=90%")
    answer_from(monkeypatch, lambda unit, s: Sample(budget, 1.0, unit_share[unit] * sample_share[s]))
    total = sum(unit_share.values())
    whole = Score(output="y", budget=budget, values=(0.8,) * 5, noise=tuple(total * s for s in sample_share))
    scores = measure_with_pilot(given).scores
    assert sum(used_share(score, whole) for (score,) in scores.values()) == pytest.approx(used_share(whole), rel=1e-3)
    for unit, (score,) in scores.items():
        assert used_share(score, whole) == pytest.approx(used_share(whole) * unit_share[unit] / total, rel=1e-3)
        assert score.values == (1.0,) * 5


@pytest.mark.parametrize(
    ("budget", "measured", "few", "expected"),
    [
        ("psnr>=30", [100.0, 110.0, 120.0, 0.0, 0.0], 119.0, 120.0),
        ("drop<=0.5%", [1.0, 1.0, 0.0, 0.0, 0.0], 0.0, 0.0),
        ("nme<=0.02", [1e-6, 1e-6, 1e-9, 1e-9, 1e-9], 0.0, 0.0),
    ],
)
def test_filled_values_stay_within_the_metric(given, monkeypatch, budget, measured, few, expected) -> None:
    parsed = parse_budget(budget)
    pilot = {u.name for u in given.units[::PILOT_STEP]}
    answer_from(monkeypatch, lambda unit, s: Sample(parsed, measured[s] if unit in pilot else few))
    (score,) = measure_with_pilot(given).scores["right"]
    least, most = sorted((parsed.kind.best, parsed.kind.worst))
    assert all(least <= v <= most for v in score.values)
    assert expected in score.values


@pytest.mark.parametrize(
    ("budget", "samples", "expected"),
    [
        ("psnr>=30", 19, "fast"),
        ("psnr>=30", 20, "full"),
        ("psnr.min>=30", 20, "fast"),
        ("psnr.mean>=30", 5, "full"),
        ("nme<=0.02", 19, "fast"),
        ("nme.max<=0.02", 20, "fast"),
        ("nme<=0.02", 20, "full"),
        ("iou>=95%", 5, "fast"),
        ("top1>=99%", 5, "full"),
        ("drop<=0.5%", 5, "full"),
    ],
)
def test_the_usual_method_is_fast_where_the_worst_sample_counts(budget, samples, expected) -> None:
    score = Score(output="y", budget=parse_budget(budget), values=(40.0,) * samples)
    least = Score(output="z", budget=parse_budget("psnr.min>=30"), values=(40.0,) * samples)
    assert usual_method([score]) == usual_method([least, score]) == expected


def test_the_samples_chosen_are_those_that_decide_most_often() -> None:
    high, landmarks = (90.0,) * 4, parse_budget("nme<=0.1")

    def scores(y, z):
        first = Score(output="y", budget=parse_budget("psnr>=30"), values=y)
        return (first, Score(output="z", budget=landmarks, values=z))

    still = (1e-5,) * 4  # 80 dB below what is allowed
    pilot = [scores((60, 40, 70, 80), still), scores(high, (1e-5, 1e-5, 0.09, 1e-5)), scores((60, 40, 70, 80), still)]
    assert deciding_samples(pilot) == (1, 2)
    assert deciding_samples(pilot[:1]) == (0, 1)


def test_a_units_own_error_is_that_of_the_whole_net_at_its_output(given) -> None:
    errors = UnitErrors(given)
    feed = next(iter(given.feeds()))
    for unit in given.units:
        output = errors.outputs[unit.name]
        seen = {}
        for which, model in (("float", given.net.model), ("int8", given.encode(unit.name))):
            watching = type(model)()
            watching.CopyFrom(model)
            names = errors.tensors(unit.name) if which == "float" else [output]
            del watching.graph.output[:]
            watching.graph.output.extend(given.net.types[n] for n in dict.fromkeys(names) if n not in given.net.inputs)
            session = open_session(watching.SerializeToString(), threads=1)
            seen[which] = {**feed, **dict(zip(session.output_names, session.run(feed), strict=True))}
        expected = seen["int8"][output].astype(np.float64) - seen["float"][output]
        np.testing.assert_allclose(errors.of(unit.name, seen["float"]), expected, atol=1e-5)
        assert np.abs(expected).max() > 1e-3


def test_channels_that_become_pixels_are_seen_behind_the_move(given) -> None:
    assert UnitErrors(given).outputs["wide"] == "y"


def test_local_sqnr_is_the_same_in_several_passes(given) -> None:
    one = estimate_local_sqnr(given)
    several = estimate_local_sqnr(given, limit_bytes=20_000)
    assert several.losses == pytest.approx(one.losses, abs=1e-3)
    assert several.forward_passes > one.forward_passes
    assert all(-60 < loss < -20 for loss in one.losses.values())


def test_a_wider_range_of_the_same_values_is_more_sensitive(bench) -> None:
    found = branches(bench, samples=3).given
    names = sorted({n for u in found.units for n in (*u.inputs, u.output)})
    calm = collect_statistics(found.net.model, found.feeds(), names)
    wild = replace(calm, ranges={**calm.ranges, "deep": replace(calm.ranges["deep"], high=1000.0)})
    before, after = (estimate_from_spread(found.units, s).losses for s in (calm, wild))
    assert {u for u in before if after[u] > before[u]} == {"deep"}


def test_the_gradient_estimates_the_score_of_each_unit(given, truth) -> None:
    pytest.importorskip("torch", reason="the torch extra is not installed")
    from fts_calibration.sensitivity.fisher import estimate_by_fisher

    table = estimate_by_fisher(given, probes=64)
    # Of a sum of 64 squared normal values: √(2/64) = 0.18, or 0.8 dB; 3 dB is beyond four deviations, on the mean of 5.
    for unit, scores in table.scores.items():
        for score, known in zip(scores, truth.scores[unit], strict=True):
            assert np.mean(score.values) == pytest.approx(np.mean(known.values), abs=3.0), unit
    assert spearman(list(table.losses.values()), list(truth.losses.values())) > 0.9


def test_the_gradient_says_why_it_does_not_apply(given) -> None:
    pytest.importorskip("torch", reason="the torch extra is not installed")
    from fts_calibration.sensitivity.fisher import NotEstimableError, estimate_by_fisher

    with pytest.raises(NotEstimableError, match="ssim does not follow"):
        estimate_by_fisher(replace(given, budgets={"y": parse_budget("ssim>=0.9")}))

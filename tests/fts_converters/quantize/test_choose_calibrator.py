"""The calibrator is the one under which the net scores best; equal ranges are not tried twice."""

from __future__ import annotations

import numpy as np

from fts.vocabulary.quantization import Scheme
from fts_calibration.calibrators import CALIBRATORS
from fts_calibration.metrics.budget import Score, parse_budget
from fts_calibration.statistics.histogram import histogram_of
from fts_calibration.statistics.statistics import Statistics, TensorRange
from fts_converters.quantize.choose_calibrator import choose_calibrator

U8 = Scheme(bits=8, signed=False, symmetric=False, per_channel=False)
BUDGET = parse_budget("psnr>=30")


def statistics_of(values: np.ndarray) -> Statistics:
    seen = TensorRange(low=float(values.min()), high=float(values.max()))
    return Statistics(ranges={"t": seen}, samples=1, histograms={"t": histogram_of(values)})


def score(value: float) -> Score:
    assert BUDGET is not None
    return Score(output="y", budget=BUDGET, values=(value,))


def test_the_best_is_taken_and_all_are_told() -> None:
    values = np.append(np.random.default_rng(0).normal(size=50_000), 60.0).astype(np.float32)
    statistics, steps, tried = statistics_of(values), [], []

    def judge(candidate: Statistics) -> Score:
        tried.append(candidate.ranges["t"].high)
        return score(40 - abs(candidate.ranges["t"].high - 4.0))  # as if the net did best with a reach of 4

    name, best = choose_calibrator(statistics, U8, judge, steps.append)
    assert name != "min-max"
    assert best.ranges["t"].high == min(tried, key=lambda high: abs(high - 4.0))
    assert len(tried) == len(set(tried)) > 3
    assert all(f"{n} " in steps[0] for n in ("min-max", name))


def test_min_max_stays_where_clipping_gains_nothing() -> None:
    values = np.random.default_rng(0).random(50_000).astype(np.float32)
    name, best = choose_calibrator(
        statistics_of(values), U8, lambda s: score(30 - abs(1 - s.ranges["t"].high)), [].append
    )
    assert name == "min-max"
    assert best.ranges == statistics_of(values).ranges


def test_equal_scores_keep_the_usual_one() -> None:
    values = np.random.default_rng(0).normal(size=5_000).astype(np.float32)
    assert choose_calibrator(statistics_of(values), U8, lambda _: score(33.0), [].append)[0] == "min-max"
    assert next(iter(CALIBRATORS)) == "min-max"

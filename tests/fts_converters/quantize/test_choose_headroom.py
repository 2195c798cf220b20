"""Channel ranges are widened where the net scores better so, and never beyond what the tensor reached."""

from __future__ import annotations

from fts_calibration.metrics.budget import Score, parse_budget
from fts_calibration.statistics.statistics import Statistics, TensorRange
from fts_converters.quantize.choose_headroom import choose_headroom, with_headroom

ROWS = (TensorRange(low=-1.0, high=1.0), TensorRange(low=0.0, high=4.0), TensorRange(low=0.25, high=0.5))
STATISTICS = Statistics(ranges={"t": TensorRange(low=-0.5, high=2.0)}, samples=1, channel_ranges={"t": ROWS})


def score(value: float) -> Score:
    budget = parse_budget("psnr>=30")
    assert budget is not None
    return Score(output="y", budget=budget, values=(value,))


def test_a_factor_widens_each_channel_as_far_as_the_tensor_reached() -> None:
    found = with_headroom(STATISTICS, 2.0).channel_ranges["t"]
    assert [(r.low, r.high) for r in found] == [(-1.0, 2.0), (0.0, 4.0), (0.25, 1.0)]
    assert {(r.low, r.high) for r in with_headroom(STATISTICS, float("inf")).channel_ranges["t"]} == {(-1.0, 4.0)}
    assert with_headroom(STATISTICS, 1.0).channel_ranges == STATISTICS.channel_ranges


def test_ranges_of_whole_tensors_stay() -> None:
    assert with_headroom(STATISTICS, 3.0).ranges == STATISTICS.ranges


def test_the_best_is_taken_and_told() -> None:
    steps: list[str] = []
    factor, best = choose_headroom(
        STATISTICS, lambda s: score(40 - abs(s.channel_ranges["t"][0].high - 1.5)), steps.append
    )
    assert factor == 1.5
    assert best.channel_ranges["t"][0].high == 1.5
    assert "channel ranges times 1.5 (psnr: 1: 39.50, 1.25: 39.75, 1.5: 40.00" in steps[0]


def test_as_seen_where_nothing_is_better() -> None:
    assert choose_headroom(STATISTICS, lambda _: score(33.0), [].append)[0] == 1.0
    bare = Statistics(ranges=STATISTICS.ranges, samples=1)
    steps: list[str] = []
    assert choose_headroom(bare, lambda _: score(33.0), steps.append) == (1.0, bare)
    assert steps == []

"""Which histograms a report shows, how few bins they have, and what their grids leave out."""

from __future__ import annotations

import numpy as np
import pytest

from fts.vocabulary.quantization import QuantParams, Scheme
from fts_calibration.metrics.budget import Score, parse_budget
from fts_calibration.statistics.histogram import histogram_of
from fts_converters.calibration_histograms import MOST_BINS, MOST_TENSORS, calibration_histograms
from fts_converters.quantize.search_budget import UnitLoss
from fts_converters.quantize.units import Candidates, Unit

U8 = Scheme(bits=8, signed=False, symmetric=False, per_channel=False)


def grid(scale: float, zero: int = 0, axis: int | None = None) -> QuantParams:
    return QuantParams(scale=np.array([scale], np.float32), zero_point=np.array([zero], np.int32), scheme=U8, axis=axis)


def unit(name: str, reads: str, writes: str, macs: int = 0) -> Unit:
    return Unit(name=name, op_type="Conv", role="mac", nodes=(name,), activations=(reads,), output=writes, macs=macs)


def candidates(*units: Unit) -> Candidates:
    return Candidates(units={u.name: u for u in units}, reasons={}, macs={})


def loss(name: str) -> UnitLoss:
    score = Score(output="y", budget=parse_budget("psnr>=30"), values=(20.0,))
    return UnitLoss(unit=name, op_type="Conv", score=score, mac_share=0.5)


VALUES = np.random.default_rng(0).normal(0, 1, 40000).astype(np.float32)
HISTOGRAM = histogram_of(VALUES)


def test_counts_are_those_of_the_values_in_equal_bins():
    (entry,) = calibration_histograms({"x": HISTOGRAM}, {"x": grid(0.01)}, candidates(unit("a", "x", "y")), ())
    counts = np.array(entry["counts"])
    assert MOST_BINS / 2 < len(counts) <= MOST_BINS
    expected, _ = np.histogram(VALUES, bins=len(counts), range=(entry["low"], entry["high"]))
    np.testing.assert_array_equal(counts, expected)
    assert (entry["tensor"], entry["unit"], entry["tag"]) == ("x", "a", "measured")


def test_the_clipped_share_is_what_lies_more_than_half_a_step_outside():
    step = 1 / 64
    (entry,) = calibration_histograms({"x": HISTOGRAM}, {"x": grid(step, 128)}, candidates(unit("a", "x", "y")), ())
    assert entry["clip"] == [-2.0, 127 * step]
    outside = np.mean(np.abs(VALUES + step / 2) > 2.0)
    assert outside > 0.04
    assert entry["clipped"] == pytest.approx(outside, abs=5e-4)  # a bin of 2^-10 on either side holds less
    (whole,) = calibration_histograms({"x": HISTOGRAM}, {"x": grid(0.05, 128)}, candidates(unit("a", "x", "y")), ())
    assert whole["clipped"] == 0.0


def test_a_grid_a_channel_has_no_bounds_of_its_own():
    (entry,) = calibration_histograms({"y": HISTOGRAM}, {"y": grid(0.1, axis=1)}, candidates(unit("a", "x", "y")), ())
    assert entry["grid"] == "channel"
    assert "clip" not in entry


def test_measured_units_come_first_worst_first_then_those_with_most_work():
    units = candidates(
        unit("a", "x", "h"), unit("b", "h", "i", macs=5), unit("c", "i", "j", macs=9), unit("d", "j", "y")
    )
    names = ("x", "h", "i", "j", "y")
    found = calibration_histograms(
        dict.fromkeys(names, HISTOGRAM), {n: grid(1.0) for n in names}, units, (loss("d"), loss("a"))
    )
    assert [(e["tensor"], e["unit"]) for e in found] == [("j", "d"), ("y", "d"), ("x", "a"), ("h", "a"), ("i", "c")]


def test_only_tensors_with_a_grid_and_values_are_shown_and_few_of_a_deep_net():
    units = candidates(*(unit(f"u{i}", f"t{i}", f"t{i + 1}", macs=100 - i) for i in range(50)))
    seen = {f"t{i}": HISTOGRAM for i in range(51)}
    grids = {f"t{i}": grid(1.0) for i in range(51) if i != 2}
    found = calibration_histograms(seen, grids, units, ())
    assert [e["tensor"] for e in found] == [f"t{i}" for i in (0, 1, *range(3, 13))]
    assert len(found) == MOST_TENSORS
    assert calibration_histograms({}, grids, units, ()) == []


def test_a_constant_tensor_is_one_bin():
    seen = histogram_of(np.zeros(5, np.float32))
    (entry,) = calibration_histograms({"x": seen}, {"x": grid(1.0)}, candidates(unit("a", "x", "y")), ())
    assert entry["counts"] == [5]
    assert entry["low"] < entry["high"]

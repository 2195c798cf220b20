from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import parser

from fts.engines.onnxruntime_session import open_session
from fts_calibration.metrics.budget import parse_budget
from fts_calibration.metrics.evaluate import evaluate
from fts_calibration.metrics.reference_outputs import ReferenceOutputs

NET = """<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y, uint8[4] u)
{ y = Neg(x) a = Abs(x) u = Cast<to=2>(a) }"""
FEEDS = [{"x": np.array([0, 1, 2, 3], np.float32)}, {"x": np.array([-5, 0, 0, 0], np.float32)}]


@pytest.fixture
def session():
    return open_session(parser.parse_model(NET).SerializeToString())


def test_peak_is_the_range_over_the_split_and_255_for_uint8(session):
    with ReferenceOutputs(session, FEEDS) as references:
        assert references.peaks == {"y": 8.0, "u": 255.0}
        assert len(references) == 2
        kept = list(references)
    np.testing.assert_array_equal(kept[0]["y"], [0, -1, -2, -3])
    np.testing.assert_array_equal(kept[1]["u"], [5, 0, 0, 0])


@pytest.mark.parametrize(("value", "peak"), [(7.0, 7.0), (-7.0, 7.0), (0.0, 1.0)])
def test_a_constant_output_has_its_magnitude_as_peak(session, value, peak):
    with ReferenceOutputs(session, [{"x": np.full(4, value, np.float32)}]) as references:
        assert references.peaks["y"] == peak


def test_files_are_gone_at_the_end(session):
    with ReferenceOutputs(session, FEEDS) as references:
        folder = Path(references._folder.name)
        assert folder.exists()
    assert not folder.exists()


def test_scores_only_outputs_with_a_budget(session):
    budgets = {"y": parse_budget("psnr.min>=30")}

    def run(feed):
        return {"y": -feed["x"] + np.float32(0.8), "u": np.zeros(4, np.uint8)}

    with ReferenceOutputs(session, FEEDS) as references:
        (score,) = evaluate(run, FEEDS, references, budgets)
    assert score.output == "y"
    assert score.values == pytest.approx((20.0, 20.0), abs=1e-4)  # peak 8, rms 0.8 as float32


def test_a_split_of_another_length_is_no_score(session):
    with ReferenceOutputs(session, FEEDS) as references, pytest.raises(ValueError, match="zip"):
        evaluate(lambda f: {"y": -f["x"]}, FEEDS[:1], references, {"y": parse_budget("psnr>=30")})

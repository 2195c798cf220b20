"""`--metric package.module:function`: searched and verified by, recorded, and never served from an older file's cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fts.bundle.archive import open_bundle

from .conftest import Ran, convert_in_process_of_its_own, report_of
from .nets import PICTURE, save_net, save_pictures

METRIC = """
import numpy as np

def likeness(reference, test):
    error = float(np.abs(reference["y"] - test["y"]).max())
    return {scale} * (1.0 - error)

def error(reference, test):
    return np.abs(reference["y"] - test["y"]).mean()

def fails_late(reference, test):
    if not np.array_equal(reference["y"], test["y"]):
        raise RuntimeError("cannot compare")
    return 1.0
"""


@pytest.fixture
def shelf(place: Path) -> Path:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place / "photos", 8)
    (place / "my_metrics.py").write_text(METRIC.format(scale=1))
    return place


def convert(place: Path, *arguments: str) -> Ran:
    """In a process of its own: a module is imported once in each."""
    common = ("net.onnx", "--target", "cpu-int8", "--calib", "photos", "--json")
    return convert_in_process_of_its_own(*common, *arguments, cwd=place)


def test_it_is_what_the_search_and_the_proof_go_by(shelf: Path) -> None:
    done = convert(shelf, "--metric", "my_metrics:likeness", "--budget", "metric>=0.9")
    assert done.code == 0, done.err
    metrics = json.loads(done.out)["metrics"]
    assert {(m["output"], m["metric"], m["budget"], m["split"]) for m in metrics} == {
        ("all outputs", "metric", "metric>=0.9", "select"), ("all outputs", "metric", "metric>=0.9", "verify"),
    }  # fmt: skip
    assert all(0.9 <= m["value"] <= 1 for m in metrics)
    recorded = open_bundle(shelf / "net.cpu-int8.fts").manifest.provenance["options"]["metric"]
    assert recorded["function"] == "my_metrics:likeness"
    assert len(recorded["sha256"]) == 64


def test_an_error_is_missed_above_its_threshold_and_named_outputs_hold_beside_it(shelf: Path) -> None:
    done = convert(shelf, "--metric", "my_metrics:error", "--budget", "metric<=0.0000001,y:psnr>=20", "--min-int8", "1")
    assert done.code == 3
    assert "output 'all outputs': metric<=1e-07 missed on the verify split" in done.err
    report = report_of(shelf / "net.cpu-int8.below-budget.fts")
    assert {m["budget"]: m["met"] for m in report["metrics"]} == {"metric<=1e-07": False, "psnr>=20": True}
    assert report["sensitivity"][0]["output"] == "all outputs"


def test_a_changed_file_is_measured_anew(shelf: Path) -> None:
    arguments = ("--metric", "my_metrics:likeness", "--budget", "metric>=0.1")
    first = json.loads(convert(shelf, *arguments).out)["metrics"]
    again = json.loads(convert(shelf, *arguments).out)["metrics"]
    (shelf / "my_metrics.py").write_text(METRIC.format(scale=2))
    changed = json.loads(convert(shelf, *arguments).out)["metrics"]
    assert [m["value"] for m in again] == [m["value"] for m in first]
    assert [m["value"] for m in changed] == pytest.approx([2 * m["value"] for m in first], abs=2e-4)  # four decimals


@pytest.mark.parametrize(
    ("metric", "budget", "says"),
    [
        ("my_metrics:absent", "metric>=0.9", "has nothing of the name 'absent'"),
        ("absent_metrics:f", "metric>=0.9", "there is no module 'absent_metrics'"),
        ("my_metrics:likeness", "psnr>=30", "expected a condition for it"),
        ("my_metrics:likeness", "metric>=1.5", "it gives 1 for FP32 against itself, so no net can reach metric>=1.5"),
        ("my_metrics:likeness", "metric<=0.5", "it gives 1 for FP32 against itself"),
        ("my_metrics:fails_late", "metric>=0.5", "RuntimeError: cannot compare (my_metrics.py, line 13)"),
    ],
)
def test_what_is_wrong_with_it_is_exit_2(shelf: Path, metric: str, budget: str, says: str) -> None:
    done = convert(shelf, "--metric", metric, "--budget", budget)
    assert done.code == 2, done.err
    assert says in done.err
    assert not list(shelf.glob("*.fts"))


def test_what_fails_in_the_proof_alone_is_exit_2_too(shelf: Path) -> None:
    """The proof runs in a process of its own, and what it says of the user's function is said."""
    (shelf / "my_metrics.py").write_text(
        "import sys\n\ndef f(reference, test):\n"
        "    if any('verify' in a for a in sys.orig_argv):\n        raise RuntimeError('not here')\n    return 1.0\n"
    )
    done = convert(shelf, "--metric", "my_metrics:f", "--budget", "metric>=0.5")
    assert done.code == 2, done.err
    assert "--metric my_metrics:f: RuntimeError: not here (my_metrics.py, line 5)" in done.err
    assert not list(shelf.glob("*.fts"))

"""stdout is the result, stderr is everything else; --json is one object, -q leaves warnings."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from fts_converters.commands import main_convert

from .conftest import TARGET, Converted, Run
from .nets import TENSOR, save_net, save_pictures

STAGES = ("load", "clean", "calibrate", "search", "verify", "pack")


@pytest.fixture
def work(place: Path) -> Path:
    save_net(place / "net.onnx", TENSOR)
    save_pictures(place / "photos", 4)
    return place


def stages_in(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line and line.split()[0] in STAGES]


def test_progress_goes_to_stderr_in_plain_lines_and_the_result_to_stdout(converted: Converted) -> None:
    assert stages_in(converted.err) == list(STAGES)
    assert "\r" not in converted.err
    assert "\x1b" not in converted.err
    assert not stages_in(converted.out)
    assert converted.out.startswith("net.cpu-int8.fts: 100.0% of the MACs in integer kernels\n")


@pytest.mark.parametrize(("budget", "code"), [("sqnr>=20", 0), ("psnr>=90", 3)])
def test_json_is_all_that_is_on_stdout(budget: str, code: int, work: Path, fts_convert: Run) -> None:
    done = fts_convert("net.onnx", "--calib", "photos", "--budget", budget, "--json")
    assert done.code == code
    result = json.loads(done.out)
    assert done.out.count("\n") == 1
    assert result["met"] is (code == 0)
    assert bool(result["failures"]) is (code == 3)
    assert Path(result["bundle"]).is_file()
    assert {m["split"] for m in result["metrics"]} == {"select", "verify"}
    assert all(w["id"] and w["text"] for w in result["warnings"])
    assert stages_in(done.err) == list(STAGES)


def test_json_prints_nothing_on_wrong_input(work: Path, fts_convert: Run) -> None:
    done = fts_convert("net.onnx", "--calib", "nowhere", "--json")
    assert (done.code, done.out) == (2, "")


def test_quiet_leaves_warnings_and_the_result(work: Path, fts_convert: Run) -> None:
    done = fts_convert("net.onnx", "--calib", "photos", "-q")
    assert done.code == 0
    assert done.err
    assert all(line.startswith("fts-convert: warning: [") for line in done.err.splitlines())
    assert "integer kernels" in done.out


def test_similarities_are_told_with_enough_digits(work: Path, fts_convert: Run) -> None:
    done = fts_convert("net.onnx", "--calib", "photos", "--budget", "ssim>=0.99999")
    assert done.code == 3
    assert "min 1.00 " not in done.out
    (missed,) = [line for line in done.err.splitlines() if "missed on the select split" in line]
    value = missed.rpartition("split: ")[2].split()[0]
    assert len(value.partition(".")[2]) == 4
    assert float(value) < 1.0


def test_every_run_in_one_process_warns_on_the_stderr_of_its_own(work: Path, fts_convert: Run) -> None:
    logger = logging.getLogger("fts_converters")
    before = (list(logger.handlers), logger.propagate)
    for _ in range(2):
        done = fts_convert("net.onnx", "--calib", "photos", "-q")
        assert done.err.count("[default-preprocessing]") == 1
    assert (list(logger.handlers), logger.propagate) == before


def test_default_name_folder_and_file_name_of_the_output(work: Path, fts_convert: Run) -> None:
    (work / "existing").mkdir()
    for given, expected in (
        ((), "net.cpu-int8.fts"),
        (("-o", "existing"), "existing/net.cpu-int8.fts"),
        (("-o", "new/deep/"), "new/deep/net.cpu-int8.fts"),
        (("-o", "new/deep/other.fts"), "new/deep/other.fts"),
    ):
        done = fts_convert("net.onnx", "--calib", "photos", *given)
        assert done.code == 0, done.err
        assert (work / expected).is_file(), expected
        assert (work / expected.replace(".fts", ".report") / "report.json").is_file()
    assert {p.name for p in work.iterdir() if p.name.startswith(".")} == set()


def test_help_names_every_flag_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main_convert(["--help", *TARGET])
    assert stop.value.code == 0
    said = capsys.readouterr().out
    for flag in ("--target", "--calib", "--holdout", "--card", "--shape", "--budget", "--min-int8", "--json", "-q"):
        assert flag in said
    for code in ("0 done", "1 a defect", "2 wrong input", "3 a condition", "4 something is missing", "130"):
        assert code in said

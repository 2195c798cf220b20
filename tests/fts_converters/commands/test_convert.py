"""From words to a ConvertRequest."""

from __future__ import annotations

from pathlib import Path

import pytest

from fts.errors import UsageError
from fts_calibration.metrics.budget import AskedBudgets, parse_budget
from fts_converters.commands.convert import _parser, _request
from fts_converters.request import ConvertRequest

LEAST = ("style.onnx", "--target", "cpu-int8", "--calib", "photos")


def requested(*more: str) -> ConvertRequest:
    return _request(_parser().parse_args([*LEAST, *more]))


def test_absent_flags_stay_absent() -> None:
    request = requested()
    assert (request.source, request.target, request.calib) == ("style.onnx", "cpu-int8", "photos")
    assert request.output == Path("style.cpu-int8.fts")
    flags = request.preprocessing
    assert (flags.color, flags.scale, flags.mean, flags.std, flags.layout, flags.fit) == (None,) * 6
    assert (request.budgets, request.is_budget_none) == (AskedBudgets(), False)
    assert (request.min_int8, request.isa, request.use_cache) == (0.5, "auto", True)


def test_passes_to_skip_are_collected() -> None:
    assert requested().skip_passes == ()
    assert requested("--skip-pass", "fold_batchnorm", "--skip-pass", "inline_if").skip_passes == (
        "fold_batchnorm",
        "inline_if",
    )


def test_budget_none_is_not_the_default_budget() -> None:
    assert requested("--budget", "none").is_budget_none
    assert requested("--budget", "psnr.mean>=40").budgets.every == parse_budget("psnr.mean>=40")


def test_budgets_are_collected() -> None:
    budgets = requested("--budget", "heat:psnr>=40,points:nme<=0.02", "--budget", "sqnr>=25").budgets
    assert {n: str(b) for n, b in budgets.named.items()} == {"heat": "psnr>=40", "points": "nme<=0.02"}
    assert str(budgets.every) == "sqnr>=25"


@pytest.mark.parametrize(
    ("text", "expected"), [("0", 0.0), ("1.0", 1.0), ("75%", 0.75), (".5", 0.5)], ids=["none", "all", "percent", "half"]
)
def test_share_is_a_number_or_a_percentage(text: str, expected: float) -> None:
    assert requested("--min-int8", text).min_int8 == expected


@pytest.mark.parametrize("text", ["-0.1", "101%", "nan", "half", ""])
def test_share_outside_0_to_1_is_refused(text: str) -> None:
    with pytest.raises(SystemExit) as stop:
        requested(f"--min-int8={text}")
    assert stop.value.code == 2


def test_fractions_and_lists_of_numbers() -> None:
    flags = requested("--scale", "1/255", "--mean=-1,0.5,1e-3", "--std", "2").preprocessing
    assert flags.scale == 1 / 255
    assert flags.mean == (-1.0, 0.5, 0.001)
    assert flags.std == (2.0,)


def test_shapes_belong_to_names_that_may_hold_an_equals_sign() -> None:
    assert requested("--shape", "a=1x3x8x8", "--shape", "b=c=2X4").shapes == {"a": (1, 3, 8, 8), "b=c": (2, 4)}


@pytest.mark.parametrize("text", ["x", "=1x3", "x=", "x=1xx3", "x=-1x3", "x=1x3x0", "x=1.5", "x=１x3"])
def test_shapes_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="NAME=1x3x256x256"):
        requested("--shape", text)


def test_output_is_a_file_or_a_folder(tmp_path: Path) -> None:
    assert requested("-o", str(tmp_path)).output == tmp_path / "style.cpu-int8.fts"
    assert requested("-o", "new/").output == Path("new/style.cpu-int8.fts")
    assert requested("-o", "a/b.fts").output == Path("a/b.fts")
    with pytest.raises(UsageError, match=r"\.fts, or a folder"):
        requested("-o", "a/b")


def test_flags_are_never_abbreviated() -> None:
    with pytest.raises(SystemExit) as stop:
        requested("--budg", "none")
    assert stop.value.code == 2

"""fts doctor: pretended environments, since the real one is in order."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from fts import diagnosis
from fts.commands.doctor import main
from fts.errors import MissingDependencyError, UsageError


def pretend(monkeypatch: pytest.MonkeyPatch, installed: dict[str, str]) -> None:
    """Let only these distributions be installed."""

    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(diagnosis.importlib.metadata, "version", version)


def by_subject(target: str | None = None) -> dict[str, list[diagnosis.Diagnosis]]:
    found: dict[str, list[diagnosis.Diagnosis]] = {}
    for d in diagnosis.diagnose(target=target):
        found.setdefault(d.subject, []).append(d)
    return found


def test_two_onnxruntimes_in_one_environment_are_a_warning_that_says_how_to_keep_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(monkeypatch, {"numpy": "2", "onnxruntime": "1.32.0", "onnxruntime-gpu": "1.20.1", "opencv-python": "5"})
    warning = by_subject()["onnxruntime"][0]
    assert warning.level == "warning"
    assert "onnxruntime 1.32.0, onnxruntime-gpu 1.20.1" in warning.found
    assert "pip uninstall -y onnxruntime onnxruntime-gpu" in warning.fix


def test_a_missing_convert_extra_is_only_news_without_a_target_and_missing_with_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(monkeypatch, {"numpy": "2", "onnxruntime": "1.32.0", "opencv-python": "5"})
    assert by_subject()["onnx"][0].level == "info"
    missing = by_subject("cpu-int8")["onnx"][0]
    assert missing.level == "missing"
    assert missing.fix == "pip install 'fts-edge[convert]'"


def test_opencv_without_its_system_libraries_names_both_fixes(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise MissingDependencyError("libGL.so.1 is missing. Install libgl1 or pip install opencv-python-headless")

    pretend(monkeypatch, {"numpy": "2", "onnxruntime": "1.32.0", "opencv-python": "5"})
    monkeypatch.setattr(diagnosis.importlib, "import_module", broken)
    found = diagnosis._shared_module("cv2", diagnosis.OPENCV_DISTRIBUTIONS, "pip install 'opencv-python>=4.8'")
    assert [d.level for d in found] == ["missing"]
    assert "libGL.so.1" in found[0].found
    assert "opencv-python-headless" in found[0].fix


def test_arithmetic_that_saturates_is_said_with_the_flag_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fts.engines.isa.is_u8s8_exact", lambda: False)
    assert "--isa any" in by_subject()["int8 arithmetic"][0].fix
    monkeypatch.setattr("fts.engines.isa.is_u8s8_exact", lambda: True)
    assert by_subject()["int8 arithmetic"][0].level == "ok"


def test_a_cache_that_cannot_be_written_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis.os, "access", lambda path, mode: False)
    assert by_subject()["cache"][0].level == "warning"


def test_the_command_ends_with_4_when_something_needed_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, {"onnxruntime": "1.32.0", "opencv-python": "5"})
    assert main([]) == 4
    assert "-> pip install 'numpy>=1.26'" in capsys.readouterr().out


def test_the_command_prints_json_and_ends_with_0_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"]) == 0
    assert {"python", "numpy", "onnxruntime", "cv2", "cpus"} <= {
        d["subject"] for d in json.loads(capsys.readouterr().out)
    }


def test_an_unknown_target_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(target: str) -> None:
        raise UsageError(f"target {target!r}: unknown")

    assert main(["--target", "cpu-int9"], require_target=refuse) == 2
    assert "cpu-int9" in capsys.readouterr().err

"""What a camera app gets when it installs fts without extras, and what works there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .conftest import run, run_ok

DISTRIBUTION = "fts-edge"
DIRECT = {"numpy", "opencv-python", "onnxruntime"} | ({"tomli"} if sys.version_info < (3, 11) else set())
OF_THE_ENVIRONMENT = {"pip", "setuptools", "wheel"}
HEAVY = ("cv2", "numpy", "onnx", "onnx_graphsurgeon", "onnxruntime", "scipy", "torch")

HELPS = (
    ("fts", "--help"),
    ("fts", "run", "--help"),
    ("fts", "targets", "--help"),
    ("fts-convert", "--help"),
)


def needed_by(metadata: dict[str, object]) -> set[str]:
    """Names that one installed distribution needs here, without extras."""
    lines = metadata.get("requires_dist", [])
    assert isinstance(lines, list)
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(r.name) for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})}


def test_brings_numpy_opencv_onnxruntime_what_they_need_and_nothing_else(base: Path) -> None:
    listing = json.loads(run_ok(base / "python", "-m", "pip", "inspect", "--local"))
    installed = {canonicalize_name(item["metadata"]["name"]): item["metadata"] for item in listing["installed"]}
    assert needed_by(installed[DISTRIBUTION]) == DIRECT

    closure: set[str] = set()
    waiting = {DISTRIBUTION}
    while waiting:
        name = waiting.pop()
        closure.add(name)
        waiting |= needed_by(installed[name]) - closure
    assert set(installed) - OF_THE_ENVIRONMENT == closure


def test_import_fts_imports_no_library(base: Path) -> None:
    code = f"import sys, fts; print(sorted(set(sys.modules) & set({HEAVY})))"
    assert run_ok(base / "python", "-c", code).strip() == "[]"


def test_every_public_name_resolves_with_the_base_install(base: Path) -> None:
    run_ok(base / "python", "-c", "import fts; [getattr(fts, name) for name in fts.__all__]")


@pytest.mark.parametrize("command", HELPS, ids=" ".join)
def test_help_works_with_the_base_install(base: Path, command: tuple[str, ...]) -> None:
    assert "usage" in run_ok(base / command[0], *command[1:]).casefold()


@pytest.mark.parametrize("command", HELPS, ids=" ".join)
def test_help_imports_no_library(base: Path, command: tuple[str, ...]) -> None:
    entry = "main_fts" if command[0] == "fts" else "main_convert"
    code = f"""
import sys
from fts_converters.commands import {entry} as main
try:
    main({list(command[1:])})
except SystemExit:
    pass
print(sorted(set(sys.modules) & set({HEAVY})))
"""
    assert run_ok(base / "python", "-c", code).splitlines()[-1] == "[]"


def test_targets_are_listed_with_the_base_install(base: Path) -> None:
    assert "cpu-int8" in run_ok(base / "fts", "targets")


def test_convert_without_its_extra_says_the_line_to_type(base: Path, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    (tmp_path / "calib").mkdir()
    command = (base / "fts-convert", "model.onnx", "--target", "cpu-int8", "--calib", "calib")
    done = run(*command, cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    assert "pip install" in done.stderr
    assert "[convert]" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calib", "model.onnx"]

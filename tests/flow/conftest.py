"""One workplace a test: a net, pictures, an empty cache; and fts-convert in this process or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fts.bundle.archive import open_bundle
from fts_converters.commands import main_convert, main_fts

from .nets import PICTURE, save_net, save_pictures

CONVERT = "from fts_converters.commands import main_convert; raise SystemExit(main_convert())"
TARGET = ("--target", "cpu-int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


def command_line(*arguments: object) -> list[str]:
    """fts-convert as a process."""
    return [sys.executable, "-c", CONVERT, *map(str, arguments)]


def convert_in_process_of_its_own(*arguments: object, cwd: Path, **environment: str) -> Ran:
    done = subprocess.run(
        command_line(*arguments),
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


def report_of(bundle: Path) -> dict[str, Any]:
    """report.json out of a bundle."""
    report: dict[str, Any] = json.loads(open_bundle(bundle).read("report/report.json"))
    return report


def warning_ids(bundle: Path) -> set[str]:
    return {w["id"] for w in report_of(bundle)["warnings"]}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FTS_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _in_process(main: Callable[[list[str]], int], arguments: tuple[object, ...], capsys: Any) -> Ran:
    capsys.readouterr()
    try:
        code = main([str(a) for a in arguments])
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return Ran(code=code, out=captured.out, err=captured.err)


@pytest.fixture
def fts_convert(capsys: pytest.CaptureFixture[str]) -> Run:
    """fts-convert for cpu-int8 in this process."""
    return lambda *arguments: _in_process(main_convert, (*arguments, *TARGET), capsys)


@pytest.fixture
def fts(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command fts in this process."""
    return lambda *arguments: _in_process(main_fts, arguments, capsys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A conversion that every test may read and none may change."""

    folder: Path
    bundle: Path
    photos: Path
    err: str
    out: str


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    folder = tmp_path_factory.mktemp("converted")
    save_net(folder / "net.onnx", PICTURE)
    photos = save_pictures(folder / "photos", 8)
    cache = str(tmp_path_factory.mktemp("shared-cache"))
    done = convert_in_process_of_its_own("net.onnx", *TARGET, "--calib", "photos", cwd=folder, FTS_CACHE=cache)
    assert done.code == 0, done.err
    return Converted(folder=folder, bundle=folder / "net.cpu-int8.fts", photos=photos, err=done.err, out=done.out)

"""The wheel holds the four packages, all of them and nothing besides."""

from __future__ import annotations

import zipfile
from pathlib import Path

from .conftest import run_ok

PACKAGES = ("sdk/fts", "converters/fts_converters", "calibration/fts_calibration", "devices/fts_devices")


def test_holds_exactly_the_files_of_the_four_packages(wheel: Path, root: Path) -> None:
    listed = run_ok("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *PACKAGES, cwd=root)
    sources = {path.partition("/")[2] for path in listed.split("\0") if path and (root / path).is_file()}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.partition("/")[0].endswith(".dist-info")}
    assert packed == sources


def test_every_package_says_that_it_is_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"{path.partition('/')[2]}/py.typed" for path in PACKAGES} <= names

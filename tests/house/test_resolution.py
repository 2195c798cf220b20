"""The base install and the convert extra can be installed, with the committed versions, where fts has to run.

pip resolves for another Python and machine without installing. But it evaluates markers and Requires-Python for the
Python that runs it, so the markers of our own requirements and constraints are settled here, for the target, and the
packages' Requires-Python is compared here.
"""

from __future__ import annotations

import json
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from .conftest import CONSTRAINTS, run_ok

GLIBC_MINORS = range(17, 36)  # manylinux_2_17 (2014) to glibc 2.35, that of JetPack 6 (Ubuntu 22.04)


def settled(lines: list[str], python: str, machine: str, extra: str = "") -> list[str]:
    """The requirements that hold on the target, without their markers."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "platform_machine": machine}
    holding = []
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate({**environment, "extra": extra}):
            requirement.marker = None
            holding.append(str(requirement))
    return holding


def resolve(wheel: Path, tmp_path: Path, python: str, machine: str) -> dict[str, str]:
    """Versions by name that pip would install for the target: base and convert."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode("utf-8"))
    needed = settled(metadata.get_all("Requires-Dist", []), python, machine, extra="convert")
    pins = [line.partition("#")[0].strip() for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines()]
    constraints, report = tmp_path / "constraints.txt", tmp_path / "report.json"
    constraints.write_text("\n".join(settled([pin for pin in pins if pin], python, machine)), encoding="utf-8")
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in GLIBC_MINORS]
    run_ok(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", report),
        *("--only-binary=:all:", "--implementation=cp", f"--python-version={python}", "--ignore-requires-python"),
        *(
            *platforms,
            f"--platform=manylinux2014_{machine}",
            "--target",
            tmp_path / "target",
            "-c",
            constraints,
            *needed,
        ),
    )
    chosen = [item["metadata"] for item in json.loads(report.read_text(encoding="utf-8"))["install"]]
    for package in chosen:
        assert SpecifierSet(package.get("requires_python", "")).contains(f"{python}.0"), package["name"]
    return {canonicalize_name(package["name"]): package["version"] for package in chosen}


def test_base_and_convert_resolve_for_python_310_on_aarch64(wheel: Path, tmp_path: Path) -> None:
    """The farthest from a developer's machine, and that of JetPack 6."""
    versions = resolve(wheel, tmp_path, "3.10", "aarch64")
    assert versions["onnxruntime"] == "1.23.2"
    assert {"numpy", "opencv-python", "tomli", "onnx", "onnx-graphsurgeon"} <= set(versions)


@pytest.mark.slow
@pytest.mark.parametrize(("python", "machine"), [("3.10", "x86_64"), ("3.12", "x86_64"), ("3.12", "aarch64")])
def test_base_and_convert_resolve(wheel: Path, tmp_path: Path, python: str, machine: str) -> None:
    assert {"numpy", "opencv-python", "onnxruntime", "onnx", "onnx-graphsurgeon"} <= set(
        resolve(wheel, tmp_path, python, machine)
    )

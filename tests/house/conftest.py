"""One wheel and one environment with the base install, made once a session."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = ROOT / "constraints.txt"

MakeEnvironment = Callable[..., Path]


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run to the end and keep the text; the caller looks at the exit status."""
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def run_ok(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command that has to succeed; returns its standard output."""
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-cache-dir")
    run_ok(*build, "--wheel-dir", folder, ROOT)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def make_environment(tmp_path_factory: pytest.TempPathFactory) -> MakeEnvironment:
    """A function (requirement...) -> folder of scripts of a new environment with just these installed."""

    def make(*requirements: str | Path) -> Path:
        folder = tmp_path_factory.mktemp("environment")
        run_ok(sys.executable, "-m", "venv", folder)
        run_ok(folder / "bin" / "python", "-m", "pip", "install", "--quiet", *requirements)
        return folder / "bin"

    return make


@pytest.fixture(scope="session")
def base(wheel: Path, make_environment: MakeEnvironment) -> Path:
    """Folder of scripts of an environment with the base install alone."""
    return make_environment("-c", CONSTRAINTS, wheel)

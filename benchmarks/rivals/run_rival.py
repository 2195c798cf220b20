"""Run a rival's method in its own Python, with a time limit and a cache of what it wrote."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rivals.row import Row
from rivals.score import Array
from rivals.score_file import ERROR_CHARACTERS, scored
from rivals.source_net import SourceNet

RIVALS = ("onnxruntime_static", "nncf_ptq", "onnxsim_static")
# More than ten minutes for the smallest net here, on two cores: run when asked for.
SLOW = frozenset({("onnxsim_static", "Quark form, CLE+AdaRound"), ("onnxsim_static", "Quark form, CLE+AdaQuant")})
HERE = Path(__file__).resolve().parent
# Nothing may be sent: NNCF and onnxruntime upload usage events unless told not to.
SILENT = {"NNCF_CI": "1", "CI": "true", "ORT_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "1"}


def methods_of(rival: str, *, with_slow: bool) -> tuple[str, ...]:
    """Names of a rival's methods."""
    methods = importlib.import_module(f"rivals.{rival}").METHODS
    return tuple(name for name in methods if with_slow or (rival, name) not in SLOW)


@cache
def rival_versions(python: Path, rival: str) -> dict[str, str]:
    """Versions of a rival's packages in its Python; "" for one that is not there.

    Raises:
        subprocess.CalledProcessError: That Python does not run.
    """
    names = importlib.import_module(f"rivals.{rival}").PACKAGES
    code = (
        "import json, sys; from importlib.metadata import PackageNotFoundError, version\n"
        "def of(n):\n  try: return version(n)\n  except PackageNotFoundError: return ''\n"
        "print(json.dumps({n: of(n) for n in sys.argv[1:]}))"
    )
    done = subprocess.run([str(python), "-c", code, *names], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def run_method(
    rival: str, method: str, net: SourceNet, references: Sequence[Array], python: Path, folder: Path, timeout_s: float
) -> list[Row]:
    """Rows of one method: two for each of its settings, as ONNX Runtime adds u8*s8 by default and exactly.

    Args:
        rival: Module of this package.
        method: One of its METHODS.
        net: What to quantize.
        references: FP32 outputs for the holdout crops.
        python: Interpreter that has the rival.
        folder: Cache. A conversion that did not end is tried again, one that failed is remembered.
        timeout_s: Time for all settings of the method together.
    """
    settings = importlib.import_module(f"rivals.{rival}").METHODS[method]
    place = folder / f"{net.name.replace('/', '_')}-{rival}-{_key(rival, method, net, python)[:16]}"
    result, error = _result(place), ""
    if not result.get("is_complete"):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        error = _run_child(rival, method, net, python, place, timeout_s)
        result = _result(place)
    done = result.get("rows", [])
    rows = []
    for found in done:
        row = Row(
            rival=rival,
            method=method,
            settings=found["settings"],
            seconds=max(done[0]["seconds"], found["seconds"]),  # later settings reuse the first one's calibration
            peak_bytes=result["peak_bytes"],
            error=found.get("error", ""),
        )
        rows += [row] if row.error else scored(row, place / found["file"], net, references)
    return rows + [Row(rival=rival, method=method, settings=s, error=error) for s in settings[len(done) :]]


def _result(place: Path) -> dict[str, Any]:
    file = place / "result.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def _run_child(rival: str, method: str, net: SourceNet, python: Path, place: Path, timeout_s: float) -> str:
    """Why it did not finish, "" when it did."""
    command = [str(python), str(HERE / "child.py"), rival, method]
    command += [str(net.frozen.resolve()), str(net.calibration_npz.resolve()), str(place.resolve())]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | SILENT
    with (place / "log.txt").open("w+") as log:
        try:
            done = subprocess.run(
                command, env=environment, stdout=log, stderr=log, timeout=timeout_s, check=False, cwd=place
            )
        except subprocess.TimeoutExpired:
            return f"not finished after {timeout_s:g} s"
        if done.returncode == 0:
            return ""
        log.seek(0)
        last = (log.read().strip().splitlines() or ["it said nothing"])[-1]
    return f"its process ended with {done.returncode}: {last[:ERROR_CHARACTERS]}"


def _key(rival: str, method: str, net: SourceNet, python: Path) -> str:
    """What a conversion depends on: net, crops, settings, versions and the code that runs it."""
    module = importlib.import_module(f"rivals.{rival}")
    parts = {
        "net": net.digest,
        "method": method,
        "settings": list(module.METHODS[method]),
        "versions": rival_versions(python, rival),
        "code": hashlib.sha256((HERE / f"{rival}.py").read_bytes()).hexdigest(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

"""The steps of the runtime cases, carried out for real; each function returns what does not hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from field_cases.case import Case
from field_cases.conversion import Conversion, convert, convert_and_kill
from field_cases.convert_checks import CHILD, CHILD_LIMIT_S, Tools

FOREIGN_TARGET = "orin-int8"
FOREIGN_ENGINE = "tensorrt"
LOAD_SECONDS_MAX = 2.0  # F57
KILL_AT = (0.2, 0.5, 0.8, 0.95)  # of a whole conversion's time
ABSOLUTE_CANARY = Path("/tmp", "fts_canary_abs.txt")  # where the generator's hostile archive points


def check_runtime_case(case: Case, tools: Tools) -> list[str]:
    """Convert the case's model, then carry out its steps."""
    conversion = convert(case, tools.target, tools.work / "main")
    if conversion.exit_code != 0 or not conversion.bundle.is_file():
        last = conversion.stderr.strip().splitlines()[-1:]
        return [f"fts-convert: exit {conversion.exit_code} {' '.join(last)[:160]}"]
    return RUNTIME_STEPS[case.id](case, conversion, tools)


def _foreign_bundles(case: Case, conversion: Conversion, tools: Tools) -> list[str]:
    """F56: another version, another device."""
    bundle = conversion.bundle
    other_version = _damaged("version", bundle, tools)
    refused, still_works = _child("load", str(other_version), str(bundle))
    problems = _error_problems(refused, "version", ("999", str(_format_version(bundle)), other_version.name, "convert"))
    if not still_works["loaded"]:
        problems.append(f"the sound bundle does not load afterwards: {still_works['text'][:160]}")

    other_device = _with_foreign_engine(bundle)
    (strict,) = _child("load", "--strict", str(other_device))
    problems += _error_problems(strict, "other target, strict", (FOREIGN_TARGET, "cpu"))
    (lenient,) = _child("load", str(other_device))
    if not lenient["loaded"]:
        problems.append(f"other target: no fallback: {lenient['text'][:160]}")
    warned = [w for w in lenient["warnings"] if w.startswith("FallbackWarning")]
    if not any(FOREIGN_TARGET in w and "cpu" in w.casefold() for w in warned):
        problems.append(f"other target: no FallbackWarning with both names, but {warned}")
    return problems


def _damaged_bundles(case: Case, conversion: Conversion, tools: Tools) -> list[str]:
    """F57: damage is an error in time; a killed conversion leaves nothing under the final name."""
    problems = []
    for how in ("truncate", "empty", "flip"):
        damaged = _damaged(how, conversion.bundle, tools)
        (ending,) = _child("load", str(damaged))
        problems += _error_problems(ending, how, (damaged.name,))
        if not any(word in ending["text"].casefold() for word in ("damaged", "incomplete")):
            problems.append(f"{how}: does not say damaged or incomplete: {ending['text'][:160]}")
        if ending["seconds"] > LOAD_SECONDS_MAX:
            problems.append(f"{how}: took {ending['seconds']:.1f} s")

    killed = 0
    for fraction in KILL_AT:
        stopped = convert_and_kill(case, tools.target, tools.work / f"kill{fraction}", fraction * conversion.seconds)
        killed += stopped is not None
        if stopped is not None and stopped.bundle.exists():
            # The name is given last, to a whole file: a kill between that and the process's end leaves a good bundle.
            (ending,) = _child("load", str(stopped.bundle))
            if not ending["loaded"]:
                problems.append(f"killed at {fraction:.0%}: {stopped.bundle.name} exists and is no whole bundle")
    if not killed:
        problems.append("no conversion was still running when it was to be killed")
    return problems


def _hostile_bundles(case: Case, conversion: Conversion, tools: Tools) -> list[str]:
    """F58: nothing outside is written, nothing is run."""
    problems = []
    for how in ("zip-slip", "pickle"):
        hostile = _damaged(how, conversion.bundle, tools)
        outer = tools.work / f"hostile-{how}"
        empty, temporary = outer / "cwd", outer / "tmp"
        empty.mkdir(parents=True)
        temporary.mkdir()
        ABSOLUTE_CANARY.unlink(missing_ok=True)
        _child("load", str(hostile), cwd=empty, temporary=temporary)  # raises for any undocumented error
        written = sorted(str(path.relative_to(outer)) for path in outer.rglob("*"))
        if written != ["cwd", "tmp"]:
            problems.append(f"{how}: written: {written}")
        if ABSOLUTE_CANARY.exists():
            problems.append(f"{how}: wrote {ABSOLUTE_CANARY}")
    return problems


def _views(case: Case, conversion: Conversion, tools: Tools) -> list[str]:
    """F59."""
    frames = str(case.folder / "frames.npz")
    problems: list[str] = _child("views", str(conversion.bundle), frames, *case.checks["views"])
    return problems


def _results(case: Case, conversion: Conversion, tools: Tools) -> list[str]:
    """F66."""
    problems: list[str] = _child("results", str(conversion.bundle), str(case.folder / "frames.npz"))
    return problems


RUNTIME_STEPS: Mapping[str, Callable[[Case, Conversion, Tools], list[str]]] = {
    "F56": _foreign_bundles,
    "F57": _damaged_bundles,
    "F58": _hostile_bundles,
    "F59": _views,
    "F66": _results,
}


class ChildError(Exception):
    """A child process crashed or ended with something else than its answer."""


def _child(*arguments: str, cwd: Path | None = None, temporary: Path | None = None) -> Any:
    environment = dict(os.environ) if temporary is None else {**os.environ, "TMPDIR": str(temporary)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    ran = subprocess.run(
        [sys.executable, str(CHILD), *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=CHILD_LIMIT_S,
        check=False,
    )
    if ran.returncode != 0:
        last = (ran.stderr.strip().splitlines() or ["(nothing on stderr)"])[-1]
        raise ChildError(f"{arguments[0]}: exit {ran.returncode}: {last[:200]}")
    return json.loads(ran.stdout.splitlines()[-1])


def _damaged(how: str, bundle: Path, tools: Tools) -> Path:
    damaged = bundle.with_name(f"{how}.fts")
    mutate = [sys.executable, str(tools.generator), "--mutate", how, str(bundle), str(damaged)]
    subprocess.run(mutate, capture_output=True, timeout=CHILD_LIMIT_S, check=True)
    return damaged


def _error_problems(ending: Mapping[str, Any], what: str, texts: tuple[str, ...]) -> list[str]:
    if ending["loaded"]:
        return [f"{what}: loads"]
    said = ending["text"].casefold()
    return [
        f"{what}: the error does not say {text!r}: {ending['text'][:160]}"
        for text in texts
        if text.casefold() not in said
    ]


def _format_version(bundle: Path) -> int:
    with zipfile.ZipFile(bundle) as archive:
        return int(json.loads(archive.read("manifest.json"))["format_version"])


def _with_foreign_engine(bundle: Path) -> Path:
    """The same bundle, its first engine declared to be another device's."""
    foreign = bundle.with_name("foreign.fts")
    with zipfile.ZipFile(bundle) as source, zipfile.ZipFile(foreign, "w") as copy:
        for member in source.infolist():
            data = source.read(member)
            if member.filename == "manifest.json":
                manifest = json.loads(data)
                manifest["target"] = FOREIGN_TARGET
                manifest["engines"][0]["kind"] = FOREIGN_ENGINE
                data = json.dumps(manifest, sort_keys=True, indent=1).encode()
            copy.writestr(member, data)
    return foreign

"""What has to hold after fts-convert: each function returns what does not, as short reasons; none means it passes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from field_cases.case import Case
from field_cases.conversion import Conversion, convert, read_report
from fts.bundle.archive import open_bundle
from fts.engines.onnxruntime_session import open_session
from fts.vocabulary.manifest import PORTABLE_MEMBER

CHILD = Path(__file__).with_name("child.py")
MAC_OPS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
FEW_PICTURES = 10
PORTABLE_TOLERANCE = 1e-4  # of an output's range
RSS_RISE_MB = 300  # the rule that F53 states in words (peak_rss_rule)
SECONDS_MAX = {"F51": 2.0}  # stated in the case's description, not in expect.json
CHILD_LIMIT_S = 300
UNCHECKED = ("batch3", "scales", "deterministic", "other_cwd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What every case needs.

    Attributes:
        generator: The script that wrote the cases; it judges and damages.
        target: Target to convert for.
        work: Folder for this case's files.
    """

    generator: Path
    target: str
    work: Path


def check_convert_case(case: Case, tools: Tools) -> list[str]:
    """Convert and check. An alternative without arguments of its own may hold instead of the main checks; one with its
    own arguments is another conversion, and has to hold too."""
    conversion = convert(case, tools.target, tools.work / "main")
    problems = _check(case, case.checks, conversion, tools)
    alternatives = case.checks.get("alternatives", ())
    same_run = (a for a in alternatives if "cli" not in a)
    if problems and any(not _check(case, alternative, conversion, tools) for alternative in same_run):
        problems = []
    for number, alternative in enumerate(a for a in alternatives if "cli" in a):
        arguments = tuple(alternative["cli"])
        other = convert(case, tools.target, tools.work / f"alternative{number}", arguments)
        problems += [f"with {arguments[-1]}: {p}" for p in _check(case, alternative, other, tools)]
    return problems


def unchecked(case: Case) -> str:
    """Names of checks that this tool does not know how to make, for an honest table."""
    return ", ".join(name for name in UNCHECKED if name in case.checks)


def _check(case: Case, checks: Mapping[str, Any], conversion: Conversion, tools: Tools) -> list[str]:
    if conversion.exit_code != checks["exit_code"]:
        last = conversion.stderr.strip().splitlines()[-1:] or ["(nothing on stderr)"]
        return [f"exit {conversion.exit_code}, expected {checks['exit_code']}: {last[0][:160]}"]
    problems = list(_message_problems(case, checks, conversion))
    if checks["exit_code"] == 0:
        if not conversion.bundle.is_file():
            return [*problems, "exit 0, but no bundle under the name given"]
        report = read_report(conversion.bundle)
        problems += _warning_problems(checks.get("warn_has", ()), conversion.stderr, report)
        problems += _int8_problems(case, checks.get("int8_layers", ()), report)
        problems += _calibration_problems(checks.get("calib", {}), conversion.stderr, report)
        problems += _portable_problems(case, conversion.bundle)
        problems += _numeric_problems(case, checks, conversion.bundle, tools)
        problems += _memory_problems(case, checks, conversion, tools)
    return problems


def _message_problems(case: Case, checks: Mapping[str, Any], conversion: Conversion) -> Iterable[str]:
    said = conversion.stderr.casefold()
    for text in checks.get("message_has", ()):
        if text.casefold() not in said:
            yield f"stderr does not say {text!r}"
    any_of = checks.get("message_has_any", ())
    if any_of and not any(text.casefold() in said for text in any_of):
        yield f"stderr says none of {any_of}"
    if checks.get("nothing_written") and conversion.new_files:
        yield f"wrote {', '.join(conversion.new_files[:3])}"
    if "traceback (most recent call last)" in said:
        yield "a Python traceback on stderr"
    limit_s = SECONDS_MAX.get(case.id)
    if limit_s is not None and conversion.seconds > limit_s:
        yield f"took {conversion.seconds:.1f} s, at most {limit_s:g} s"


def _warning_problems(texts: Iterable[str], stderr: str, report: Mapping[str, Any]) -> Iterable[str]:
    lines = [line for line in stderr.splitlines() if "warning" in line.casefold()]
    warned = "\n".join([*lines, *(str(w["text"]) for w in report["warnings"])]).casefold()
    for text in texts:
        if text.casefold() not in warned:
            yield f"no warning names {text!r}"


def _int8_problems(case: Case, wanted: Iterable[str], report: Mapping[str, Any]) -> Iterable[str]:
    int8 = {node["name"] for node in report["nodes"] if node["precision"] == "int8"}
    for name in wanted:
        if name not in int8:
            yield f"node {name} is not INT8"
    model = onnx.load(case.folder / "model.onnx", load_external_data=False)
    if not int8 and any(node.op_type in MAC_OPS for node in model.graph.node):
        yield "the report lists no INT8 node"


def _calibration_problems(
    wanted: Mapping[str, Mapping[str, Any]], stderr: str, report: Mapping[str, Any]
) -> Iterable[str]:
    listed = {Path(file["path"]).name: file for file in report["calibration"]["files"]}
    for name, expected in wanted.items():
        file = listed.get(name)
        status = "absent" if file is None else file["status"]
        may_skip = "to skip it with a warning is right too" in expected.get("why", "").casefold()
        if expected["status"] == "skipped":
            if status == "used":
                yield f"{name} was used ({expected.get('why')})"
            elif file is None and not name.startswith(".") and expected.get("why") != "a folder":
                yield f"{name} is not in the report"
        elif status != "used":
            if not (may_skip and name in stderr):
                yield f"{name} was not used: {'not in the report' if file is None else file['reason']}"
        elif file is not None and "mean_rgb" in expected:
            off = max(abs(a - b) for a, b in zip(file["mean_rgb"], expected["mean_rgb"], strict=True))
            if off > expected["tol"]:
                yield f"{name}: mean colour {file['mean_rgb']}, expected {expected['mean_rgb']}"


def _portable_problems(case: Case, bundle: Path) -> Iterable[str]:
    """The cleaned FP32 net in the bundle against what the net as it came gives."""
    reference = case.folder / "ref.npz"
    if not reference.is_file():
        return
    session = open_session(open_bundle(bundle).read(PORTABLE_MEMBER), what=case.id)
    probe, wanted = dict(np.load(case.folder / "probe.npz")), dict(np.load(reference))
    count = len(next(iter(wanted.values())))
    runs = [session.run({name: probe[name][i] for name in session.input_names}) for i in range(count)]
    for place, name in enumerate(session.output_names):
        y, r = np.stack([run[place] for run in runs]).astype(np.float64), wanted[name].astype(np.float64)
        span = float(r.max() - r.min()) or float(np.abs(r).max()) or 1.0
        if y.shape != r.shape:
            yield f"FP32 {name}: {y.shape[1:]}, expected {r.shape[1:]}"
        elif not (off := float(np.abs(y - r).max()) / span) <= PORTABLE_TOLERANCE:
            yield f"FP32 {name}: off by {off:.1e} of its range after cleaning"


def _numeric_problems(case: Case, checks: Mapping[str, Any], bundle: Path, tools: Tools) -> list[str]:
    if "numeric" not in checks and "inputs" not in checks:
        return []
    outputs = bundle.with_suffix(".outputs.npz")
    child = [sys.executable, str(CHILD), "infer", str(bundle), str(case.folder / "probe.npz"), str(outputs)]
    ran = subprocess.run(child, capture_output=True, text=True, timeout=CHILD_LIMIT_S, check=False)
    if ran.returncode != 0:
        return [f"infer: {(ran.stderr.strip().splitlines() or [f'exit {ran.returncode}'])[-1][:200]}"]
    reported = json.loads(ran.stdout)
    problems = [p for side in ("inputs", "outputs") for p in _signature_problems(side, checks.get(side), reported)]
    if "numeric" in checks:
        judge = [sys.executable, str(tools.generator), "--judge", str(case.folder), str(outputs)]
        judged = subprocess.run(judge, capture_output=True, text=True, timeout=CHILD_LIMIT_S, check=False)
        if judged.returncode != 0:
            failed = [line for line in judged.stdout.splitlines() if line.startswith("FAIL")]
            problems += failed or [f"judge: {judged.stderr.strip()[-200:]}"]
    return problems


def _signature_problems(
    side: str, wanted: list[Mapping[str, Any]] | None, reported: Mapping[str, list[Mapping[str, Any]]]
) -> Iterable[str]:
    if wanted is None:
        return
    got = reported[side]
    if [t["name"] for t in got] != [t["name"] for t in wanted]:
        yield f"{side} are {[t['name'] for t in got]}, expected {[t['name'] for t in wanted]}"
        return
    for actual, expected in zip(got, wanted, strict=True):
        if actual["dtype"] != expected["dtype"] or not _same_shape(actual["shape"], expected["shape"]):
            yield (
                f"{side} {expected['name']}: {actual['dtype']} {actual['shape']}, "
                f"expected {expected['dtype']} {expected['shape']}"
            )


def _same_shape(actual: list[int | str], expected: list[int | str]) -> bool:
    """An unknown batch may be reported as its name or as 1."""
    return len(actual) == len(expected) and all(
        a == e or (axis == 0 and isinstance(e, str) and a == 1)
        for axis, (a, e) in enumerate(zip(actual, expected, strict=True))
    )


def _memory_problems(case: Case, checks: Mapping[str, Any], conversion: Conversion, tools: Tools) -> Iterable[str]:
    limit_mb = checks.get("peak_rss_mb_max")
    if limit_mb is None:
        return
    if conversion.peak_rss_mb > limit_mb:
        yield f"peak memory {conversion.peak_rss_mb:.0f} MB, at most {limit_mb} MB"
    folder = tools.work / "few_pictures"
    folder.mkdir(parents=True)
    for picture in sorted((case.folder / "calib").iterdir())[:FEW_PICTURES]:
        shutil.copy(picture, folder)
    arguments = tuple(str(folder) if part == "calib" else part for part in case.arguments)
    few = convert(case, tools.target, tools.work / "few", arguments)
    if few.exit_code != 0:
        yield f"with {FEW_PICTURES} pictures: exit {few.exit_code}"
    elif conversion.peak_rss_mb > few.peak_rss_mb + RSS_RISE_MB:
        yield f"peak memory {conversion.peak_rss_mb:.0f} MB, with {FEW_PICTURES} pictures {few.peak_rss_mb:.0f} MB"

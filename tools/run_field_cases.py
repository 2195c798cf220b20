"""Run the field cases that a generator wrote, and say for each whether what has to hold does.

    python tools/run_field_cases.py DIR --generator GENERATOR.py [--only F47,F49] [--target cpu-int8]

DIR is what the generator wrote: one folder a case. Every case is converted with fts-convert in a process of its own
and run with fts; the generator judges the outputs and damages bundles. Exit status 1 when a case failed, or when a case
named by --only cannot be run in this version. Not part of `make test`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from field_cases.case import Case, read_case
from field_cases.convert_checks import Tools, check_convert_case, unchecked
from field_cases.runtime_checks import RUNTIME_STEPS, ChildError, check_runtime_case

Outcome = Literal["pass", "FAIL", "not in this version"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    id: str
    outcome: Outcome
    seconds: float
    reason: str


def run_case(case: Case, tools: Tools) -> Row:
    """Convert, run and judge one case."""
    if case.kind == "runtime" and case.id not in RUNTIME_STEPS:
        return Row(id=case.id, outcome="not in this version", seconds=0.0, reason=case.title)
    start_s = time.monotonic()
    try:
        check = check_runtime_case if case.kind == "runtime" else check_convert_case
        problems = check(case, tools)
    except (ChildError, subprocess.TimeoutExpired) as error:
        problems = [str(error)]
    not_checked = unchecked(case)
    note = f"(not checked: {not_checked})" if not_checked else ""
    return Row(
        id=case.id,
        outcome="FAIL" if problems else "pass",
        seconds=time.monotonic() - start_s,
        reason="; ".join(problems) if problems else note,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the field cases that a generator wrote.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="what the generator wrote")
    parser.add_argument("--generator", type=Path, required=True, help="the script that wrote it; judges and damages")
    parser.add_argument("--only", default="", metavar="F47,…", help="these cases alone")
    parser.add_argument("--target", default="cpu-int8", help="stands in for the target that the cases name")
    args = parser.parse_args()

    wanted = {name for name in args.only.split(",") if name}
    folders = sorted(path.parent for path in args.folder.glob("*/expect.json"))
    unknown = wanted - {folder.name for folder in folders}
    if unknown or not folders:
        parser.error(f"{args.folder} has no case {', '.join(sorted(unknown)) or 'at all'}")

    rows = []
    for case in (read_case(folder.resolve()) for folder in folders if not wanted or folder.name in wanted):
        with tempfile.TemporaryDirectory(prefix=f"fts-{case.id}-") as work:
            tools = Tools(generator=args.generator.resolve(), target=args.target, work=Path(work))
            rows.append(run_case(case, tools))
        print(f"{rows[-1].id:<5}{rows[-1].outcome:<6} {rows[-1].seconds:6.1f} s  {rows[-1].reason}", flush=True)
    failed = [row for row in rows if row.outcome == "FAIL" or (row.outcome != "pass" and row.id in wanted)]
    passed = sum(row.outcome == "pass" for row in rows)
    print(f"{passed} passed, {len(failed)} failed, {len(rows) - passed - len(failed)} not in this version")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

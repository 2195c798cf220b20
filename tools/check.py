"""Run every check of this repository: the same for a developer and for CI.

    python tools/check.py           format, lint, types, layers, then the tests that are not slow
    python tools/check.py --lint    without the tests
    python tools/check.py --slow    the slow tests alone, in two halves side by side

All linters run even when one fails, so that one run shows everything; the tests come last, so that pytest's closing
line is the last line. Exit status 1 when anything failed.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = Path(sysconfig.get_path("scripts"))

LINTERS: tuple[tuple[str, ...], ...] = (
    ("ruff", "format", "--check", "--quiet", "."),
    ("ruff", "check", "--quiet", "."),
    ("mypy",),
    ("lint-imports", "--no-logo"),
)
FAST_TESTS = ("pytest", "-q", "-m", "not slow")
# The laws of graph passes on thousands of random graphs take about as long as all other slow tests together.
LAWS = "tests/fts_converters/passes"
SLOW_TESTS = (("pytest", "-q", "-m", "slow", LAWS), ("pytest", "-q", "-m", "slow", "tests", f"--ignore={LAWS}"))


def passes(command: tuple[str, ...]) -> bool:
    """Run one tool of this environment in the repository's root; True when it exits 0."""
    print("$", *command, flush=True)
    tool = SCRIPTS / command[0]
    return subprocess.run([tool, *command[1:]], cwd=ROOT, check=False).returncode == 0


def failed_side_by_side(commands: tuple[tuple[str, ...], ...]) -> list[str]:
    """Run tools at the same time, show what each printed when all have ended; returns those that failed."""
    failed = []
    with contextlib.ExitStack() as stack:
        running = []
        for command in commands:
            output = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))
            tool = [str(SCRIPTS / command[0]), *command[1:]]
            process = stack.enter_context(subprocess.Popen(tool, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT))
            running.append((command, process, output))
        for command, process, output in running:
            if process.wait() != 0:
                failed.append(" ".join(command))
            output.seek(0)
            print("$", *command)
            print(output.read(), flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description="Run every check of this repository.")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--lint", action="store_true", help="format, lint, types and layers, without the tests")
    only.add_argument("--slow", action="store_true", help="the slow tests alone")
    args = parser.parse_args()

    linters = LINTERS
    if sys.version_info < (3, 11):
        # The last numpy for 3.10 has other stubs; one set of types is checked, for Python 3.10, on newer interpreters.
        linters = tuple(command for command in LINTERS if command != ("mypy",))
        print("mypy is left out on Python 3.10: run it on 3.11 or 3.12")
    commands = linters if args.lint else (*linters, FAST_TESTS)
    if args.slow:
        failed = failed_side_by_side(SLOW_TESTS)
    else:
        failed = [" ".join(command) for command in commands if not passes(command)]
    for command in failed:
        print(f"failed: {command}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

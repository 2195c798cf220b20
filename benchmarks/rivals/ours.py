"""fts-convert as one of the rows; run as a script, it is fts-convert that says its peak memory as its last line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

TARGET = "cpu-int8"
# What exit status 3 means is in the bundle's report; the net runs, so it is judged like any other.
BELOW_BUDGET = 3


def converted(arguments: Sequence[str], output: Path, timeout_s: float) -> tuple[Path | None, float, int, str]:
    """Convert in a process of its own, without the stage cache.

    Args:
        arguments: Of fts-convert: the net, its data and its preprocessing.
        output: Name of the bundle.
        timeout_s: Time that it has.

    Returns:
        The bundle written (that of a missed budget has another name) or None, seconds, peak bytes, and why it failed.
    """
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    command += ["--target", TARGET, "--no-cache", "-o", str(output)]
    begin = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return None, timeout_s, 0, f"not finished after {timeout_s:g} s"
    seconds = time.perf_counter() - begin
    if done.returncode not in (0, BELOW_BUDGET):
        return None, seconds, 0, (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    below = output.with_name(f"{output.name.removesuffix('.fts')}.below-budget.fts")
    peak_bytes = json.loads(done.stdout.strip().splitlines()[-1])["peak_bytes"]
    return below if done.returncode == BELOW_BUDGET else output, seconds, peak_bytes, ""


def main() -> int:
    """fts-convert in this process."""
    import resource

    from fts_converters.commands import main_convert

    status = main_convert()
    print(json.dumps({"peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
    return status


if __name__ == "__main__":
    sys.exit(main())

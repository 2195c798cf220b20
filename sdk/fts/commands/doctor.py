"""`fts doctor`: what is installed, what is missing, and the command that fixes it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence

from fts.commands.outcome import run_command


def main(argv: Sequence[str] | None = None, *, require_target: Callable[[str], None] = lambda target: None) -> int:
    """Entry point of `fts doctor`.

    Args:
        argv: Arguments; None for those of the process.
        require_target: Raises for a target that is not known; the runtime alone knows none.
    """
    parser = argparse.ArgumentParser(
        prog="fts doctor",
        description="Say what is installed, what is missing, and the command that fixes it.",
        epilog="exit codes: 0 what is needed is there, 4 something needed is missing",
    )
    parser.add_argument("--target", metavar="T", help="also what a conversion for this target needs")
    parser.add_argument("--json", action="store_true", help="print one JSON list on stdout")
    args = parser.parse_args(argv)
    return run_command("fts doctor", lambda: _doctor(args, require_target))


def _doctor(args: argparse.Namespace, require_target: Callable[[str], None]) -> int:
    from fts.diagnosis import diagnose

    if args.target is not None:
        require_target(args.target)
    found = diagnose(target=args.target)
    missing = [d for d in found if d.level == "missing"]
    if args.json:
        print(json.dumps([{"subject": d.subject, "level": d.level, "found": d.found, "fix": d.fix} for d in found]))
    else:
        for d in found:
            print(f"{d.level:<9}{d.subject:<18}{d.found}")
            if d.fix:
                print(f"{'':<9}{'':<18}-> {d.fix}")
        print("something needed is missing" if missing else "what is needed is there")
    return 4 if missing else 0

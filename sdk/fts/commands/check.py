"""`fts check`: hashes, golden tensors and preprocessing of a bundle, on this machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from fts.commands.outcome import run_command

_EPILOG = """exit codes: 0 everything that could be checked is ok, 2 the bundle is missing, damaged or of another version,
3 a check failed, 4 the target's engine cannot run here (--simulate runs its numerics instead)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `fts check`."""
    parser = argparse.ArgumentParser(
        prog="fts check",
        description="Check that a bundle is whole and computes here what it computed where it was made.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="a .fts file")
    parser.add_argument("--simulate", action="store_true", help="run the target's numerics where its engine cannot run")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    args = parser.parse_args(argv)
    return run_command("fts check", lambda: _check(args))


def _check(args: argparse.Namespace) -> int:
    from fts.checking import check_bundle

    findings = check_bundle(args.bundle, simulate=args.simulate)
    failed = [f for f in findings if f.status == "failed"]
    if args.json:
        rows = [{"check": f.check, "subject": f.subject, "status": f.status, "detail": f.detail} for f in findings]
        print(json.dumps({"bundle": args.bundle, "ok": not failed, "findings": rows}, sort_keys=True))
    else:
        for f in findings:
            print(f"{f.status:<12}{f.check:<15}{f.subject:<20}{f.detail}")
        print(f"{args.bundle}: " + (f"{len(failed)} of {len(findings)} checks failed" if failed else "ok"))
    return 3 if failed else 0

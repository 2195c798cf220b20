"""`fts targets`: what converts today, and what is verified where."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Print one row a target."""
    parser = argparse.ArgumentParser(
        prog="fts targets", description="List the targets that fts-convert can convert for, and what is verified where."
    )
    parser.add_argument("--json", action="store_true", help="machine-readable list on stdout")
    args = parser.parse_args(argv)

    import json

    from fts_devices.profiles import load_profile, target_names

    profiles = [load_profile(name) for name in target_names()]
    if args.json:
        rows = [
            {"target": p.target, "engine": p.engine, "summary": p.summary, "verified": p.verified} for p in profiles
        ]
        print(json.dumps(rows, indent=1, sort_keys=True))
        return 0
    for p in profiles:
        print(f"{p.target:<12}{p.engine:<18}{p.summary}\n{'':<30}verified: {p.verified}")
    return 0

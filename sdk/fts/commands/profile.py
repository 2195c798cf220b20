"""`fts-profile`: latency on the device. Not in this version."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Say that profiling comes later; exit code 2."""
    print("fts-profile: not in this version (it will measure latency on the device); see README.md", file=sys.stderr)
    return 2

"""`fts doctor`: the runtime's doctor, which also knows the targets here."""

from __future__ import annotations

from collections.abc import Sequence

from fts.commands.doctor import main as doctor


def main(argv: Sequence[str]) -> int:
    """Entry point in the command table."""
    return doctor(argv, require_target=_require_target)


def _require_target(target: str) -> None:
    from fts_devices.profiles import load_profile

    load_profile(target)

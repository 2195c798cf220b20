"""The command table: command name to `module:function`, imported on use.

Nothing here imports numpy, cv2 or onnx, so that `--help` is fast and `fts run` needs the base install alone.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("fts.commands.run:main", "run a bundle on a picture, a folder, a video or a camera"),
    "check": ("fts.commands.check:main", "verify a bundle's hashes, golden tensors and preprocessing"),
    "inspect": ("fts_converters.commands.inspect:main", "show a model or a bundle"),
    "doctor": ("fts_converters.commands.doctor:main", "say what is installed, what is missing, and the fix"),
    "report": ("fts_converters.commands.report:main", "write a bundle's report as one HTML page"),
    "targets": ("fts_devices.commands.targets:main", "list what fts-convert can convert for"),
}
LATER: dict[str, str] = {
    "build": "finish an engine on the device",
}
CONVERT = "fts_converters.commands.convert:main"


def _call(entry: str, argv: Sequence[str]) -> int:
    module, _, function = entry.partition(":")
    main: Callable[[Sequence[str]], int] = getattr(importlib.import_module(module), function)
    return main(argv)


def _help() -> str:
    rows = [f"  {name:<10}{text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: fts COMMAND ...",
            "",
            *rows,
            "",
            "`fts COMMAND --help` explains one; `fts-convert --help` converts a model.",
        ]
    )


def main_fts(argv: Sequence[str] | None = None) -> int:
    """Console script `fts`."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help"):
        print(_help())
        return 0 if args else 2
    if args[0] in COMMANDS:
        return _call(COMMANDS[args[0]][0], args[1:])
    if args[0] in LATER:
        print(f"fts {args[0]}: not in this version (it will {LATER[args[0]]}); see README.md", file=sys.stderr)
    else:
        print(f"fts: unknown command {args[0]!r}; `fts --help` lists them", file=sys.stderr)
    return 2


def main_convert(argv: Sequence[str] | None = None) -> int:
    """Console script `fts-convert`."""
    return _call(CONVERT, list(sys.argv[1:] if argv is None else argv))

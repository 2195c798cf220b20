"""`fts report`: the report inside a bundle as one HTML page. Libraries are imported after parsing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fts.commands.outcome import run_command
from fts.errors import UsageError

_EXAMPLES = """examples:
  fts report style.cpu-int8.fts                             writes style.cpu-int8.report.html here
  fts report style.cpu-int8.fts --profile profile.json      with latency, from fts-profile --json
  fts report style.cpu-int8.below-budget.fts -o why.html

Pictures come from the folder NAME.report/ beside the bundle, when it is there. The page needs no network.
exit codes: 0 done, 1 a defect of fts, 2 wrong input, 4 the `report` extra is missing
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `fts report`."""
    args = _parser().parse_args(argv)
    return run_command("fts report", lambda: _run(args))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fts report",
        description="Write a bundle's report as one self-contained HTML page.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="a .fts file")
    parser.add_argument("--profile", type=Path, metavar="FILE.json", help="what fts-profile --json wrote")
    parser.add_argument(
        "-o",
        dest="out",
        type=Path,
        metavar="FILE.html",
        help="default: BUNDLE's name with .report.html, in this folder",
    )
    return parser


def _run(args: argparse.Namespace) -> int:
    from fts.atomic_file import replaced_file
    from fts_converters.report_folder import report_folder_name
    from fts_converters.report_html.content import content_from_bundle
    from fts_converters.report_html.render import render_report

    out: Path = args.out or Path(f"{args.bundle.name.removesuffix('.fts')}.report.html")
    if out.suffix.casefold() not in (".html", ".htm"):
        raise UsageError(f"-o {out}: expected a name that ends in .html")
    if not out.parent.is_dir():
        raise UsageError(f"-o {out}: there is no folder {out.parent}")
    profile = None if args.profile is None else _profile(args.profile)
    folder = report_folder_name(args.bundle)
    if not folder.is_dir():
        print(f"fts report: note: no folder {folder}, so the page has no pictures and no timings", file=sys.stderr)
    page = render_report(content_from_bundle(args.bundle, title=args.bundle.name, folder=folder, profile=profile))
    with replaced_file(out) as part:
        part.write_text(page, encoding="utf-8")
    print(out)
    return 0


def _profile(path: Path) -> dict[str, Any]:
    """Read a profile as far as the page needs it; what is no profile is refused here, with its name."""
    from fts_converters.report_html.latency import latency_from_profile

    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as cause:
        raise UsageError(f"--profile {path}: no such file") from cause
    except (OSError, ValueError) as cause:
        raise UsageError(f"--profile {path}: cannot be read as JSON: {cause}") from cause
    try:
        latency_from_profile(found)
    except (KeyError, TypeError, ValueError) as cause:
        raise UsageError(f"--profile {path}: not a profile that fts-profile --json wrote ({cause!r})") from cause
    return dict(found)

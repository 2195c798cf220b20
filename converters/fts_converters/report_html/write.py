"""Write the page beside a bundle, or say why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fts.errors import UsageError
from fts_converters.report_html.content import content_from_bundle
from fts_converters.report_html.libraries import PIP_LINE, missing_libraries
from fts_converters.report_html.render import render_report
from fts_converters.warnings_log import WarningLog

REPORT_FILE = "report.html"
SKIPPED = "report-html-skipped"


def write_report_html(
    folder: Path,
    *,
    bundle: Path,
    title: str,
    arguments: tuple[str, ...],
    timings_s: Mapping[str, float],
    warnings: WarningLog,
) -> None:
    """Write `report.html` into the report folder; without its libraries, warn instead and leave no old page there.

    Args:
        folder: The report folder with its pictures.
        bundle: A bundle with the report in it; its name need not be final.
        title: Final name of the bundle.
        arguments: Arguments of `fts-convert`.
        timings_s: Seconds by stage.
        warnings: Where the skip is told.

    Raises:
        UsageError: The file cannot be written.
    """
    page = folder / REPORT_FILE
    try:
        page.unlink(missing_ok=True)
    except OSError as cause:
        raise _unwritable(page, cause) from cause
    if missing := missing_libraries():
        warnings.add(SKIPPED, f"{REPORT_FILE} was not written: {', '.join(missing)} missing; {PIP_LINE} brings it")
        return
    content = content_from_bundle(bundle, title=title, folder=folder, arguments=arguments, timings_s=timings_s)
    text = render_report(content)
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as cause:
        raise _unwritable(page, cause) from cause


def _unwritable(page: Path, cause: OSError) -> UsageError:
    return UsageError(
        f"{page} cannot be written ({cause.strerror or cause}). Remove it, or choose another folder by -o"
    )

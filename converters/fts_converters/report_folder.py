"""What stays beside a bundle and is not part of it: timings, photos, and the report to read without a tool."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from fts_converters.report_html.content import TIMINGS_FILE, report_folder
from fts_converters.report_html.write import write_report_html
from fts_converters.warnings_log import WarningLog


def write_report_folder(
    bundle: Path,
    pictures: Path,
    *,
    packed: Path,
    report: str,
    arguments: tuple[str, ...],
    timings_s: Mapping[str, float],
    warnings: WarningLog,
) -> Path:
    """Fill `<name>.report/` beside the bundle; files of an earlier conversion under the same names are replaced.

    Args:
        bundle: Final name of the bundle.
        pictures: Folder whose files are copied.
        packed: The bundle as it will be, under a name for now.
        report: report.json.
        arguments: Of `fts-convert`; they stand in report.html alone, because they hold paths.
        timings_s: Seconds by stage; they stay out of the bundle, which is the same for the same inputs.
        warnings: Told when report.html cannot be written.
    """
    folder = report_folder(bundle)
    folder.mkdir(exist_ok=True)
    for old in folder.glob("verify_*.png"):
        old.unlink()
    for picture in sorted(pictures.iterdir()):
        shutil.copyfile(picture, folder / picture.name)
    (folder / "report.json").write_text(report, encoding="utf-8")
    timings = {k: round(v, 3) for k, v in timings_s.items()}
    (folder / TIMINGS_FILE).write_text(json.dumps(timings, indent=1) + "\n", encoding="utf-8")
    write_report_html(
        folder, bundle=packed, title=bundle.name, arguments=arguments, timings_s=timings_s, warnings=warnings
    )
    return folder

"""What stays beside a bundle and is not part of it: timings, photos, and the report to read without a tool."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path


def write_report_folder(bundle: Path, pictures: Path, *, report: str, timings_s: Mapping[str, float]) -> Path:
    """Fill `<name>.report/` beside the bundle; files of an earlier conversion under the same names are replaced.

    Args:
        bundle: The bundle written.
        pictures: Folder whose files are copied.
        report: report.json.
        timings_s: Seconds by stage; they stay out of the bundle, which is the same for the same inputs.
    """
    folder = bundle.with_name(f"{bundle.name.removesuffix('.fts')}.report")
    folder.mkdir(exist_ok=True)
    for old in folder.glob("verify_*.png"):
        old.unlink()
    for picture in sorted(pictures.iterdir()):
        shutil.copyfile(picture, folder / picture.name)
    (folder / "report.json").write_text(report, encoding="utf-8")
    timings = {k: round(v, 3) for k, v in timings_s.items()}
    (folder / "timings.json").write_text(json.dumps(timings, indent=1) + "\n", encoding="utf-8")
    return folder

"""Where a conversion's files go: the bundle's names, and the folder beside it with what is not part of it.

`<name>.report/` holds timings, photos, and the report to read without a tool.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fts.errors import UsageError
from fts_converters.speed import Speed

TIMINGS_FILE = "timings.json"
SPEED_FILE = "speed.json"


def below_budget_name(output: Path) -> Path:
    """Name of the best attempt where `output` could not be reached."""
    return output.with_name(f"{output.name.removesuffix('.fts')}.below-budget.fts")


def report_folder_name(bundle: Path) -> Path:
    """Name of the folder beside a bundle."""
    return bundle.with_name(f"{bundle.name.removesuffix('.fts')}.report")


def require_free_place(output: Path) -> None:
    """Find out before the work, not behind it, that the results can be written. Nothing is left behind.

    Args:
        output: Final name of the bundle.

    Raises:
        UsageError: A name is taken by something of another kind, or the folder cannot be made or written.
    """
    for bundle in (output, below_budget_name(output)):
        if bundle.is_dir():
            raise UsageError(f"-o {output}: {bundle} is a folder, expected a file or nothing. Choose another name")
        folder = report_folder_name(bundle)
        if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
            raise UsageError(f"-o {output}: {folder} is a file, expected a folder or nothing. Remove it")
    existing = next(p for p in (output.parent, *output.parent.absolute().parents) if p.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".fts-convert-", dir=existing):
            pass
    except OSError as cause:
        raise UsageError(
            f"-o {output}: {existing} cannot be written ({cause.strerror or cause}). Choose another folder by -o"
        ) from cause


@contextmanager
def report_folder(
    bundle: Path, pictures: Path, *, report: str, timings_s: Mapping[str, float], speed: Speed | None
) -> Iterator[Path]:
    """Fill `<name>.report/` around the writing of its bundle; without the bundle, a new folder vanishes again.

    Files of an earlier conversion under the same names are replaced.

    Args:
        bundle: The bundle, written in the block.
        pictures: Folder whose files are copied.
        report: report.json.
        timings_s: Seconds by stage; they stay out of the bundle, which is the same for the same inputs.
        speed: Against FP32; out of the bundle likewise.

    Yields:
        The folder.

    Raises:
        UsageError: The folder cannot be written.
    """
    folder = report_folder_name(bundle)
    is_new = not folder.exists()
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _fill(folder, pictures, report, timings_s, speed)
        except OSError as cause:
            raise UsageError(f"-o {bundle}: {folder} cannot be written ({cause.strerror or cause})") from cause
        yield folder
    except BaseException:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _fill(folder: Path, pictures: Path, report: str, timings_s: Mapping[str, float], speed: Speed | None) -> None:
    for old in folder.glob("verify_*.png"):
        old.unlink()
    for picture in sorted(pictures.iterdir()):
        shutil.copyfile(picture, folder / picture.name)
    (folder / "report.json").write_text(report, encoding="utf-8")
    timings = {k: round(v, 3) for k, v in timings_s.items()}
    (folder / TIMINGS_FILE).write_text(json.dumps(timings, indent=1) + "\n", encoding="utf-8")
    (folder / SPEED_FILE).unlink(missing_ok=True)
    if speed is not None:
        (folder / SPEED_FILE).write_text(json.dumps(speed.to_json(), indent=1) + "\n", encoding="utf-8")

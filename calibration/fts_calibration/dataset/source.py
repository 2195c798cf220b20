"""`--calib PATH`: which of the four forms it is, and the set that comes of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fts.errors import CalibrationError, EmptyCalibrationSetError
from fts.imaging.decode import is_picture_name, picture_suffixes
from fts_calibration.dataset.calibration_set import CalibrationSet, FileRecord, with_one_sample_per_content
from fts_calibration.dataset.folder_files import folder_entries
from fts_calibration.dataset.input_request import Array, InputRequest, rows_of
from fts_calibration.dataset.npz_folder import is_npz_name, samples_from_npz_folder
from fts_calibration.dataset.npz_samples import samples_from_npz
from fts_calibration.dataset.pictures import samples_from_pictures
from fts_calibration.dataset.python_iterable import is_reference, samples_from_reference
from fts_calibration.dataset.watcher import NOBODY, Watcher

_REASONS_SHOWN = 5
_FORMS = (
    f"Give a folder of pictures ({' '.join(picture_suffixes)}), a folder of .npz, one .npz with a sample axis, or "
    "package.module:iterable."
)


def open_calibration(
    path: str, inputs: Sequence[InputRequest], *, flag: str = "--calib", watcher: Watcher = NOBODY
) -> CalibrationSet:
    """Look at everything under a path once: what is usable, and why the rest is not.

    Args:
        path: A folder of pictures, a folder of .npz, one .npz with a sample axis, or package.module:iterable.
        inputs: What the net asks for.
        flag: The option that the path came with, for messages.
        watcher: Told of every usable sample, once.

    Returns:
        At least one sample; splits are not dealt yet (`deal_splits`).

    Raises:
        EmptyCalibrationSetError: Nothing is there, or nothing of it is usable.
        CalibrationError: The form cannot feed this net, or data that is there is wrong.
    """
    rows = {r.spec.name: values for r in inputs if (values := rows_of(r)) is not None}
    location = Path(path)
    if location.is_dir():
        found = _from_folder(path, location, inputs, rows, flag, watcher)
    elif location.is_file() and is_npz_name(path):
        found = with_one_sample_per_content(path, samples_from_npz(location, inputs, rows, watcher), [])
    elif location.exists():
        raise CalibrationError(f"{flag} {path}: is neither a folder nor an .npz file. {_FORMS}")
    elif is_reference(path):
        samples = samples_from_reference(path, inputs, rows, f"{flag} {path}", watcher)
        found = with_one_sample_per_content(path, samples, [])
    else:
        raise EmptyCalibrationSetError(
            f"{flag} {path}: there is no such file or folder, so no usable picture (0 usable of 0 files). {_FORMS}"
        )
    if not found.samples:
        raise EmptyCalibrationSetError(_nothing_usable(path, found.files, flag))
    return replace(found, values_sha256=_sha256_of_rows(rows))


def _from_folder(
    path: str, folder: Path, inputs: Sequence[InputRequest], rows: Mapping[str, Array], flag: str, watcher: Watcher
) -> CalibrationSet:
    try:
        entries = list(folder_entries(folder))
    except OSError as cause:
        raise CalibrationError(f"{flag} {path}: the folder cannot be read ({cause.strerror}).") from cause
    files = [entry for entry in entries if not entry.obstacle]
    pictures = sum(is_picture_name(entry.name) for entry in files)
    archives = sum(is_npz_name(entry.name) for entry in files)
    if pictures and archives:
        raise CalibrationError(
            f"{flag} {path}: found {pictures} pictures and {archives} .npz in one folder, expected one kind, because "
            "pictures are preprocessed and .npz are not. Move one kind into a folder of its own."
        )
    if archives:
        return with_one_sample_per_content(path, *samples_from_npz_folder(entries, inputs, rows, watcher))
    if not pictures:  # before asking whether pictures can feed this net
        skipped = [
            FileRecord(path=e.name, status="skipped", reason=e.obstacle or "not a picture by its suffix")
            for e in entries
        ]
        return CalibrationSet(path=path, samples=(), unused=tuple(skipped))
    samples, skipped_files = samples_from_pictures(entries, inputs, rows, f"{flag} {path}", watcher)
    return with_one_sample_per_content(path, samples, skipped_files)


def _nothing_usable(path: str, files: Sequence[FileRecord], flag: str) -> str:
    reasons = [f"{record.path}: {record.reason}" for record in files[:_REASONS_SHOWN]]
    if len(files) > _REASONS_SHOWN:
        reasons.append(f"and {len(files) - _REASONS_SHOWN} more")
    listed = f" {'; '.join(reasons)}." if reasons else ""
    return f"{flag} {path}: no usable picture (0 usable of {len(files)} files).{listed} {_FORMS}"


def _sha256_of_rows(rows: Mapping[str, Array]) -> str:
    digest = hashlib.sha256()
    for name in sorted(rows):
        digest.update(f"{name}\0{rows[name].dtype.str}\0{rows[name].shape}\0".encode())
        digest.update(rows[name].data)
    return digest.hexdigest() if rows else ""

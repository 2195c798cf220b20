"""A folder of .npz: one feed a file, keys are input names, raw tensors without any preprocessing."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from fts.errors import CalibrationError
from fts_calibration.dataset.calibration_set import FileRecord, Sample
from fts_calibration.dataset.folder_files import FolderEntry
from fts_calibration.dataset.input_request import Array, Feed, InputRequest, feed_from_mapping, feeds_with_rows
from fts_calibration.dataset.watcher import Watcher

NPZ_SUFFIX = ".npz"


def is_npz_name(name: str) -> bool:
    """True when the name ends in .npz, in any case."""
    return name.lower().endswith(NPZ_SUFFIX)


def samples_from_npz_folder(
    entries: Sequence[FolderEntry], inputs: Sequence[InputRequest], rows: Mapping[str, Array], watcher: Watcher
) -> tuple[list[Sample], list[FileRecord]]:
    """Check every .npz once; arrays are loaded again when they are fed.

    Args:
        entries: The folder.
        inputs: What the net asks for.
        rows: Values by name, for inputs that a file leaves out.
        watcher: Told of every usable file.

    Returns:
        Usable files by sha256, and records of all other files.

    Raises:
        CalibrationError: A readable file holds a wrong key, shape, type, or NaN: such data was meant and is wrong.
    """
    used: list[Sample] = []
    skipped: list[FileRecord] = []
    for entry in entries:
        if entry.obstacle or not is_npz_name(entry.name):
            is_notable = entry.is_notable and is_npz_name(entry.name)
            reason = entry.obstacle or "not an .npz by its suffix"
            skipped.append(FileRecord(path=entry.name, status="skipped", reason=reason, is_notable=is_notable))
            continue
        try:
            sha256 = _sha256_of_file(entry.path)
            watcher.feed(entry.name, feed_from_mapping(load_npz(entry.path, entry.name), inputs, entry.name))
        except _UNREADABLE as error:
            reason = f"cannot be read as .npz ({error})"
            skipped.append(FileRecord(path=entry.name, status="skipped", reason=reason, is_notable=True))
            continue
        record = FileRecord(path=entry.name, status="used", sha256=sha256)
        used.append(Sample(record=record, read=npz_reader(entry.path, record.path, inputs, rows)))
    used.sort(key=lambda sample: (sample.record.sha256, sample.record.path))
    return used, skipped


# RuntimeError: zipfile, for encrypted members and compression it does not know.
_UNREADABLE = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def load_npz(file: Path, name: str) -> dict[str, Array]:
    """Load the arrays of one .npz; never with pickle, which runs code of the file.

    Raises:
        CalibrationError: A member is not a plain array.
    """
    with zipfile.ZipFile(file):  # np.load reads other formats too, and takes damage for pickle
        pass
    with np.load(file, allow_pickle=False) as archive:
        arrays: dict[str, Array] = {}
        for key in archive.files:
            try:
                arrays[key] = np.asarray(archive[key])
            except ValueError as cause:
                raise CalibrationError(
                    f"{name}, key {key!r}: cannot be loaded ({cause}), expected a plain numeric array. "
                    "Save it with np.savez and a numeric dtype."
                ) from cause
            if arrays[key].dtype.kind not in "biuf":
                raise CalibrationError(
                    f"{name}, key {key!r}: found {arrays[key].dtype}, expected a numeric array. Save it as numbers."
                )
    return arrays


def npz_reader(
    file: Path, name: str, inputs: Sequence[InputRequest], rows: Mapping[str, Array]
) -> Callable[[], Iterator[Feed]]:
    """How to read the feeds of one .npz: its arrays with every row of the inputs it leaves out."""

    def read() -> Iterator[Feed]:
        try:
            fed = feed_from_mapping(load_npz(file, name), inputs, name)
        except _UNREADABLE as cause:
            raise CalibrationError(f"{name}: could be read at first and cannot now ({cause}).") from cause
        yield from feeds_with_rows(fed, {key: value for key, value in rows.items() if key not in fed})

    return read


def _sha256_of_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()

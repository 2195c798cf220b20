"""Samples that come one after another are laid on disk, so that several passes need no more memory than one sample."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from fts.errors import CalibrationError
from fts_calibration.dataset.calibration_set import FileRecord, Sample
from fts_calibration.dataset.input_request import Array, Feed, InputRequest, feed_from_mapping
from fts_calibration.dataset.npz_folder import npz_reader
from fts_calibration.dataset.watcher import Watcher


def samples_from_stream(
    stream: Iterable[Mapping[str, Array]],
    inputs: Sequence[InputRequest],
    rows: Mapping[str, Array],
    name: str,
    watcher: Watcher,
) -> list[Sample]:
    """Check samples and write each to a temporary folder, which lives as long as the samples do.

    Args:
        stream: Samples, read once.
        inputs: What the net asks for.
        rows: Values by name, for inputs that a sample leaves out.
        name: Of the source; sample i is called name[i].
        watcher: Told of every sample.

    Returns:
        Samples in the order of the stream; a sample's sha256 is over names, types, shapes and bytes.

    Raises:
        CalibrationError: A sample has a wrong key, shape, type, or NaN.
    """
    folder = _SpoolFolder()
    samples: list[Sample] = []
    for index, arrays in enumerate(stream):
        label = f"{name}[{index}]"
        feed = feed_from_mapping(arrays, inputs, label)
        watcher.feed(label, feed)
        file = folder.path / f"{index:08d}.npz"
        _write_npz(file, feed)
        record = FileRecord(path=label, status="used", sha256=_sha256_of_feed(feed))
        samples.append(Sample(record=record, read=folder.keep_for(npz_reader(file, label, inputs, rows))))
    return samples


class _SpoolFolder:
    """A temporary folder that is deleted when its last reader is gone, at the latest when Python exits."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="fts-calibration-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def keep_for(self, read: Callable[[], Iterator[Feed]]) -> Callable[[], Iterator[Feed]]:
        """The reader, holding on to this folder."""

        def read_from_folder() -> Iterator[Feed]:
            if not self.path.is_dir():
                raise CalibrationError(
                    f"{self.path}: this temporary folder was removed while it was used. Start again."
                )
            yield from read()

        return read_from_folder


def _write_npz(file: Path, feed: Feed) -> None:
    """Like np.savez, whose keyword arguments forbid inputs named "file" or "allow_pickle"."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in feed.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _sha256_of_feed(feed: Feed) -> str:
    digest = hashlib.sha256()
    for name in sorted(feed):
        array = feed[name]
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()

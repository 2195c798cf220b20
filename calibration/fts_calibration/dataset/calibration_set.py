"""The calibration data as a value: one record a file, and feeds on demand, one file at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from fts_calibration.dataset.input_request import Feed

Status = Literal["used", "skipped", "duplicate"]
Split = Literal["calibrate", "select", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """What became of one file (or of one sample of an .npz or iterable).

    Attributes:
        path: Name relative to the folder; "name.npz[3]" and "module:attr[3]" for samples.
        status: used, skipped, or duplicate: equal content counts once, under another name.
        reason: Why it was not used; empty for used files.
        split: What it serves; empty before splits are dealt. A duplicate has the split of the file it equals.
        mean_rgb: Mean colour of the decoded picture before fitting; None for skipped files and raw tensors.
        sha256: Of the content, hex; empty when it was not read.
        is_notable: A file that looks usable and was skipped: the user has to be warned.
    """

    path: str
    status: Status
    reason: str = ""
    split: Split | Literal[""] = ""
    mean_rgb: tuple[float, float, float] | None = None
    sha256: str = ""
    is_notable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """A used file: its record, and how to read its feeds (several when an input has several rows)."""

    record: FileRecord
    read: Callable[[], Iterator[Feed]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CalibrationSet:
    """Calibration data of one net.

    Attributes:
        path: As the user gave it.
        samples: Used files, in the order in which they are dealt: by sha256, iterables as they came.
        unused: Duplicates and skipped files, by name.
        values_sha256: Of the rows that inputs take from the card; empty without any.
    """

    path: str
    samples: tuple[Sample, ...]
    unused: tuple[FileRecord, ...]
    values_sha256: str = ""

    @property
    def files(self) -> tuple[FileRecord, ...]:
        """Every file of the set, used ones first."""
        return tuple(sample.record for sample in self.samples) + self.unused

    @property
    def notable(self) -> tuple[FileRecord, ...]:
        """Files that look usable and were skipped, for a warning."""
        return tuple(record for record in self.files if record.is_notable)

    @property
    def digest(self) -> str:
        """sha256 over contents, order, splits and card values: equal digests give equal feeds before preprocessing."""
        lines = [f"{s.record.split or '-'} {s.record.sha256}" for s in self.samples] + [self.values_sha256]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def count(self, split: Split) -> int:
        """Number of files in a split."""
        return sum(sample.record.split == split for sample in self.samples)

    def feeds(self, split: Split) -> Iterator[Feed]:
        """Read the feeds of a split, one file at a time; arrays have exactly the inputs' types and shapes.

        Raises:
            CalibrationError: A file changed or vanished since the set was opened.
        """
        for sample in self.samples:
            if sample.record.split == split:
                yield from sample.read()


def with_one_sample_per_content(path: str, samples: list[Sample], skipped: list[FileRecord]) -> CalibrationSet:
    """Turn all but the first of samples with equal content into duplicates; the order is kept.

    Args:
        path: As the user gave it.
        samples: In the order in which they will be dealt.
        skipped: Files that were not used.
    """
    first: dict[str, Sample] = {}
    duplicates: list[FileRecord] = []
    for sample in samples:
        original = first.setdefault(sample.record.sha256, sample)
        if original is not sample:
            reason = f"same content as {original.record.path}, which counts once"
            duplicates.append(replace(sample.record, status="duplicate", reason=reason))
    unused = sorted(duplicates + skipped, key=lambda record: record.path)
    return CalibrationSet(path=path, samples=tuple(first.values()), unused=tuple(unused))

"""Which files calibrate, which select, which verify.

Files in the order of their sha256 are dealt in turn, so the split depends on the contents alone: not on names, not on
the order of a directory, and a file that is added or removed shifts others without favouring a split.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

from fts.errors import CalibrationError
from fts_calibration.dataset.calibration_set import CalibrationSet, FileRecord, Sample, Split

_DEAL: tuple[Split, ...] = ("calibrate", "calibrate", "select", "verify")
_DEAL_BESIDE_HOLDOUT: tuple[Split, ...] = ("calibrate", "calibrate", "select")


def deal_splits(
    calibration: CalibrationSet, *, holdout: CalibrationSet | None = None, all_calibrate: bool = False
) -> CalibrationSet:
    """Give every used file its split.

    Args:
        calibration: The set behind --calib.
        holdout: The set behind --holdout; all of it verifies.
        all_calibrate: Under `--budget none` nothing is selected or verified on this set, so every file calibrates and
            one is enough.

    Returns:
        One set with the files of both; those of the holdout stand last.

    Raises:
        CalibrationError: Too few files for every split, or a file of the holdout is in the calibration set too.
    """
    deal: tuple[Split, ...] = _DEAL if holdout is None else _DEAL_BESIDE_HOLDOUT
    if all_calibrate:
        deal = ("calibrate",)
    if len(calibration.samples) < len(deal):
        raise CalibrationError(
            f"--calib {calibration.path}: found {len(calibration.samples)} usable files of different content, expected "
            f"at least {len(deal)} ({', '.join(deal)}). Add files, or use --budget none."
        )
    dealt = _with_splits(calibration, deal)
    if holdout is None:
        return dealt
    _require_disjoint(calibration, holdout)
    verify = _with_splits(holdout, ("verify",))
    return replace(dealt, samples=dealt.samples + verify.samples, unused=dealt.unused + verify.unused)


def _with_splits(whole: CalibrationSet, deal: tuple[Split, ...]) -> CalibrationSet:
    samples = tuple(
        replace(sample, record=replace(sample.record, split=split))
        for sample, split in zip(whole.samples, cycle(deal), strict=False)
    )
    split_by_content = {sample.record.sha256: sample.record.split for sample in samples}
    unused = tuple(
        replace(record, split=split_by_content[record.sha256]) if record.status == "duplicate" else record
        for record in whole.unused
    )
    return replace(whole, samples=samples, unused=unused)


def _require_disjoint(calibration: CalibrationSet, holdout: CalibrationSet) -> None:
    by_content: dict[str, FileRecord] = {s.record.sha256: s.record for s in calibration.samples}
    leaks: list[Sample] = [sample for sample in holdout.samples if sample.record.sha256 in by_content]
    if leaks:
        pairs = [f"{leak.record.path} = {by_content[leak.record.sha256].path}" for leak in leaks[:5]]
        raise CalibrationError(
            f"--holdout {holdout.path}: {len(leaks)} of its files are in --calib {calibration.path} too "
            f"({', '.join(pairs)}), expected none, or the verification would be of pictures the net was fitted to. "
            "Remove them from one of the two."
        )

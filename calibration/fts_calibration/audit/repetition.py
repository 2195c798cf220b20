"""The same again: copies, near copies, one scene. What repeats counts as one picture and is paid for as many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from fts_calibration.audit.finding import Finding, finding_if_many
from fts_calibration.audit.look import Look
from fts_calibration.audit.perceptual_hash import distances
from fts_calibration.dataset.calibration_set import FileRecord

MOST_COPIES_SHARE = 0.1
# Bits of 64 that may differ: compressing, shrinking and moving by 1 % change 0 to 8, different pictures 12 and more.
# Hashes ignore brightness and colour, so the thumbnails have to agree too (mean difference, of 255).
NEAR_BITS, NEAR_THUMBNAILS = 8, 16.0
# Mean correlation of the grey thumbnails over all pairs: different scenes 0 to 0.3, aligned portraits below 0.5.
ONE_SCENE_CORRELATION = 0.7
LEAST_PICTURES = 4


def check_copies(used: Sequence[Look], files: Sequence[FileRecord]) -> Iterator[Finding]:
    """Finding duplicates: files of equal content; each counts once already."""
    copies = [record.path for record in files if record.status == "duplicate"]
    yield from finding_if_many(
        "duplicates",
        copies,
        len(used) + len(copies),
        most_share=MOST_COPIES_SHARE,
        what="are copies of others, byte by byte, and count once",
        fix="Add different pictures.",
    )


def check_near_copies(looks: Sequence[Look]) -> Iterator[Finding]:
    """Finding near-duplicates: the same picture compressed, resized or moved a little; all but the first are counted."""
    yield from finding_if_many(
        "near-duplicates",
        near_copies(looks),
        len(looks),
        most_share=MOST_COPIES_SHARE,
        what="show the same as others (compressed again, resized, moved a little)",
        fix="Keep one of each; a near copy of a calibration picture verifies nothing.",
    )


def near_copies(looks: Sequence[Look]) -> list[str]:
    """Names of the samples that an earlier one shows already."""
    hashes = np.array([look.hash for look in looks], np.uint64)
    found = []
    for position, look in enumerate(looks[1:], start=1):
        near = np.flatnonzero(distances(hashes[:position], look.hash) <= NEAR_BITS)
        if any(_difference(looks[i].thumbnail, look.thumbnail) < NEAR_THUMBNAILS for i in near.tolist()):
            found.append(look.path)
    return found


def _difference(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> float:
    return float(np.abs(a.astype(np.float32) - b).mean())


def check_one_scene(looks: Sequence[Look]) -> Iterator[Finding]:
    """Finding one-scene: a fixed camera, or a single video."""
    if len(looks) < LEAST_PICTURES:
        return
    correlation = mean_correlation(looks)
    if correlation > ONE_SCENE_CORRELATION:
        yield Finding(
            id="one-scene",
            severity="warning",
            message=(
                f"the {len(looks)} pictures show one scene: any two correlate by {correlation:.2f} on average, pictures "
                "of different scenes by 0 to 0.3"
            ),
            fix="Take a few frames from each of many scenes.",
        )


def mean_correlation(looks: Sequence[Look]) -> float:
    """Of grey thumbnails, over all pairs.

    With z-scored thumbnails z_i the sum over all pairs, those with themselves included, is |sum z_i|^2: no pair is formed.
    """
    gray = np.stack([look.thumbnail.mean(axis=2).ravel() for look in looks])
    centered = gray - gray.mean(axis=1, keepdims=True)
    z = centered / np.maximum(np.linalg.norm(centered, axis=1, keepdims=True), 1e-6)
    n = len(looks)
    return float((np.square(z.sum(axis=0)).sum() - np.square(z).sum()) / (n * (n - 1)))

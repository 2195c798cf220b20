"""`--select N`: the N pictures that cover a large folder best.

Pictures are points: thumbnail, contrast, darkest and brightest value. The first chosen is the one nearest to the mean; then
comes, N - 1 times, the one farthest from all chosen so far. No choice of N points can have less than half the radius that
this one has (Gonzalez 1985, "Clustering to Minimize the Maximum Intercluster Distance", theorem 2.2): every picture left
out is like one that is in, and what is unlike everything, which decides ranges, is in.

That would put noise and lens caps first, so samples that are no pictures are chosen when nothing else is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fts.errors import CalibrationError
from fts_calibration.audit.contents import kind_of
from fts_calibration.audit.finding import Finding
from fts_calibration.audit.look import THUMBNAIL_PX, Look
from fts_calibration.audit.watch import LookTaker
from fts_calibration.dataset.calibration_set import CalibrationSet

Points = npt.NDArray[np.float32]  # (n, features)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What was chosen.

    Attributes:
        names: In the order of choice.
        radius: Largest distance of a picture left out from its nearest chosen one; 0.1 is 10 % of the range of pixels.
    """

    names: tuple[str, ...]
    radius: float


def select_covering(looks: Sequence[Look], count: int) -> Selection:
    """Choose `count` of the samples; the same ones whatever their order, as long as no two points are equal."""
    unfit = np.array([bool(kind_of(look)) for look in looks])
    points = points_of(looks)
    fit = np.flatnonzero(~unfit)
    start = fit if fit.size else np.arange(len(looks))
    first = int(start[np.argmin(np.linalg.norm(points[start] - points[start].mean(axis=0), axis=1))])
    chosen = [first]
    distance = np.linalg.norm(points - points[first], axis=1)
    while len(chosen) < min(count, len(looks)):
        left = np.ones(len(looks), bool)
        left[chosen] = False
        open_ones = left & ~unfit if (left & ~unfit).any() else left
        farthest = int(np.argmax(np.where(open_ones, distance, -1.0)))
        chosen.append(farthest)
        distance = np.minimum(distance, np.linalg.norm(points - points[farthest], axis=1))
    rest = np.setdiff1d(fit, chosen)
    return Selection(
        names=tuple(looks[i].path for i in chosen), radius=float(distance[rest].max()) if rest.size else 0.0
    )


def points_of(looks: Sequence[Look]) -> Points:
    """float32 (n, features); a distance of 0.1 is 10 % of the pixels' range, on average over the thumbnail."""
    cells = THUMBNAIL_PX * THUMBNAIL_PX * 3
    thumbnails = np.stack([look.thumbnail.ravel() for look in looks]).astype(np.float32) / (255 * np.sqrt(cells))
    contrast = np.array([(look.std, *look.percentiles) for look in looks], np.float32) / (255 * 2)
    return np.concatenate([thumbnails, contrast], axis=1)


def with_selection(data: CalibrationSet, taken: LookTaker, count: int) -> tuple[CalibrationSet, Finding]:
    """The set with `count` samples left, and a note that says how well they cover the rest.

    Args:
        data: Before splits are dealt.
        taken: A look at every sample; the first image input counts.
        count: How many are kept.

    Raises:
        CalibrationError: The net has no image input, or the set has fewer samples.
    """
    names = [sample.record.path for sample in data.samples]
    looks = taken.looks(taken.images[0].spec.name, names) if taken.images else ()
    if len(looks) != len(names):
        raise CalibrationError(
            f"--select {count}: pictures are compared, and {len(looks)} of {len(names)} samples feed an image input. "
            "Leave the option out."
        )
    if count > len(looks):
        raise CalibrationError(
            f"--select {count}: found {len(looks)} usable samples of different content, expected {count} or more. "
            "Add files, or leave the option out."
        )
    selection = select_covering(looks, count)
    kept = frozenset(selection.names)
    reason = f"not among the {count} that --select chose"
    left_out = tuple(
        replace(sample.record, status="skipped", reason=reason)
        for sample in data.samples
        if sample.record.path not in kept
    )
    chosen = tuple(sample for sample in data.samples if sample.record.path in kept)
    unused = tuple(sorted(data.unused + left_out, key=lambda record: record.path))
    note = Finding(
        id="selected",
        severity="note",
        message=(
            f"{count} of {len(looks)} samples were chosen; every picture left out differs from its nearest chosen one by at "
            f"most {selection.radius:.0%} of the range of pixels"
        ),
        fix="Choose more for closer cover.",
    )
    return replace(data, samples=chosen, unused=unused), note

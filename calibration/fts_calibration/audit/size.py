"""Enough pictures, and pictures large enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fts_calibration.audit.finding import Finding, finding_if_many
from fts_calibration.audit.look import Look

LEAST_SAMPLES = 12  # README: "a dozen or more"; half of them calibrate, a quarter each selects and verifies
SMALLER = 0.5  # of the net's width or height: 3 of 4 pixels that the net sees are then invented
# Of pictures with a 1/f spectrum 0.47 to 0.7, enlarged by 3 0.2.
LEAST_DETAIL = 0.33
MOST_SHARE = 0.3


def check_count(looks: Sequence[Look]) -> Iterator[Finding]:
    """Finding too-few."""
    if len(looks) < LEAST_SAMPLES:
        yield Finding(
            id="too-few",
            severity="warning",
            message=f"{len(looks)} different samples for calibration, selection and verification together",
            fix=f"Give {LEAST_SAMPLES} or more; 50 to 200 make the figures firm.",
        )


def check_detail(looks: Sequence[Look], net_wh: tuple[int, int]) -> Iterator[Finding]:
    """Finding low-detail: pictures that are, or once were, much smaller than the net's input."""
    affected = [look.path for look in looks if is_too_small(look, net_wh) or look.detail < LEAST_DETAIL]
    yield from finding_if_many(
        "low-detail",
        affected,
        len(looks),
        most_share=MOST_SHARE,
        what=f"are less than half as large as the net's input ({net_wh[0]}x{net_wh[1]}), or were enlarged: no detail",
        fix="Give pictures at least as large as the net's input; ranges of blurred ones clip edges.",
    )


def is_too_small(look: Look, net_wh: tuple[int, int]) -> bool:
    """True when fitting it enlarges it more than twice."""
    return look.is_picture and look.size_wh[0] < SMALLER * net_wh[0] and look.size_wh[1] < SMALLER * net_wh[1]

"""What the pictures show: noise, nothing, flat areas, graphics, borders. A sample has at most one of these kinds.

Thresholds lie between what photographs and what such samples measure (tests/generators/calibration_sets, and crops of the
photographs of tools/assets.json); the figures stand beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fts_calibration.audit.finding import Finding, finding_if_many
from fts_calibration.audit.look import Look

CONSTANT_STD, NOISE_STD = 0.3, 1.0  # of 255: one bit of noise measures 0.5
FLAT_STD = 4.0  # a wall with a camera's noise 2, mist 8, photographs 20 and more
RANDOM_CORRELATION = 0.35  # white noise 0, night noise 0.8, photographs 0.9
UNDEREXPOSED_SHARE = OVEREXPOSED_SHARE = 0.25  # of values that are clipped; photographs 0.02, at night 0.1
STILL_BRIGHT, STILL_DARK = 100.0, 100.0  # a picture with pixels beyond these is not merely dark or bright
GRAPHICS_EQUAL = 0.75  # of the neighbours are equal: text on a page 0.9, photographs 0.3 at most
UNIFORM_BORDER = 0.4  # of the outermost pixels: bars above and below at 16:9 give 0.64, photographs 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of unfit picture.

    Attributes:
        id: Of the finding.
        is_kind: Whether a sample is of it.
        most_share: Share of the set from which on it is a warning.
        what, fix: Texts of the finding.
    """

    id: str
    is_kind: Callable[[Look], bool]
    most_share: float
    what: str
    fix: str


def is_constant(look: Look) -> bool:
    """One colour, or one with a bit of noise; what is dull and still shows something is flat instead."""
    return look.std < CONSTANT_STD or (look.std < NOISE_STD and look.correlation < RANDOM_CORRELATION)


def is_random(look: Look) -> bool:
    """Neighbours have nothing to do with one another."""
    return look.correlation < RANDOM_CORRELATION


def is_underexposed(look: Look) -> bool:
    """Much is black and nothing is bright; a cut-out on black is bright somewhere."""
    return look.clipped_low > UNDEREXPOSED_SHARE and look.percentiles[1] < STILL_BRIGHT


def is_overexposed(look: Look) -> bool:
    """Much is white and nothing is dark; a page with text is dark somewhere."""
    return look.clipped_high > OVEREXPOSED_SHARE and look.percentiles[0] > STILL_DARK


def is_flat(look: Look) -> bool:
    """Colour without contrast."""
    return look.std < FLAT_STD


def has_uniform_border(look: Look) -> bool:
    """Bars, or a subject cut out."""
    return look.border > UNIFORM_BORDER


def is_graphics(look: Look) -> bool:
    """Areas of exactly one colour, as drawn by a program; a wholly uniform border is a cut-out instead."""
    return look.equal_neighbors > GRAPHICS_EQUAL and look.border < 0.99


# In order: the first that fits is what a sample is.
KINDS = (
    Kind(
        id="constant-data",
        is_kind=is_constant,
        most_share=0.1,
        what="have one colour and nothing else",
        fix="Take them out: they narrow no range and take the place of pictures.",
    ),
    Kind(
        id="random-data",
        is_kind=is_random,
        most_share=0.1,
        what="are noise: neighbouring pixels have nothing in common",
        fix="Give pictures as the app will see them; ranges of noise are not those of pictures.",
    ),
    Kind(
        id="underexposed",
        is_kind=is_underexposed,
        most_share=0.3,
        what="are dark, with a quarter or more of their values at 0",
        fix="Add pictures with the exposures that the app will see, or correct what makes these dark.",
    ),
    Kind(
        id="overexposed",
        is_kind=is_overexposed,
        most_share=0.3,
        what="are bright, with a quarter or more of their values at 255",
        fix="Add pictures with the exposures that the app will see, or correct what makes these bright.",
    ),
    Kind(
        id="flat-data",
        is_kind=is_flat,
        most_share=0.3,
        what=f"have next to no contrast (a standard deviation below {FLAT_STD:g} of 255)",
        fix="Add pictures with something in them; ranges of flat areas clip everything else.",
    ),
    Kind(
        id="graphics",
        is_kind=is_graphics,
        most_share=0.3,
        what="are drawn by a program (screenshots, text, charts): most neighbouring pixels are equal",
        fix="Give photographs, unless the app will see such graphics.",
    ),
    Kind(
        id="uniform-border",
        is_kind=has_uniform_border,
        most_share=0.3,
        what="have a border of one colour: bars of a film, or a subject cut out on a plain background",
        fix="Cut the bars off, or give the pictures with the background that the app will see.",
    ),
)


def kind_of(look: Look) -> str:
    """Id of the kind that a sample is of; empty for a picture."""
    return next((kind.id for kind in KINDS if kind.is_kind(look)), "")


def check_contents(looks: Sequence[Look]) -> Iterator[Finding]:
    """Findings of this file for samples whose contract holds."""
    kinds = [kind_of(look) for look in looks]
    for kind in KINDS:
        affected = [look.path for look, found in zip(looks, kinds, strict=True) if found == kind.id]
        yield from finding_if_many(
            kind.id, affected, len(looks), most_share=kind.most_share, what=kind.what, fix=kind.fix
        )

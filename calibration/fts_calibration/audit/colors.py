"""Colours of a set: grey for a colour net, one cast over everything, red and blue exchanged.

The order of channels cannot be read off a single picture. Over a set it can, because natural colours lie along the axis of
daylight: things lit (earth, wood, skin) have R > G > B, the sky has B > G > R and stands at the top. Exchanged, most
pictures are azure, and not at their top. Sets that really are so (under water, snow at dusk) look the same to this test;
inside the boxes of faces R > B holds for skin of every tone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fts_calibration.audit.finding import Finding, names_text
from fts_calibration.audit.look import Look

GREY_CHROMA = 1.5  # mean difference of channels, of 255; photographs 15 and more
MOST_GREY_SHARE = 0.5

CAST = 0.3  # of the brightest pixels, relative to grey; sets of photographs stay below 0.15
ALIKE = 0.15  # standard deviation over the set; sets of photographs 0.05 to 0.15

COLORED_SHARE = 0.05  # of the pixels, for a picture to have a say
LEAST_COLORED = 8  # pictures, or nothing is said
AZURE_OVER_ORANGE = 1.5
SKY_HEIGHT = 0.62  # mean height of azure pixels, 0.5 when they are everywhere
MOST_AZURE_SHARE = 0.6  # photographs 0.2, exchanged 0.75

BLUE_SKIN = -10.0  # R - B inside a face, of 255; skin +20 and more
MOST_BLUE_FACES_SHARE = 0.05


def check_grey_pictures(looks: Sequence[Look], channels: int) -> Iterator[Finding]:
    """Finding grey-pictures, for nets that take colours."""
    grey = [look.path for look in looks if look.chroma < GREY_CHROMA]
    if channels == 3 and len(grey) > MOST_GREY_SHARE * len(looks):
        yield Finding(
            id="grey-pictures",
            severity="warning",
            message=f"{len(grey)} of {len(looks)} samples are grey, and the net takes colours ({names_text(grey)})",
            fix="Give pictures in colour, or declare --color gray when the net takes one channel.",
        )


def check_color_cast(looks: Sequence[Look]) -> Iterator[Finding]:
    """Finding color-cast: what is brightest has the same tint in all pictures."""
    if len(looks) < LEAST_COLORED:
        return
    whites = np.array([look.white_rgb for look in looks], np.float64)
    tints = whites / np.maximum(whites.mean(axis=1, keepdims=True), 1.0)
    mean, spread = tints.mean(axis=0), tints.std(axis=0)
    if np.abs(mean - 1).max() > CAST and spread.max() < ALIKE:
        yield Finding(
            id="color-cast",
            severity="warning",
            message=(
                "all samples have one cast: their brightest parts are "
                f"{mean[0]:.2f} : {mean[1]:.2f} : {mean[2]:.2f} in red, green and blue, where white is 1 : 1 : 1"
            ),
            fix="Add pictures in other light, unless the app will see this light alone.",
        )


def check_color_order(looks: Sequence[Look], channels: int, *, has_cast: bool) -> Iterator[Finding]:
    """Finding color-order, from faces where their boxes are known, else from the set as a whole."""
    if channels != 3:
        return
    faces = [(look.path, face.red_over_blue) for look in looks for face in look.faces]
    blue = [path for path, red_over_blue in faces if red_over_blue < BLUE_SKIN]
    if faces:
        if len(blue) > MOST_BLUE_FACES_SHARE * len(faces):
            yield _exchanged(f"{len(blue)} of {len(faces)} faces are bluer than red ({names_text(blue)})")
        return
    colored = [look for look in looks if look.orange + look.azure > COLORED_SHARE]
    azure = [
        look.path for look in colored if look.azure > AZURE_OVER_ORANGE * look.orange and look.azure_height < SKY_HEIGHT
    ]
    if not has_cast and len(colored) >= LEAST_COLORED and len(azure) > MOST_AZURE_SHARE * len(colored):
        yield _exchanged(
            f"{len(azure)} of {len(colored)} coloured samples are blue where pictures are red to yellow, and not only "
            f"at their top ({names_text(azure)})"
        )


def _exchanged(message: str) -> Finding:
    return Finding(
        id="color-order",
        severity="warning",
        message=f"{message}: red and blue look exchanged",
        fix="Exchange the channels of the data, or declare the other --color; pictures that really are blue are fine.",
    )

"""Photos for a face net, from boxes.json or a detector: turned, small, washed-out or covered faces.

The limits are those of this project's issue on fidelity: frontal to side 3 : 1 or more, a face covers 15 to 40 % of the
picture, a standard deviation of 25 or more inside the box, 92 % or more of the landmarks visible.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Literal

from fts_calibration.audit.boxes_json import Face
from fts_calibration.audit.finding import Finding, finding_if_many
from fts_calibration.audit.look import FaceLook, Look

LEAST_FRONTAL_TO_SIDE = 3.0
FRONTAL_DEG = 30.0
LEAST_SHARE, MOST_SHARE = 0.15, 0.40
LEAST_STD = 25.0
LEAST_VISIBLE = 0.92
MOST_AFFECTED = 0.2  # of the pictures with a face
# How far the tip of the nose stands before the plane of the eyes, over the distance of the eyes: about 28 mm of 63 mm.
NOSE_DEPTH = 0.44


FaceSource = Literal["boxes.json", "detector", "not known"]


def check_faces(looks: Sequence[Look], source: FaceSource) -> Iterator[Finding]:
    """Findings faces-turned, faces-size, faces-contrast, faces-covered; a note on what is not known.

    The largest face of a picture counts.
    """
    if source == "not known":
        yield Finding(
            id="faces-not-checked",
            severity="note",
            message="whether faces are turned, small, washed-out or covered was not checked: their boxes are not known",
            fix="Give --faces boxes.json, or --faces detect with the extra `faces`, when the net is for faces.",
        )
        return
    largest = [(look.path, max(look.faces, key=lambda f: f.share)) for look in looks if look.faces]
    if not largest:
        yield _no_face(source)
        return
    yield from _turned([face for _, face in largest])
    size = [path for path, face in largest if not LEAST_SHARE <= face.share <= MOST_SHARE]
    what = f"have a face that covers less than {LEAST_SHARE:.0%} or more than {MOST_SHARE:.0%} of the picture"
    fix = "Cut the pictures to the faces as the app will."
    yield from finding_if_many("faces-size", size, len(largest), most_share=MOST_AFFECTED, what=what, fix=fix)
    yield from _washed_out([face for _, face in largest])
    yield from _covered([face for _, face in largest])
    if source == "detector":
        yield Finding(
            id="faces-covered-not-checked",
            severity="note",
            message=(
                f"faces were found in {len(largest)} of {len(looks)} samples by the extra `faces`, which does not say what "
                "covers them"
            ),
            fix="Give --faces boxes.json with landmarks.",
        )


def _no_face(source: FaceSource) -> Finding:
    if source == "boxes.json":
        message, fix = (
            "boxes.json names no face in any file of the set",
            "Its keys have to be the files' names, as the report shows them.",
        )
    else:
        message, fix = (
            "no face was found in any file of the set",
            "Give pictures of faces, or leave --faces detect out.",
        )
    return Finding(id="faces-not-checked", severity="warning", message=message, fix=fix)


def yaw_deg(face: Face) -> float | None:
    """As declared, else from the landmarks: tan(yaw) = (nose - middle of the eyes) / (depth of the nose), in x."""
    if face.yaw_deg is not None:
        return face.yaw_deg
    if not face.landmarks_xy:
        return None
    (left, _), (right, _), (nose, _), *_ = face.landmarks_xy
    eyes = abs(right - left)
    return math.degrees(math.atan2(abs(nose - (left + right) / 2), NOSE_DEPTH * eyes))


def _turned(faces: Sequence[FaceLook]) -> Iterator[Finding]:
    yaws = [yaw for face in faces if (yaw := yaw_deg(face.face)) is not None]
    side = sum(abs(yaw) > FRONTAL_DEG for yaw in yaws)
    frontal = len(yaws) - side
    if side and frontal < LEAST_FRONTAL_TO_SIDE * side:
        yield Finding(
            id="faces-turned",
            severity="warning",
            message=(
                f"{frontal} faces are frontal and {side} turned by more than {FRONTAL_DEG:g} degrees, "
                f"{LEAST_FRONTAL_TO_SIDE:g} : 1 is the least"
            ),
            fix="Add frontal faces, or take turned ones out.",
        )


def _washed_out(faces: Sequence[FaceLook]) -> Iterator[Finding]:
    """By the median: single faces with little contrast are part of any set, dark skin in soft light among them."""
    median = statistics.median(face.std for face in faces)
    if median < LEAST_STD:
        yield Finding(
            id="faces-contrast",
            severity="warning",
            message=(
                f"half of the faces have a standard deviation below {median:.0f} of 255 inside their box, "
                f"{LEAST_STD:g} is the least"
            ),
            fix="Add faces that are in focus and well lit.",
        )


def _covered(faces: Sequence[FaceLook]) -> Iterator[Finding]:
    visible = [v for face in faces for v in face.face.visible]
    if visible and sum(visible) < LEAST_VISIBLE * len(visible):
        yield Finding(
            id="faces-covered",
            severity="warning",
            message=f"{sum(visible) / len(visible):.0%} of the landmarks can be seen, {LEAST_VISIBLE:.0%} is the least",
            fix="Add faces without masks, hands and hair over them.",
        )

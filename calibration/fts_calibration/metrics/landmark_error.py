"""Normalised mean error of landmarks, a share of the face's size: 0 equal, 0.02 two hundredths of it.

    NME = 1/N Σ ‖p_i − q_i‖₂ / d

p are the landmarks of FP32, q those to judge. d is the distance between the centres of the eyes where the card says which
points are eyes, else the diagonal of the box around p. Where the eyes coincide (a face from the side) the diagonal stands
in; where all of p are one point, equal landmarks give 0 and others the ceiling. Several faces: their mean.

Source: Cristinacce & Cootes 2006, "Feature detection and tracking with constrained local models", BMVC, section 4 (m_e).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fts_calibration.metrics.output_meaning import OutputMeaning

# A thousand faces away: nothing is left, and the number stays finite.
CEILING = 1e3
Points = npt.NDArray[np.float64]


def landmark_error(reference: npt.NDArray[np.generic], test: npt.NDArray[np.generic], meaning: OutputMeaning) -> float:
    """NME of one sample.

    Args:
        reference: FP32 landmarks, one face an entry of the first axis; an array of one axis is one face.
        test: Landmarks to judge, same shape and unit.
        meaning: Order of the coordinates, and the eyes.

    Returns:
        At most CEILING, which also stands for landmarks that are not finite.
    """
    p, q = _points(reference, meaning), _points(test, meaning)
    if not np.isfinite(q).all():
        return CEILING
    if not p.size:
        return 0.0
    distances = np.linalg.norm(p - q, axis=2).mean(axis=1)
    faces = [_ratio(float(e), _size(face, meaning)) for e, face in zip(distances, p, strict=True)]
    return min(float(np.mean(faces)), CEILING)


def why_no_landmarks(shape: tuple[int | None, ...], meaning: OutputMeaning) -> str:
    """Why an output of this shape holds no landmarks, "" when it may; None is a size that is not known."""
    numbers = _numbers_of_a_point(meaning)
    row = shape if len(shape) == 1 else shape[1:]
    if not shape or any(s is None for s in row):
        return "" if shape else "it is one number, expected the coordinates of points"
    count = 1
    for size in row:
        count *= size or 0
    if count % numbers or count < 2 * numbers:
        return (
            f"{count} numbers a face are not two or more points of {numbers} each; the card's landmarks says how "
            "coordinates lie"
        )
    points = count // numbers
    outside = sorted({i for eye in meaning.eyes or () for i in eye if i >= points})
    return f"the card's eyes name point {outside[0]} of {points} (counted from 0)" if outside else ""


def _numbers_of_a_point(meaning: OutputMeaning) -> int:
    return 3 if meaning.landmarks == "xyz" else 2


def _points(values: npt.NDArray[np.generic], meaning: OutputMeaning) -> Points:
    """(faces, points, 2)."""
    faces = 1 if values.ndim < 2 else values.shape[0]
    rows = values.astype(np.float64).reshape(faces, -1 if values.size else 0)
    if meaning.landmarks == "planar":
        return np.moveaxis(rows.reshape(faces, 2, rows.shape[1] // 2), 1, 2)
    numbers = _numbers_of_a_point(meaning)
    return rows.reshape(faces, rows.shape[1] // numbers, numbers)[:, :, :2]


def _size(face: npt.NDArray[np.float64], meaning: OutputMeaning) -> float:
    if meaning.eyes is not None:
        left, right = (face[list(eye)].mean(axis=0) for eye in meaning.eyes)
        if between := float(np.linalg.norm(left - right)):
            return between
    return float(np.linalg.norm(face.max(axis=0) - face.min(axis=0)))


def _ratio(error: float, size: float) -> float:
    if error == 0.0:
        return 0.0
    return min(error / size, CEILING) if size else CEILING

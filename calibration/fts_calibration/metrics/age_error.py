"""Absolute error of an age, in the unit of the ages (years).

    error = |E(test) − E(reference)|,  E(p) = Σ p_i age_i

for an output of probabilities over classes of age (Rothe et al.), E(y) = y for an output of one number. Sums are taken of
the probabilities as they come, without dividing by their sum, because that is what an app computes. Several rows: the mean.

Source: Rothe, Timofte & Van Gool 2018, "Deep expectation of real and apparent age from a single image", IJCV 126, eq. (2).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fts.errors import UsageError
from fts_calibration.metrics.output_meaning import OutputMeaning

# Older than anybody: nothing is left, and the number stays finite.
CEILING_YEARS = 1e3
# How far FP32's own probabilities may be from a sum of 1.
SUM_TOLERANCE = 0.01


def age_error(reference: npt.NDArray[np.generic], test: npt.NDArray[np.generic], meaning: OutputMeaning) -> float:
    """Mean absolute error over the rows of one sample, in years.

    Args:
        reference: FP32 output: probabilities along the class axis (the last one unless declared), or one number a row.
        test: Output to judge, same shape.
        meaning: Ages of the classes, and their axis.

    Returns:
        At most CEILING_YEARS, which also stands for an output that is not finite.

    Raises:
        UsageError: FP32's output is neither one number nor probabilities.
    """
    if not np.isfinite(test.astype(np.float64)).all():
        return CEILING_YEARS
    expected, found = (_ages(a, meaning, is_checked=a is reference) for a in (reference, test))
    return min(float(np.mean(np.abs(found - expected))), CEILING_YEARS) if expected.size else 0.0


def why_no_age(shape: tuple[int | None, ...], meaning: OutputMeaning) -> str:
    """Why an output of this shape holds no ages, "" when it may; None is a size that is not known."""
    axis = -1 if meaning.axis is None else meaning.axis
    if not shape:
        return "" if meaning.axis is None else f"it has no axis {meaning.axis}: it is one number"
    if not -len(shape) <= axis < len(shape):
        return f"it has no axis {axis}"
    classes = shape[axis]
    if meaning.ages and classes is not None and classes != len(meaning.ages):
        return f"the card names {len(meaning.ages)} ages, but axis {axis} has {classes} classes"
    return ""


def _ages(values: npt.NDArray[np.generic], meaning: OutputMeaning, *, is_checked: bool) -> npt.NDArray[np.float64]:
    real = values.astype(np.float64)
    axis = -1 if meaning.axis is None else meaning.axis
    if real.ndim == 0 or (real.shape[axis] == 1 and not meaning.ages):
        return real.reshape(-1)
    rows = np.moveaxis(real, axis, -1).reshape(-1, real.shape[axis])
    if is_checked and rows.size and (rows.min() < -SUM_TOLERANCE or np.abs(rows.sum(axis=1) - 1).max() > SUM_TOLERANCE):
        raise UsageError(
            f"metric age: the FP32 output sums to {rows.sum(axis=1)[0]:.4g} over {rows.shape[1]} classes (least value "
            f"{rows.min():.4g}), expected probabilities. Export the net with its softmax, or judge it by sqnr"
        )
    ages = np.array(meaning.ages or range(rows.shape[1]), np.float64)
    return rows @ ages

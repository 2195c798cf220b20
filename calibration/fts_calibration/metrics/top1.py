"""Top-1 agreement: the share of places where the largest class is the one of FP32, 0..1.

    top1 = 1/P Σ [argmax_c test = argmax_c reference]

P is 1 for a classifier and the number of positions for a dense output. Of equal values the first class counts. It is a rate,
so its samples are averaged by nature. Agreement, not accuracy: FP32 is the reference, no label is known.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fts_calibration.metrics.output_meaning import OutputMeaning


def top1_agreement(reference: npt.NDArray[np.generic], test: npt.NDArray[np.generic], meaning: OutputMeaning) -> float:
    """Agreement of one sample, 0 when the test is not finite, 1 for outputs without elements.

    Args:
        reference: FP32 output, classes along the declared axis or else the last one.
        test: Output to judge, same shape.
        meaning: Axis of the classes.
    """
    if not np.isfinite(test.astype(np.float64)).all():
        return 0.0
    if not reference.size:
        return 1.0
    axis = -1 if meaning.axis is None else meaning.axis
    return float(np.mean(reference.argmax(axis=axis) == test.argmax(axis=axis)))


def why_no_classes(shape: tuple[int | None, ...], meaning: OutputMeaning) -> str:
    """Why an output of this shape holds no classes, "" when it may; None is a size that is not known."""
    if not shape:
        return "it is one number, expected classes along an axis"
    if meaning.axis is None and len(shape) > 3:
        return "which axis holds the classes cannot be told; say axis = 1, or another one, on the card"
    axis = -1 if meaning.axis is None else meaning.axis
    if not -len(shape) <= axis < len(shape):
        return f"it has no axis {axis}"
    if shape[axis] is not None and (shape[axis] or 0) < 2:
        return f"axis {axis} has {shape[axis]} class, expected two or more; the card's axis says where they lie"
    return ""

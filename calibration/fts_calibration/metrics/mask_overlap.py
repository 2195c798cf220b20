"""Intersection over union of the masks of a segmentation, mean over classes, 0..1.

    IoU = 1/|C| Σ_{c in C} |A_c ∩ B_c| / |A_c ∪ B_c|

Several channels: the mask of a class is where its channel is the largest, and C are the classes present in either output. One
channel: the mask is where the value reaches the threshold (0.5, or what the card declares; 0 for logits), and the background
is no class. Where no class is present in either, the outputs agree: 1.

Source: Everingham et al. 2015, "The PASCAL Visual Object Classes Challenge: A Retrospective", IJCV 111, section 4.4.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fts_calibration.metrics.output_meaning import OutputMeaning


def mask_overlap(reference: npt.NDArray[np.generic], test: npt.NDArray[np.generic], meaning: OutputMeaning) -> float:
    """Mean IoU of one sample, 0 when the test is not finite.

    Args:
        reference: FP32 output: (N, C, H, W), or classes along the declared axis; without an axis of classes, (…, H, W).
        test: Output to judge, same shape.
        meaning: Axis of the classes, threshold of a single channel.
    """
    if not np.isfinite(test.astype(np.float64)).all():
        return 0.0
    x, y = reference.astype(np.float64), test.astype(np.float64)
    axis = _axis(x.shape, meaning)
    classes = 1 if axis is None else x.shape[axis]
    if classes == 1 or axis is None:
        found = [_overlap(x >= meaning.threshold, y >= meaning.threshold)]
    else:
        a, b = x.argmax(axis=axis), y.argmax(axis=axis)
        found = [_overlap(a == c, b == c) for c in range(classes)]
    present = [share for share in found if share is not None]
    return float(np.mean(present)) if present else 1.0


def why_no_masks(shape: tuple[int | None, ...], meaning: OutputMeaning) -> str:
    """Why an output of this shape holds no masks, "" when it may; None is a size that is not known."""
    if len(shape) < 2:
        return f"it has {len(shape)} axes, expected a mask's height and width at least"
    if meaning.axis is not None:
        return "" if -len(shape) <= meaning.axis < len(shape) else f"it has no axis {meaning.axis}"
    if len(shape) == 4:
        channels, last = shape[1], shape[3]
        if channels is not None and last is not None and last < channels:
            return "which axis holds the classes cannot be told; say axis = 1, or axis = 3, on the card"
    if len(shape) < 4 and any(size == 1 for size in shape[-2:]):
        return "a mask of one row or column is none; if that axis holds a class, say so by axis on the card"
    if len(shape) > 4:
        return "which axis holds the classes cannot be told; say axis = 1, or another one, on the card"
    return ""


def _axis(shape: tuple[int, ...], meaning: OutputMeaning) -> int | None:
    if meaning.axis is not None:
        return meaning.axis
    return 1 if len(shape) == 4 else None


def _overlap(a: npt.NDArray[np.bool_], b: npt.NDArray[np.bool_]) -> float | None:
    union = int(np.count_nonzero(a | b))
    return int(np.count_nonzero(a & b)) / union if union else None

"""Structural similarity, mean over the picture and its channels, −1..1.

    SSIM = (2 μx μy + C1)(2 σxy + C2) / ((μx² + μy² + C1)(σx² + σy² + C2)),  C1 = (0.01 L)², C2 = (0.03 L)²

Source: Wang et al. 2004, IEEE TIP 13(4), eq. (13); Gaussian window 11×11, σ 1.5.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fts.imaging.opencv import cv2

WINDOW_PX, SIGMA_PX = 11, 1.5


def ssim(reference: npt.NDArray[np.generic], test: npt.NDArray[np.generic], peak: float) -> float:
    """Mean SSIM of one sample.

    Args:
        reference: FP32 output whose last two axes (or the two before a last axis of 1 or 3) are height and width.
        test: Output to judge, same shape.
        peak: L, the range of the reference over the split.
    """
    x, y = (_planes(a.astype(np.float64)) for a in (reference, test))
    if not np.isfinite(y).all():
        return -1.0
    c1, c2 = (0.01 * (peak or 1.0)) ** 2, (0.03 * (peak or 1.0)) ** 2
    return float(np.mean([_ssim_plane(a, b, c1, c2) for a, b in zip(x, y, strict=True)]))


def _planes(a: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    if a.ndim < 2:
        return a.reshape(1, 1, -1)
    if a.ndim == 4 and a.shape[-1] in (1, 3) and a.shape[1] not in (1, 3):
        a = np.moveaxis(a, -1, 1)
    return a.reshape(-1, *a.shape[-2:])


def _ssim_plane(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], c1: float, c2: float) -> float:
    def blur(a: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(cv2.GaussianBlur(a, (WINDOW_PX, WINDOW_PX), SIGMA_PX), dtype=np.float64)

    mx, my = blur(x), blur(y)
    vx, vy, vxy = blur(x * x) - mx * mx, blur(y * y) - my * my, blur(x * y) - mx * my
    return float(np.mean((2 * mx * my + c1) * (2 * vxy + c2) / ((mx * mx + my * my + c1) * (vx + vy + c2))))

"""Peak signal-to-noise ratio: 20 log10(peak / rms(test - reference)), in dB."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

# Identical outputs have no finite ratio; 120 dB is what float32 rounding alone leaves at least.
CEILING_DB = 120.0


def psnr_db(reference: npt.NDArray[np.generic], test: npt.NDArray[np.generic], peak: float) -> float:
    """PSNR of one sample.

    Args:
        reference: FP32 output, any shape.
        test: Output to judge, same shape.
        peak: Range of the reference over the whole split in the output's own unit, 255 for uint8.

    Returns:
        dB, at most CEILING_DB; -CEILING_DB when the test output is not finite.
    """
    difference = test.astype(np.float64) - reference.astype(np.float64)
    if not np.isfinite(difference).all():
        return -CEILING_DB
    rms = math.sqrt(float(np.mean(difference**2))) if difference.size else 0.0
    if rms == 0.0:
        return CEILING_DB
    return float(np.clip(20.0 * math.log10((peak or 1.0) / rms), -CEILING_DB, CEILING_DB))

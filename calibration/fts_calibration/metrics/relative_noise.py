"""Power of the error over power of the signal, Σ (test − reference)² / Σ reference²: what a coarse metric cannot tell.

A layer alone in INT8 rarely changes the largest class or a mask, so a rate says 0 of each layer and still misses its budget
with all of them. The noise of each is small, differs, and adds up over layers that are independent of one another.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# Of an output that is not finite, or of noise on a signal of nothing.
CEILING = 1e12


def relative_noise(reference: npt.NDArray[np.generic], test: npt.NDArray[np.generic]) -> float:
    """Noise of one sample, 0 for equal outputs, at most CEILING.

    Args:
        reference: FP32 output, any shape.
        test: Output to judge; another shape has nothing in common with it.
    """
    if reference.shape != test.shape:
        return CEILING
    a, b = reference.astype(np.float64), test.astype(np.float64)
    noise, signal = float(np.sum((b - a) ** 2)), float(np.sum(a**2))
    if not np.isfinite(noise):
        return CEILING
    return min(noise / signal, CEILING) if signal else (CEILING if noise else 0.0)

"""Signal-to-quantization-noise ratio: 20 log10(rms(reference) / rms(test - reference)), in dB."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fts_calibration.metrics.psnr import psnr_db


def sqnr_db(reference: npt.NDArray[np.generic], test: npt.NDArray[np.generic], peak: float) -> float:
    """SQNR of one sample, clamped like PSNR; `peak` stands in when the reference is all zero.

    Source: Widrow & Kollár, Quantization Noise (2008), ch. 1.
    """
    signal = math.sqrt(float(np.mean(reference.astype(np.float64) ** 2))) if reference.size else 0.0
    return psnr_db(reference, test, signal or peak)

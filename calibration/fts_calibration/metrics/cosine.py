"""Cosine similarity of the flattened outputs, −1..1: the metric of embeddings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def cosine_similarity(reference: npt.NDArray[np.generic], test: npt.NDArray[np.generic], peak: float) -> float:
    """Cosine of the angle between the two outputs; 1 when both are zero, −1 when the test is not finite."""
    a, b = reference.astype(np.float64).ravel(), test.astype(np.float64).ravel()
    if not np.isfinite(b).all():
        return -1.0
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    if norms == 0.0:
        return 1.0 if not a.any() and not b.any() else 0.0
    return float(np.clip(a @ b / norms, -1.0, 1.0))

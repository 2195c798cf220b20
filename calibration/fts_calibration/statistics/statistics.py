"""What a pass over the calibration split says about each tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRange:
    """Exact bounds of a tensor over all samples, float32 values in the tensor's own unit."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Ranges by tensor name.

    Attributes:
        ranges: Exact minimum and maximum.
        samples: Number of samples seen.
    """

    ranges: Mapping[str, TensorRange]
    samples: int

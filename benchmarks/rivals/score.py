"""How far a quantized net's output is from the FP32 net's, crop by crop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fts_calibration.metrics.psnr import psnr_db

Array = npt.NDArray[np.generic]
# Nets whose output is a distribution over ages and which the bars judge in years.
JUDGED_IN_YEARS = frozenset({"age_81"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """One figure a crop.

    Attributes:
        db: PSNR, with the range of the FP32 output over the split as peak.
        years: Difference of the expected ages; empty where the output is not ages.
    """

    db: tuple[float, ...]
    years: tuple[float, ...] = ()

    @property
    def min_db(self) -> float:
        """Of the worst crop."""
        return min(self.db)

    @property
    def mean_db(self) -> float:
        """Over the crops."""
        return sum(self.db) / len(self.db)

    @property
    def mean_years(self) -> float | None:
        """Over the crops; None where the output is not ages."""
        return sum(self.years) / len(self.years) if self.years else None

    @property
    def merit(self) -> float:
        """What the bar is about, larger is better: minimum dB, or less of the mean years."""
        return self.min_db if self.mean_years is None else -self.mean_years

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {**asdict(self), "min_db": self.min_db, "mean_db": self.mean_db, "mean_years": self.mean_years}


def fidelity(references: Sequence[Array], tests: Sequence[Array], *, in_years: bool) -> Fidelity:
    """Compare.

    Args:
        references: FP32 outputs, one a crop.
        tests: Outputs to judge, in the same order and of the same shapes.
        in_years: The outputs are probabilities of ages 0, 1, 2 ... on the last axis.
    """
    peak = max(float(r.max()) for r in references) - min(float(r.min()) for r in references)
    pairs = list(zip(references, tests, strict=True))
    return Fidelity(
        db=tuple(psnr_db(r, t, peak) for r, t in pairs),
        years=tuple(abs(expected_age(r) - expected_age(t)) for r, t in pairs) if in_years else (),
    )


def expected_age(probabilities: Array) -> float:
    """sum(age * p) / sum(p), years; divided because rounded probabilities do not sum to 1."""
    p = probabilities.astype(np.float64).reshape(-1)
    return float(np.arange(p.size) @ p / max(float(p.sum()), 1e-12))

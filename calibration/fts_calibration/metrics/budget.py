"""Accuracy budgets: `psnr>=40`, `sqnr.mean>=25`, `none`; what they apply to and whether they hold.

Plain `psnr` means the minimum over samples when n < 20, else the lower 95 % bound of the mean; `.min` and `.mean` are
explicit. Several outputs: each has to hold, the worst decides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import Literal

import numpy as np
import numpy.typing as npt

from fts.errors import UsageError
from fts_calibration.metrics.cosine import cosine_similarity
from fts_calibration.metrics.psnr import CEILING_DB, psnr_db
from fts_calibration.metrics.sqnr import sqnr_db
from fts_calibration.metrics.ssim import ssim

Metric = Callable[[npt.NDArray[np.generic], npt.NDArray[np.generic], float], float]
Statistic = Literal["plain", "min", "mean"]

METRICS: Mapping[str, Metric] = {"psnr": psnr_db, "sqnr": sqnr_db, "ssim": ssim, "cosine": cosine_similarity}
# What a metric gives where nothing is left of the output.
WORST: Mapping[str, float] = {"psnr": -CEILING_DB, "sqnr": -CEILING_DB, "ssim": -1.0, "cosine": -1.0}
# Below this many samples a mean says little, so the worst sample counts (DESIGN: --budget).
ENOUGH_FOR_A_MEAN = 20
DEFAULT_IMAGE, DEFAULT_TENSOR = "psnr>=30", "sqnr>=20"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One condition on one output's metric.

    Attributes:
        metric: Key of METRICS.
        statistic: How the samples become one number.
        at_least: Threshold in the metric's unit (dB, or 1 for ssim and cosine).
    """

    metric: str
    statistic: Statistic
    at_least: float

    def figure(self, value: float) -> str:
        """A value of the metric for people: dB to 0.01, similarities to 0.0001, where 0.9996 and 1 differ a lot."""
        return f"{value:.2f}" if self.metric in ("psnr", "sqnr") else f"{value:.4f}"

    def __str__(self) -> str:
        suffix = "" if self.statistic == "plain" else f".{self.statistic}"
        short = f"{self.at_least:g}"
        return f"{self.metric}{suffix}>={short if float(short) == self.at_least else repr(self.at_least)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A metric of one output over the samples of a split, and the budget it is held against."""

    output: str
    budget: Budget
    values: tuple[float, ...]

    @property
    def value(self) -> float:
        """The number that the budget speaks of."""
        return statistic_of(self.values, self.budget.statistic)

    @property
    def margin(self) -> float:
        """value − threshold: not negative when the budget holds."""
        return self.value - self.budget.at_least


def parse_budget(text: str) -> Budget | None:
    """Read `--budget`; None for "none".

    Raises:
        UsageError: Unknown metric or form.
    """
    if text.strip() == "none":
        return None
    match = re.fullmatch(r"\s*([a-z_]+)(?:\.(min|mean))?\s*>=\s*([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)\s*", text)
    known = ", ".join(METRICS)
    if re.match(r"\s*drop\s*<=", text):
        raise UsageError(f"--budget {text!r}: task metrics (drop) are not in this version; use one of {known}")
    if match is None:
        raise UsageError(f"--budget {text!r}: expected METRIC>=NUMBER or none, such as 'psnr>=40'; metrics: {known}")
    name, statistic, number = match.groups()
    if name not in METRICS:
        raise UsageError(f"--budget {text!r}: unknown metric {name!r}; known: {known}")
    try:
        threshold = float(number)
    except ValueError as error:
        raise UsageError(f"--budget {text!r}: {number!r} is not a number") from error
    kind: Statistic = "min" if statistic == "min" else "mean" if statistic == "mean" else "plain"
    return Budget(metric=name, statistic=kind, at_least=threshold)


def default_budget(kind: str) -> Budget:
    """The budget of an output of kind "image" or "tensor" when none is given."""
    budget = parse_budget(DEFAULT_IMAGE if kind == "image" else DEFAULT_TENSOR)
    assert budget is not None
    return budget


def statistic_of(values: Sequence[float], statistic: Statistic) -> float:
    """One number for several samples, by the rule at the top of this file."""
    if statistic == "min" or (statistic == "plain" and len(values) < ENOUGH_FOR_A_MEAN):
        return min(values)
    if statistic == "mean":
        return fmean(values)
    return lower_bound_of_mean(values)


def lower_bound_of_mean(values: Sequence[float]) -> float:
    """One-sided 95 % lower confidence bound of the mean: mean − t(0.95, n−1) · s / √n."""
    return fmean(values) - student_t_95(len(values) - 1) * stdev(values) / math.sqrt(len(values))


def student_t_95(degrees: int) -> float:
    """0.95 quantile of Student's t for 19 or more degrees of freedom, within 1e-4.

    Source: Abramowitz & Stegun (1964), 26.7.5, first three terms.
    """
    z: float = NormalDist().inv_cdf(0.95)
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + sum(t / float(degrees) ** (i + 1) for i, t in enumerate(terms))


def worst(scores: Sequence[Score]) -> Score:
    """The score that decides: least margin, the first one of equals."""
    return min(scores, key=lambda s: s.margin)

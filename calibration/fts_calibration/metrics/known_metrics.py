"""Every metric that a budget may name: what it is computed by, which way is better, how it grows with the error.

Adding one is a file with its formula and an entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fts_calibration.metrics.age_error import CEILING_YEARS, age_error, why_no_age
from fts_calibration.metrics.cosine import cosine_similarity
from fts_calibration.metrics.landmark_error import CEILING, landmark_error, why_no_landmarks
from fts_calibration.metrics.mask_overlap import mask_overlap, why_no_masks
from fts_calibration.metrics.output_meaning import OutputMeaning
from fts_calibration.metrics.psnr import CEILING_DB, psnr_db
from fts_calibration.metrics.sqnr import sqnr_db
from fts_calibration.metrics.ssim import ssim
from fts_calibration.metrics.top1 import top1_agreement, why_no_classes

Array = npt.NDArray[np.generic]
Shape = tuple[int | None, ...]
# How the distance from `best` grows with the error of the output: as its power, or as its amplitude; decibels have no zero.
Growth = Literal["decibels", "power", "amplitude"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        measure: Value of one sample from (FP32 output, output to judge, range of the FP32 output over the split, meaning).
        best: Value of equal outputs.
        worst: Value where nothing is left of the output.
        usual: Threshold where the card names the metric and no budget.
        growth: See `Growth`.
        is_rate: Values are shares of 0..1 that are averaged by nature.
        is_coarse: A layer alone rarely moves it (`relative_noise`).
        why_not: Why it does not fit an output of a shape, "" when it may.
    """

    measure: Callable[[Array, Array, float, OutputMeaning], float]
    best: float
    worst: float
    usual: float
    growth: Growth
    is_rate: bool = False
    is_coarse: bool = False
    why_not: Callable[[Shape, OutputMeaning], str] = lambda shape, meaning: ""

    @property
    def is_less_better(self) -> bool:
        """True for errors, False for what grows with quality."""
        return self.best < self.worst


# The name in a budget of the function that `--metric` names.
USER = "metric"


def user_kind(best: float, *, is_less_better: bool) -> Metric:
    """How a user's function is treated: values grow with the amplitude of the error, and are not bounded."""

    def measure(reference: Array, test: Array, peak: float, meaning: OutputMeaning) -> float:
        raise TypeError("a metric of the user reads all outputs at once: call `UserMetric.value`, not `measure`")

    worst = float("inf") if is_less_better else -float("inf")
    return Metric(measure=measure, best=best, worst=worst, usual=best, growth="amplitude")


def _by_peak(function: Callable[[Array, Array, float], float]) -> Callable[[Array, Array, float, OutputMeaning], float]:
    return lambda reference, test, peak, meaning: function(reference, test, peak)


def _by_meaning(
    function: Callable[[Array, Array, OutputMeaning], float],
) -> Callable[[Array, Array, float, OutputMeaning], float]:
    return lambda reference, test, peak, meaning: function(reference, test, meaning)


# Metrics whose 1 is full agreement: a drop is what is missing to it.
AGREEMENTS: Mapping[str, Metric] = {
    "ssim": Metric(measure=_by_peak(ssim), best=1.0, worst=-1.0, usual=0.95, growth="power"),
    "cosine": Metric(measure=_by_peak(cosine_similarity), best=1.0, worst=-1.0, usual=0.99, growth="power"),
    "top1": Metric(
        measure=_by_meaning(top1_agreement),
        best=1.0,
        worst=0.0,
        usual=0.99,
        growth="amplitude",
        is_rate=True,
        is_coarse=True,
        why_not=why_no_classes,
    ),
    "iou": Metric(
        measure=_by_meaning(mask_overlap),
        best=1.0,
        worst=0.0,
        usual=0.95,
        growth="amplitude",
        is_coarse=True,
        why_not=why_no_masks,
    ),
}


def _drop(reference: Array, test: Array, peak: float, meaning: OutputMeaning) -> float:
    """1 − agreement: what the task metric loses when FP32 is taken as the truth, no label being known.

    For top1 it bounds the drop against labels: two accuracies differ by at most the share of the samples they disagree on.
    """
    return 1.0 - max(AGREEMENTS[meaning.metric].measure(reference, test, peak, meaning), 0.0)


def _why_no_drop(shape: Shape, meaning: OutputMeaning) -> str:
    agreement = AGREEMENTS.get(meaning.metric)
    if agreement is None:
        declared = f'the card\'s metric = "{meaning.metric}"' if meaning.metric else "no metric on the card"
        return f"a drop is one of {', '.join(AGREEMENTS)}, and there is {declared}"
    return agreement.why_not(shape, meaning)


METRICS: Mapping[str, Metric] = {
    "psnr": Metric(measure=_by_peak(psnr_db), best=CEILING_DB, worst=-CEILING_DB, usual=30.0, growth="decibels"),
    "sqnr": Metric(measure=_by_peak(sqnr_db), best=CEILING_DB, worst=-CEILING_DB, usual=20.0, growth="decibels"),
    **AGREEMENTS,
    "nme": Metric(
        measure=_by_meaning(landmark_error),
        best=0.0,
        worst=CEILING,
        usual=0.02,
        growth="amplitude",
        why_not=why_no_landmarks,
    ),
    "age": Metric(
        measure=_by_meaning(age_error),
        best=0.0,
        worst=CEILING_YEARS,
        usual=0.5,
        growth="amplitude",
        why_not=why_no_age,
    ),
    "drop": Metric(
        measure=_drop,
        best=0.0,
        worst=1.0,
        usual=0.005,
        growth="amplitude",
        is_rate=True,
        is_coarse=True,
        why_not=_why_no_drop,
    ),
}

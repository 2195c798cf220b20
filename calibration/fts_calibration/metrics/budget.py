"""Accuracy budgets: `psnr>=40`, `nme.mean<=0.02`, `heatmap:iou>=95%`, `none`; what they apply to and whether they hold.

Plain `psnr` means the worst sample when n < 20, else the 95 % bound of the mean on its bad side; `.min` (`.max` where less is
better) and `.mean` are explicit. Rates (`top1`, `drop`) are means by nature. Several outputs: each has to hold, the worst
decides. For that every distance is told in decibels of error, whatever the metric's unit (`Budget.margin_of`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Any, Literal

from fts.errors import UsageError
from fts_calibration.metrics.interval import mean_interval, rate_interval
from fts_calibration.metrics.known_metrics import METRICS, USER, Metric, user_kind
from fts_calibration.metrics.output_meaning import UNDECLARED, OutputMeaning, meaning_from_json
from fts_calibration.metrics.student_t import student_t
from fts_calibration.metrics.user_metric import UserMetric, user_metric_from_json

Statistic = Literal["plain", "min", "max", "mean"]
Relation = Literal[">=", "<="]

# Below this many samples a mean says little, so the worst sample counts (DESIGN: --budget).
ENOUGH_FOR_A_MEAN = 20
# In place of an output's name, for the user's metric.
ALL_OUTPUTS = "all outputs"
DEFAULT_IMAGE, DEFAULT_TENSOR = "psnr>=30", "sqnr>=20"
# Stands for no error at all, of the metric's unit: a logarithm of nothing is none.
LEAST_ERROR = 1e-9
# Least margin in decibels of a budget that does not hold: rounding must not turn a miss into a hit.
LEAST_MISS_DB = 1e-9
_EXAMPLE = "expected METRIC>=NUMBER, METRIC<=NUMBER or none, such as 'psnr>=40', 'nme<=0.02' or 'NAME:iou>=95%'"
_ITEM = re.compile(
    r"\s*(?:(?P<output>.+):)?\s*(?P<metric>[a-z_0-9]+)(?:\.(?P<statistic>min|max|mean))?\s*"
    r"(?P<relation>>=|<=)\s*(?P<number>[-+]?[0-9.]+(?:e[-+]?[0-9]+)?)\s*(?P<percent>%?)\s*",
    re.S,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One condition on one output's metric.

    Attributes:
        metric: Key of METRICS, or USER.
        statistic: How the samples become one number.
        threshold: What the metric has to reach, or may reach where less is better, in its unit.
        meaning: What the output's numbers mean.
        relation: Of the user's metric, the only one that does not say which way is better.
        user: The user's metric, or None.
        best: Its value for FP32 against itself, None while that is not known.
    """

    metric: str
    statistic: Statistic
    threshold: float
    meaning: OutputMeaning = UNDECLARED
    relation: Relation = ">="
    user: UserMetric | None = None
    best: float | None = None

    @property
    def kind(self) -> Metric:
        """How the metric behaves."""
        if self.metric != USER:
            return METRICS[self.metric]
        is_less_better = self.relation == "<="
        reach = abs(self.threshold) or 1.0
        unknown = self.threshold - reach if is_less_better else self.threshold + reach
        return user_kind(unknown if self.best is None else self.best, is_less_better=is_less_better)

    @property
    def is_less_better(self) -> bool:
        """True for errors."""
        return self.kind.is_less_better

    def holds(self, value: float) -> bool:
        """Whether a value of the metric satisfies the condition."""
        return value <= self.threshold if self.is_less_better else value >= self.threshold

    def margin_of(self, value: float) -> float:
        """By how many decibels the error may grow until the condition just holds; negative when it does not hold.

        For decibels that is value − threshold. Else it is 20 log10(allowed / found) of the distances from the best value, and
        10 log10 for metrics that grow with the power of the error: cosine and SSIM are 1 − O(power) for small errors, a mean
        distance, and a share of decisions that flip, grow with the amplitude.
        """
        if self.kind.growth == "decibels":
            margin = value - self.threshold
        else:
            found, allowed = abs(self.kind.best - value), max(self.allowed, 0.0)
            decade = 10.0 if self.kind.growth == "power" else 20.0
            margin = decade * math.log10((allowed + LEAST_ERROR) / (found + LEAST_ERROR))
        return max(margin, 0.0) if self.holds(value) else min(margin, -LEAST_MISS_DB)

    @property
    def allowed(self) -> float:
        """Distance of the threshold from the best value, in the metric's unit."""
        return self.threshold - self.kind.best if self.is_less_better else self.kind.best - self.threshold

    def is_of_the_worst_sample(self, samples: int) -> bool:
        """Whether one sample decides, and not a mean."""
        return self.statistic in ("min", "max") or (
            self.statistic == "plain" and not self.kind.is_rate and samples < ENOUGH_FOR_A_MEAN
        )

    def figure(self, value: float) -> str:
        """A value of the metric for people: dB to 0.01, others to 0.0001, where 0.9996 and 1 differ a lot."""
        if self.metric == "drop":
            return f"{value:.2%}"
        if self.metric == USER:
            return f"{value:.6g}"
        return f"{value:.2f}" if self.kind.growth == "decibels" else f"{value:.4f}"

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "metric": self.metric,
            "statistic": self.statistic,
            "threshold": self.threshold,
            "meaning": self.meaning.to_json(),
            "relation": self.relation,
            "user": None if self.user is None else self.user.to_json(),
            "best": self.best,
        }

    def measured_by(self) -> dict[str, Any]:
        """A JSON object of all that values of samples depend on, beside the outputs."""
        user = None if self.user is None else self.user.to_json()
        return {"metric": self.metric, "meaning": self.meaning.to_json(), "user": user}

    def __str__(self) -> str:
        suffix = "" if self.statistic == "plain" else f".{self.statistic}"
        return f"{self.metric}{suffix}{'<=' if self.is_less_better else '>='}{self._number()}"

    def _number(self) -> str:
        """The shortest text that reads back as the same threshold; drops are told in percent."""
        percent, short = f"{self.threshold * 100:g}", f"{self.threshold:g}"
        if self.metric == "drop" and float(percent) / 100.0 == self.threshold:
            return f"{percent}%"
        return short if float(short) == self.threshold else repr(self.threshold)


def budget_from_json(data: Mapping[str, Any]) -> Budget:
    """The inverse of `Budget.to_json`."""
    return Budget(
        metric=data["metric"],
        statistic=data["statistic"],
        threshold=data["threshold"],
        meaning=meaning_from_json(data["meaning"]),
        relation=data["relation"],
        user=None if data["user"] is None else user_metric_from_json(data["user"]),
        best=data["best"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A metric of one output over the samples of a split, and the budget it is held against.

    Attributes:
        output: Its name.
        budget: The condition.
        values: The metric, sample by sample.
        noise: `relative_noise`, sample by sample; empty where it was not measured.
    """

    output: str
    budget: Budget
    values: tuple[float, ...]
    noise: tuple[float, ...] = ()

    @property
    def value(self) -> float:
        """The number that the budget speaks of."""
        return statistic_of(self.values, self.budget)

    @property
    def margin(self) -> float:
        """`Budget.margin_of` the value, in decibels of error: not negative when the budget holds."""
        return self.budget.margin_of(self.value)

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the mean within what the metric can be; None where the samples are too few to tell."""
        kind = self.budget.kind
        found = rate_interval(self.values) if kind.is_rate else mean_interval(self.values)
        if found is None or math.isinf(kind.worst):
            return found
        least, most = sorted((kind.best, kind.worst))
        return min(max(found[0], least), most), min(max(found[1], least), most)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedBudgets:
    """What `--budget` says.

    Attributes:
        text: As typed, "" when it was not given.
        every: For each output that is not named; None when nothing is said of them.
        named: Output name to its budget, None for "not judged".
        whole: For all outputs together by the user's metric, or None.
        is_none: `--budget none`: nothing is judged.
    """

    text: str = ""
    every: Budget | None = None
    named: Mapping[str, Budget | None] = field(default_factory=dict)
    whole: Budget | None = None
    is_none: bool = False


def parse_budgets(texts: Sequence[str], user: UserMetric | None = None) -> AskedBudgets:
    """Read `--budget`, which may be repeated and may hold several conditions joined by commas.

    Args:
        texts: As typed.
        user: The user's metric, which `metric>=…` or `metric<=…` speaks of, or None.

    Raises:
        UsageError: Unknown metric or form, two conditions for the same output, a user's metric without condition.
    """
    every: Budget | None = None
    whole: Budget | None = None
    is_none = False
    named: dict[str, Budget | None] = {}
    items = [item for text in texts for item in _items(text)]
    for item in items:
        output, budget = _parse_item(item)
        if budget is not None and budget.metric == USER:
            whole = _of_user(item, output, budget, user, whole)
        elif output is not None:
            if output in named:
                raise UsageError(
                    f"--budget {item!r}: output {output!r} is given twice, expected one condition for each"
                )
            named[output] = budget
        elif every is not None or is_none:
            raise UsageError(
                f"--budget {item!r}: a second condition for every output; name the output it is for, as NAME:{item.strip()}"
            )
        else:
            every, is_none = budget, budget is None
    if user is not None and whole is None:
        raise UsageError(
            f"--metric {user.reference}: expected a condition for it, as --budget 'metric>=0.9' or 'metric<=0.1'"
        )
    if is_none and (named or whole is not None):
        raise UsageError(
            "--budget none: nothing is judged then, expected no condition beside it. To leave an output out: NAME:none"
        )
    return AskedBudgets(text=",".join(texts), every=every, named=named, whole=whole, is_none=is_none)


def parse_budget(text: str) -> Budget | None:
    """Read one condition without an output's name; None for "none".

    Raises:
        UsageError: Unknown metric or form.
    """
    output, budget = _parse_item(text)
    if output is not None:
        raise UsageError(f"budget {text!r}: names output {output!r}, expected METRIC>=NUMBER or METRIC<=NUMBER alone")
    return budget


def _items(text: str) -> list[str]:
    """Parts between commas; a comma inside an output's name does not end a part."""
    found: list[str] = []
    begun = ""
    for piece in text.split(","):
        begun = f"{begun},{piece}" if begun else piece
        if _ITEM.fullmatch(begun) or begun.strip().rpartition(":")[2].strip() == "none":
            found.append(begun)
            begun = ""
    return [*found, begun] if begun or not found else found


def _parse_item(text: str) -> tuple[str | None, Budget | None]:
    """(output or None, budget or None for none)."""
    name, colon, last = text.strip().rpartition(":")
    if last.strip() == "none":
        return (name.strip() if colon else None), None
    match = _ITEM.fullmatch(text)
    known = ", ".join(METRICS)
    if match is None:
        raise UsageError(f"--budget {text!r}: {_EXAMPLE}; metrics: {known}")
    output = None if match["output"] is None else match["output"].strip()
    kind = METRICS.get(match["metric"])
    if match["metric"] == USER:
        return output, _parse_user(match, text)
    if kind is None:
        raise UsageError(f"--budget {text!r}: unknown metric {match['metric']!r}; known: {known}")
    relation = "<=" if kind.is_less_better else ">="
    if match["relation"] != relation:
        better = "less" if kind.is_less_better else "more"
        raise UsageError(
            f"--budget {text!r}: of {match['metric']} {better} is better, expected {match['metric']}{relation}…"
        )
    return output, Budget(
        metric=match["metric"], statistic=_statistic(match, kind, text), threshold=_threshold(match, kind, text)
    )


def _parse_user(match: re.Match[str], text: str) -> Budget:
    """A condition on the user's metric; how good a value can be is not known yet."""
    relation: Relation = "<=" if match["relation"] == "<=" else ">="
    is_less_better = relation == "<="
    kind = user_kind(-math.inf if is_less_better else math.inf, is_less_better=is_less_better)
    statistic = _statistic(match, kind, text)
    return Budget(metric=USER, statistic=statistic, threshold=_threshold(match, kind, text), relation=relation)


def _of_user(item: str, output: str | None, budget: Budget, user: UserMetric | None, before: Budget | None) -> Budget:
    if user is None:
        raise UsageError(
            f"--budget {item!r}: metric is the function of --metric package.module:function, which is not given"
        )
    if output is not None:
        raise UsageError(f"--budget {item!r}: {user.reference} sees all outputs at once, expected no name: {budget}")
    if before is not None:
        raise UsageError(f"--budget {item!r}: metric is given twice, expected one condition")
    return replace(budget, user=user)


def _statistic(match: re.Match[str], kind: Metric, text: str) -> Statistic:
    found = match["statistic"]
    if found is None:
        return "plain"
    if found == "mean":
        return "mean"
    worst: Statistic = "max" if kind.is_less_better else "min"
    if found != worst:
        raise UsageError(
            f"--budget {text!r}: .{found} is the best sample of {match['metric']}, expected .{worst} or .mean"
        )
    return worst


def _threshold(match: re.Match[str], kind: Metric, text: str) -> float:
    try:
        number = float(match["number"])
    except ValueError as error:
        raise UsageError(f"--budget {text!r}: {match['number']!r} is not a number") from error
    if match["percent"]:
        if kind.growth == "decibels":
            raise UsageError(f"--budget {text!r}: {match['metric']} is in decibels, expected a number without %")
        number /= 100.0
    if kind.growth != "decibels" and (number < kind.best if kind.is_less_better else number > kind.best):
        raise UsageError(
            f"--budget {text!r}: {match['metric']} of equal outputs is {kind.best:g}, so nothing can be better; shares are "
            "numbers up to 1, or written with %"
        )
    return number


def default_budget(kind: str) -> Budget:
    """The budget of an output of kind "image" or "tensor" when none is given."""
    budget = parse_budget(DEFAULT_IMAGE if kind == "image" else DEFAULT_TENSOR)
    assert budget is not None
    return budget


def usual_budget(metric: str) -> Budget:
    """The budget of an output whose metric alone is declared."""
    return Budget(metric=metric, statistic="plain", threshold=METRICS[metric].usual)


def statistic_of(values: Sequence[float], budget: Budget) -> float:
    """One number for several samples, by the rule at the top of this file."""
    if budget.is_of_the_worst_sample(len(values)):
        return max(values) if budget.is_less_better else min(values)
    if budget.statistic == "mean" or budget.kind.is_rate:
        return fmean(values)
    return bound_of_mean(values, is_upper=budget.is_less_better)


def bound_of_mean(values: Sequence[float], *, is_upper: bool) -> float:
    """One-sided 95 % confidence bound of the mean: mean ± t(0.95, n−1) · s / √n."""
    half = student_t(0.95, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return fmean(values) + half if is_upper else fmean(values) - half


def worst(scores: Sequence[Score]) -> Score:
    """The score that decides: least margin, the first one of equals."""
    return min(scores, key=lambda s: s.margin)

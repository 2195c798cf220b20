"""The recovery ladder: each rung starts from the best so far and is kept only where the select split gains.

bias -> rounding -> blocks (training, extra `torch`). Rungs fit to the calibrate split alone, so that what is kept was
judged on photos it has not seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fts.errors import MissingDependencyError, UnsupportedOpError
from fts_calibration.metrics.budget import Score, worst
from fts_calibration.recovery.weight_update import WeightUpdate
from fts_converters.quantize.trials import Trials
from fts_converters.recover.bias_correction import corrected_biases
from fts_converters.recover.blocks import trained_blocks
from fts_converters.recover.planned_net import PlannedNet
from fts_converters.recover.rounding import fitted_roundings

RecoverLevel = Literal["none", "bias", "rounding", "blocks"]
RUNGS: tuple[RecoverLevel, ...] = ("bias", "rounding", "blocks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One rung as it was tried.

    Attributes:
        name: bias, rounding or blocks.
        seconds: What it took, its trial included.
        before: Score of the worst output on the select split without it.
        after: And with it.
        is_kept: `after` is better.
        skipped: (unit, reason) of units that it could not do.
    """

    name: str
    seconds: float
    before: Score
    after: Score
    is_kept: bool
    skipped: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recovery:
    """What is kept of all rungs, and what each one gave."""

    update: WeightUpdate
    rungs: tuple[Rung, ...]


def recover(
    net: PlannedNet,
    trials: Trials,
    *,
    highest: RecoverLevel,
    start: WeightUpdate = WeightUpdate.NONE,
    minutes: float = 5.0,
    on_step: Callable[[str], None],
    on_warning: Callable[[str, str], None] = lambda warning_id, text: None,
) -> Recovery:
    """Climb.

    Args:
        net: What is quantized how.
        trials: Scores of the select split.
        highest: Last rung to try.
        start: An update that holds already.
        minutes: Limit of the training rung.
        on_step: Told what each rung gives.
        on_warning: Told (id, text) of a rung that cannot be tried here.
    """
    allowed = () if highest == "none" else RUNGS[: RUNGS.index(highest) + 1]
    best = start
    rungs: list[Rung] = []
    score = worst(trials.scores(net.plan, update=best)) if allowed else None
    for name in allowed:
        assert score is not None
        begin = time.monotonic()
        try:
            candidate, skipped = _climbed(name, net, best, minutes)
        except (MissingDependencyError, UnsupportedOpError) as error:  # training: no torch, or an operator it lacks
            on_warning("recovery-not-trained", str(error))
            continue
        after = worst(trials.scores(net.plan, update=candidate))
        rung = Rung(
            name=name,
            seconds=time.monotonic() - begin,
            before=score,
            after=after,
            is_kept=after.margin > score.margin,
            skipped=skipped,
        )
        on_step(told(rung))
        rungs.append(rung)
        if rung.is_kept:
            best, score = candidate, after
    return Recovery(update=best, rungs=tuple(rungs))


def told(rung: Rung) -> str:
    """A line about a rung."""
    figure = rung.before.budget.figure
    verdict = "kept" if rung.is_kept else "not kept"
    skipped = f", {len(rung.skipped)} units cannot" if rung.skipped else ""
    return (
        f"recovery by {rung.name}: {rung.before.budget.metric} {figure(rung.before.value)} -> {figure(rung.after.value)}, "
        f"{verdict}, {rung.seconds:.0f} s{skipped}"
    )


def _climbed(
    name: RecoverLevel, net: PlannedNet, best: WeightUpdate, minutes: float
) -> tuple[WeightUpdate, tuple[tuple[str, str], ...]]:
    """The update of a rung, and the units that it could not do."""
    if name == "bias":
        return corrected_biases(net, best), ()
    if name == "rounding":
        skipped: list[tuple[str, str]] = []
        update = fitted_roundings(net, best, lambda unit, reason: skipped.append((unit, reason)))
        return update, tuple(skipped)
    return trained_blocks(net, best, minutes=minutes), ()

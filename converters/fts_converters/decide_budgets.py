"""Which output is held against which budget: what `--budget` says of it, else the card, else the default of its kind.

A condition without a name on the command line speaks of every output and goes before the card, as all flags do. Beside a
metric of the user's own, which sees all outputs, defaults are not held.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fts.engines.onnxruntime_session import open_session
from fts.errors import CardError, UsageError
from fts.vocabulary.manifest import OutputEntry
from fts.vocabulary.tensor_spec import TensorSpec
from fts_calibration.metrics.budget import ALL_OUTPUTS, AskedBudgets, Budget, default_budget, usual_budget
from fts_converters.card import Card
from fts_converters.light_proto import LightProto

Feed = Mapping[str, npt.NDArray[np.generic]]


def refuse_misfits(asked: AskedBudgets, card: Card, specs: Sequence[TensorSpec]) -> None:
    """Refuse what cannot be judged, before anything is measured.

    Args:
        asked: `--budget`.
        card: Model card.
        specs: Outputs of the net.

    Raises:
        UsageError: An output that the net has not, a metric that does not fit an output's shape, or nothing left to judge.
        CardError: Likewise, where the card says so.
    """
    names = [s.name for s in specs]
    for name in asked.named:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise UsageError(f"--budget: the net has no output {name!r}{hint}; its outputs: {', '.join(names)}")
    judged = int(asked.whole is not None)
    for spec in specs:
        budget, source = _declared(spec.name, asked, card)
        judged += source == "default" or budget is not None
        if budget is None:
            continue
        shape = tuple(d if isinstance(d, int) else None for d in spec.shape)
        if why := budget.kind.why_not(shape, budget.meaning):
            shown = "x".join(str(d) for d in spec.shape) or "()"
            text = f"{budget.metric} does not fit output {spec.name!r} of shape {shown}: {why}"
            raise CardError(f"card, {text}") if source == "card" else UsageError(f"--budget: {text}")
    if not judged and not asked.is_none:
        raise UsageError("no output is left to judge: each has the budget none. Say --budget none if that is meant")


def decide_budgets(asked: AskedBudgets, card: Card, outputs: Sequence[OutputEntry]) -> dict[str, Budget]:
    """Output name to its budget, ALL_OUTPUTS to that of the user's metric; an output that is not judged is left out.

    With `--budget none` the card and the defaults only choose the metric shown.
    """
    found: dict[str, Budget] = {} if asked.whole is None else {ALL_OUTPUTS: asked.whole}
    for output in outputs:
        budget, source = _declared(output.name, asked, card)
        if source == "default":
            budget = default_budget(output.kind)
        if budget is not None:
            found[output.name] = budget
    return found


def with_measured_best(asked: AskedBudgets, net: LightProto, sample: Feed) -> AskedBudgets:
    """The same with the user's metric tried: FP32 against itself, on one sample, before anything long begins.

    Raises:
        UsageError: The function fails, or not even FP32 satisfies the condition.
    """
    whole = asked.whole
    if whole is None or whole.user is None:
        return asked
    session = open_session(net.proto.SerializeToString(), weights=net.weights, what="the cleaned net")
    outputs = dict(zip(session.output_names, session.run(sample), strict=True))
    best = whole.user.value(outputs, outputs)
    if not whole.holds(best):
        raise UsageError(
            f"--metric {whole.user.reference}: it gives {whole.figure(best)} for FP32 against itself, so no net can reach "
            f"{whole}. Change the threshold, or the sign where less is better"
        )
    return replace(asked, whole=replace(whole, best=best))


def budgets_text(asked: AskedBudgets, budgets: Mapping[str, Budget]) -> str:
    """The budget as typed, or what the card and the defaults say in its place."""
    if asked.text:
        return asked.text
    defaults = [default_budget(kind) for kind in ("image", "tensor")]
    return ", ".join(sorted({f"{b} (default)" if b in defaults else f"{n}:{b}" for n, b in budgets.items()}))


def _declared(name: str, asked: AskedBudgets, card: Card) -> tuple[Budget | None, str]:
    """(budget or None for not judged, where it stands: "flag", "card" or "default")."""
    entry = card.outputs.get(name)
    meaning = None if entry is None else entry.meaning
    source = "flag"
    if name in asked.named:
        budget = asked.named[name]
    elif asked.every is not None:
        budget = asked.every
    elif entry is not None and entry.budget_text:
        budget, source = entry.budget, "card"
    elif entry is not None and entry.meaning.metric:
        budget, source = usual_budget(entry.meaning.metric), "card"
    else:
        return None, "default" if asked.whole is None else "flag"
    return (budget if budget is None or meaning is None else replace(budget, meaning=meaning)), source

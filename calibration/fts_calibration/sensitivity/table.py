"""How much each unit costs in INT8: the answer of every method of this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fts.errors import CalibrationError
from fts_calibration.metrics.budget import Score, budget_from_json, worst


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTensors:
    """What a method has to know of a unit.

    Attributes:
        name: Of its main node.
        inputs: Float tensors that it reads.
        output: Float tensor that leaves it.
    """

    name: str
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityTable:
    """Units and what INT8 does to the net's outputs through each alone.

    Attributes:
        method: Name of the method.
        samples: How many samples it looked at.
        forward_passes: Its work in multiply-accumulates of inferences, over those of one inference of the FP32 net.
        losses: Unit name to its loss; the greater, the more sensitive. Comparable within one table alone.
        scores: Unit name to the scores of all budgeted outputs; empty for methods that say nothing about outputs.
    """

    method: str
    samples: int
    forward_passes: float
    losses: Mapping[str, float]
    scores: Mapping[str, tuple[Score, ...]] = field(default_factory=dict)

    def worst_first(self) -> tuple[str, ...]:
        """Unit names, the most sensitive first; equals in their order in the table."""
        return tuple(sorted(self.losses, key=lambda name: -self.losses[name]))

    def to_json(self) -> dict[str, Any]:
        """A JSON object; floats survive it exactly."""
        return {
            "method": self.method,
            "samples": self.samples,
            "forward_passes": self.forward_passes,
            "losses": [[unit, loss] for unit, loss in self.losses.items()],
            "scores": {
                unit: [
                    {
                        "output": s.output,
                        "budget": s.budget.to_json(),
                        "values": list(s.values),
                        "noise": list(s.noise),
                    }
                    for s in scores
                ]
                for unit, scores in self.scores.items()
            },
        }


def table_from_scores(
    method: str, scores: Mapping[str, tuple[Score, ...]], *, samples: int, forward_passes: float
) -> SensitivityTable:
    """A table whose losses are how far the worst output is below its budget, in decibels of error."""
    return SensitivityTable(
        method=method,
        samples=samples,
        forward_passes=forward_passes,
        losses={unit: -worst(found).margin for unit, found in scores.items()},
        scores=dict(scores),
    )


def table_from_json(data: Mapping[str, Any]) -> SensitivityTable:
    """The inverse of `to_json`.

    Raises:
        CalibrationError: `data` is not what `to_json` gives.
    """
    try:
        return SensitivityTable(
            method=str(data["method"]),
            samples=int(data["samples"]),
            forward_passes=float(data["forward_passes"]),
            losses={str(unit): float(loss) for unit, loss in data["losses"]},
            scores={str(unit): tuple(map(_score, entries)) for unit, entries in data["scores"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise CalibrationError(
            f"a sensitivity table cannot be read: {cause!r}; expected what `to_json` gives"
        ) from cause


def _score(entry: Mapping[str, Any]) -> Score:
    return Score(
        output=str(entry["output"]),
        budget=budget_from_json(entry["budget"]),
        values=_floats(entry["values"]),
        noise=_floats(entry["noise"]),
    )


def _floats(values: Sequence[Any]) -> tuple[float, ...]:
    return tuple(float(v) for v in values)

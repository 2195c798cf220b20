"""How much each unit costs in INT8: the answer of every method of this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fts.errors import CalibrationError
from fts_calibration.metrics.budget import Score, parse_budget


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
        scores: Unit name to the score of the output that decides; empty for methods that say nothing about outputs.
    """

    method: str
    samples: int
    forward_passes: float
    losses: Mapping[str, float]
    scores: Mapping[str, Score] = field(default_factory=dict)

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
                unit: {"output": s.output, "budget": str(s.budget), "values": list(s.values)}
                for unit, s in self.scores.items()
            },
        }


def table_from_scores(
    method: str, scores: Mapping[str, Score], *, samples: int, forward_passes: float
) -> SensitivityTable:
    """A table whose losses are how far each score is below its budget."""
    return SensitivityTable(
        method=method,
        samples=samples,
        forward_passes=forward_passes,
        losses={unit: -score.margin for unit, score in scores.items()},
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
            scores={str(unit): _score(entry) for unit, entry in data["scores"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise CalibrationError(
            f"a sensitivity table cannot be read: {cause!r}; expected what `to_json` gives"
        ) from cause


def _score(entry: Mapping[str, Any]) -> Score:
    budget = parse_budget(entry["budget"])
    if budget is None:
        raise ValueError("budget 'none' has no score")
    return Score(output=str(entry["output"]), budget=budget, values=_floats(entry["values"]))


def _floats(values: Sequence[Any]) -> tuple[float, ...]:
    return tuple(float(v) for v in values)

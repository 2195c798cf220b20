"""In which order units leave INT8: those first that take most noise away for the work they add.

Every unit offers a few choices of (cost, noise). Of these only the corners of the lower convex hull are ever worth taking,
and along it each step takes less noise away for its cost than the one before. All steps of all units in the order of that
ratio are the path; each beginning of it is, under noise that adds up, the cheapest plan with so little noise.

Source: Shoham & Gersho 1988, "Efficient bit allocation for an arbitrary set of quantizers", IEEE TASSP 36(9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fts_converters.quantize.levels import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A unit at a level.

    Attributes:
        level: The level.
        cost: Work, in any unit.
        noise: What it adds to the error, in any unit that adds up.
    """

    level: Level
    cost: float
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """One step of the path: a unit goes to a level.

    Attributes:
        unit: Its name.
        level: Where it goes.
        noise: What it takes away.
        cost: What it adds.
    """

    unit: str
    level: Level
    noise: float
    cost: float


def upgrade_path(choices: Mapping[str, Sequence[Choice]]) -> tuple[Upgrade, ...]:
    """Steps in the order to take them; equal ones in the order of the units.

    Args:
        choices: Of each unit, the level it starts at first.
    """
    steps = [step for unit, offered in choices.items() for step in _hull(unit, offered)]
    return tuple(sorted(steps, key=lambda s: -s.noise / s.cost if s.cost > 0 else -float("inf")))


def _hull(unit: str, offered: Sequence[Choice]) -> list[Upgrade]:
    here, rest = offered[0], list(offered[1:])
    steps: list[Upgrade] = []
    while True:
        better = [c for c in rest if c.noise < here.noise]
        if not better:
            return steps
        best = max(better, key=lambda c: (_gain_per_cost(here, c), -c.cost))
        steps.append(Upgrade(unit=unit, level=best.level, noise=here.noise - best.noise, cost=best.cost - here.cost))
        here, rest = best, [c for c in better if c.cost > best.cost]


def _gain_per_cost(here: Choice, there: Choice) -> float:
    cost = there.cost - here.cost
    return (here.noise - there.noise) / cost if cost > 0 else float("inf")

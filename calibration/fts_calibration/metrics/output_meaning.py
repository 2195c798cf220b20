"""What an output's numbers mean, as far as a metric has to know: declared on the model card, never guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

PointOrder = Literal["xy", "xyz", "planar"]
POINT_ORDERS: tuple[PointOrder, ...] = ("xy", "xyz", "planar")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputMeaning:
    """Declarations of one `[outputs.NAME]` table; the defaults say that nothing was declared.

    Attributes:
        metric: Task metric of the output, "" when none: what `drop` is a drop of.
        axis: Axis of the classes, or None.
        threshold: Least value that belongs to a mask of one channel.
        ages: Age of each class in years; empty is 0, 1, 2 …
        landmarks: Order of the coordinates of points: "xy" x and y of a point side by side, "xyz" with a third number that
            is no position (a score, a depth), "planar" all x and then all y.
        eyes: Points of the left and of the right eye, each averaged; None when not declared.
    """

    metric: str = ""
    axis: int | None = None
    threshold: float = 0.5
    ages: tuple[float, ...] = ()
    landmarks: PointOrder = "xy"
    eyes: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self)


def meaning_from_json(data: Mapping[str, Any]) -> OutputMeaning:
    """The inverse of `OutputMeaning.to_json`."""
    eyes = data["eyes"]
    return OutputMeaning(
        metric=data["metric"],
        axis=data["axis"],
        threshold=data["threshold"],
        ages=tuple(data["ages"]),
        landmarks=data["landmarks"],
        eyes=None if eyes is None else (tuple(eyes[0]), tuple(eyes[1])),
    )


UNDECLARED = OutputMeaning()

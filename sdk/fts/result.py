"""What one call of a model gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fts.errors import NoImageError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """One frame's outputs. The arrays belong to the caller; no later call changes them.

    Attributes:
        tensors: Every output by name, as the net gave it.
        images: Every image output by name: BGR uint8 (H, W, 3), the frame's size times the net's scale.
        rung: Id of the resolution that ran.
        degraded: Whether quality was given up to hold a latency budget.
        age_ms: Milliseconds from the frame being handed over to this result.
    """

    tensors: Mapping[str, npt.NDArray[Any]]
    images: Mapping[str, npt.NDArray[np.uint8]]
    rung: str
    degraded: bool
    age_ms: float

    @property
    def image(self) -> npt.NDArray[np.uint8]:
        """The first image output, BGR uint8 (H, W, 3).

        Raises:
            NoImageError: The net has no image output.
        """
        for image in self.images.values():
            return image
        raise NoImageError(
            f"this net has no image output, only the tensors {', '.join(self.tensors)}: read out.tensors, or declare "
            "an output as an image in the model card and convert again"
        )

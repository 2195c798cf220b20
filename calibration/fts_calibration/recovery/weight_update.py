"""Weights, weight grids and biases that integer kernels take in the place of the net's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightUpdate:
    """What recovery found. It holds for units in INT8; an operator in float keeps the net's own values.

    Attributes:
        weights: Weight tensor name to its new values, float32 of the tensor's shape. Every integer kernel that has the
            tensor as its weight takes them.
        weight_scales: Weight tensor name to the scales of its grid, float32 (C,) along the unit's weight axis, (1,) for
            one scale a tensor. Without an entry the grid follows from the greatest magnitude. Rounding `weights` on it
            gives exactly the integers that were wanted.
        biases: Unit name to its new bias, float32 (C,), also for units without a bias. By unit and not by tensor, since
            two units that share one are wrong by different amounts.
    """

    NONE: ClassVar[WeightUpdate]

    weights: Mapping[str, FloatArray] = field(default_factory=dict)
    weight_scales: Mapping[str, FloatArray] = field(default_factory=dict)
    biases: Mapping[str, FloatArray] = field(default_factory=dict)

    def joined(self, other: WeightUpdate) -> WeightUpdate:
        """This update, with the entries of another one added or in the place of its own."""
        return WeightUpdate(
            weights={**self.weights, **other.weights},
            weight_scales={**self.weight_scales, **other.weight_scales},
            biases={**self.biases, **other.biases},
        )


WeightUpdate.NONE = WeightUpdate()

"""Name, type and shape of one input or output of a net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Dimension = int | str
TensorKind = Literal["image", "tensor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """An input or output tensor as the net declares it.

    Attributes:
        name: Tensor name, never empty.
        dtype: numpy dtype name, such as "float32", "uint8", "int64", "bool".
        shape: One entry an axis: a positive int, or the name of an unknown dimension ("?" when it has none).
    """

    name: str
    dtype: str
    shape: tuple[Dimension, ...]

    @property
    def is_static(self) -> bool:
        """True when every dimension is a number."""
        return all(isinstance(d, int) for d in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape as numbers; ValueError when a dimension is unknown."""
        numbers = tuple(d for d in self.shape if isinstance(d, int))
        if len(numbers) != len(self.shape):
            raise ValueError(f"tensor {self.name!r} has unknown dimensions: {self.shape}")
        return numbers

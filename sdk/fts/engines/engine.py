"""What the runtime knows of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy.typing as npt

Tensor = npt.NDArray[Any]


class Engine(Protocol):
    """A loaded net. Several threads may call `run` at once."""

    @property
    def name(self) -> str:
        """Engine and version, such as "onnxruntime 1.32.0 CPUExecutionProvider"."""

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs."""

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in the order in which `run` gives them."""

    def run(self, feeds: Mapping[str, Tensor]) -> list[Tensor]:
        """One inference on C-contiguous arrays of the declared types and shapes.

        Raises:
            EngineError: The engine failed.
        """

"""Where a frame's time goes: waiting, preprocessing, the engine, postprocessing.

The runtime itself is measured, not a copy of it: the model gets an engine that notes when it is called. What lies
before that moment is preprocessing, what lies after its end is postprocessing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fts.engines.engine import Engine, Tensor
from fts.profile.clock import Clock


@dataclass(frozen=True, slots=True)
class EngineSpan:
    """When the engine ran for a frame."""

    begin_ns: int
    end_ns: int


class TimedEngine:
    """An engine that notes when it last ran; for one thread."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._now_ns = clock.now_ns
        self.name = engine.name
        self.input_names = engine.input_names
        self.output_names = engine.output_names
        self.span = EngineSpan(0, 0)

    def run(self, feeds: Mapping[str, Tensor]) -> list[Tensor]:
        """One inference."""
        begin_ns = self._now_ns()
        outputs = self._engine.run(feeds)
        self.span = EngineSpan(begin_ns, self._now_ns())
        return outputs

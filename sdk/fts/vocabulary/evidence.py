"""A number is worth as much as the way it was obtained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EvidenceTag = Literal["measured", "simulated", "predicted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """How a number or a claim came about.

    Attributes:
        tag: measured (on this engine, here), simulated (the target's numerics, here) or predicted (a model of it).
        by: What produced it, with its version: "onnxruntime 1.32.0 CPUExecutionProvider".
        detail: What else a reader needs to judge it.
    """

    tag: EvidenceTag
    by: str
    detail: str = ""

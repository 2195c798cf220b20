"""One way to quantize a net, and what came of it; which row stands for a method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivals.integer_share import IntegerShare
from rivals.score import Fidelity

OURS = "fts"
# Bar: a peer that runs less than this in integer kernels is no INT8 peer.
LEAST_PEER_SHARE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One way to quantize a net, and what came of it.

    Attributes:
        rival: Module, or OURS.
        method: Of the rival.
        settings: Of the method; "exact_u8s8" says that ONNX Runtime was told not to saturate.
        file: The quantized net, None when it failed.
        fidelity: None when it failed.
        share: None when it failed.
        seconds: Of the conversion in its process.
        peak_bytes: Of that process.
        error: Why it failed, "" when it did not.
    """

    rival: str
    method: str
    settings: Mapping[str, Any]
    file: Path | None = None
    fidelity: Fidelity | None = None
    share: IntegerShare | None = None
    seconds: float = 0.0
    peak_bytes: int = 0
    error: str = ""

    @property
    def name(self) -> str:
        """Rival and method."""
        return f"{self.rival} {self.method}".strip()

    @property
    def exact_u8s8(self) -> bool:
        """The session option that it was scored with."""
        return bool(self.settings.get("exact_u8s8", False))

    @property
    def is_peer(self) -> bool:
        """It ran, and enough of it in integer kernels for the bar."""
        return self.share is not None and self.share.share >= LEAST_PEER_SHARE

    @property
    def merit(self) -> float:
        """What the bar is about, larger is better; minus infinity when it failed."""
        return float("-inf") if self.fidelity is None else self.fidelity.merit

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        share = self.share
        return {
            "rival": self.rival,
            "method": self.method,
            "settings": dict(self.settings),
            "error": self.error,
            "seconds": self.seconds,
            "peak_bytes": self.peak_bytes,
            "fidelity": None if self.fidelity is None else self.fidelity.to_json(),
            "integer_share": None if share is None else share.share,
            "integer_nodes": None if share is None else [share.nodes, share.of_nodes],
            "macs_counted": None if share is None else share.counted,
        }


def best_of_each_method(rows: Iterable[Row]) -> list[Row]:
    """For each method the row that serves its tool best: a peer of the bar before any other, then the best figure.

    The choice looks at the holdout crops, which is a favour to the rivals: fts chooses on the calibration split.
    """
    methods: dict[str, list[Row]] = {}
    for row in rows:
        methods.setdefault(row.name, []).append(row)
    return [max(group, key=lambda r: (r.is_peer, r.merit)) for group in methods.values()]


def best(rows: Sequence[Row]) -> Row | None:
    """The row with the best figure, None when none ran."""
    ran = [r for r in rows if not r.error]
    return max(ran, key=lambda r: r.merit) if ran else None

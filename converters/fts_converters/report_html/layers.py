"""The per-layer table, the strip that shows it at a glance, and the reasons in groups."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_INTEGER = re.compile(r"^u?int\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One node of the cleaned graph.

    Attributes:
        number: Place in the graph, from 1.
        name: Node name.
        op_type: Operator.
        precision: "int8", "fp32".
        engine: Engine that runs it.
        macs: Multiply-accumulates of one inference.
        share: Of the net's MACs, 0..1.
        reason: Why.
    """

    number: int
    name: str
    op_type: str
    precision: str
    engine: str
    macs: int
    share: float
    reason: str

    @property
    def is_integer(self) -> bool:
        """Whether it computes in integers."""
        return _INTEGER.match(self.precision) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Layers with one precision for one reason.

    Attributes:
        precision: "int8", "fp32".
        is_integer: Whether they compute in integers.
        reason: Without the numbers of a single layer.
        ops: (operator, number of layers), most first.
        layers: Number of layers.
        share: Of the net's MACs, 0..1.
    """

    precision: str
    is_integer: bool
    reason: str
    ops: tuple[tuple[str, int], ...]
    layers: int
    share: float


def layers_from_report(report: Mapping[str, Any]) -> tuple[Layer, ...]:
    """Every node, in graph order."""
    nodes = report["nodes"]
    total = sum(n["macs"] for n in nodes)
    return tuple(
        Layer(
            number=number,
            name=n["name"],
            op_type=n["op_type"],
            precision=n["precision"],
            engine=n["engine"],
            macs=n["macs"],
            share=n["macs"] / total if total else 0.0,
            reason=n["reason"],
        )
        for number, n in enumerate(nodes, start=1)
    )


def decisions(layers: Sequence[Layer]) -> tuple[Decision, ...]:
    """Layers grouped by precision and reason: integers first, then by share of the MACs and number."""
    groups: dict[tuple[str, str], list[Layer]] = {}
    for layer in layers:
        groups.setdefault((layer.precision, _general(layer)), []).append(layer)
    found = [
        Decision(
            precision=precision,
            is_integer=members[0].is_integer,
            reason=reason,
            ops=tuple(Counter(m.op_type for m in members).most_common()),
            layers=len(members),
            share=sum(m.share for m in members),
        )
        for (precision, reason), members in groups.items()
    ]
    return tuple(sorted(found, key=lambda d: (not d.is_integer, -d.share, -d.layers, d.reason)))


def _general(layer: Layer) -> str:
    """The reason with the layer's own operator and numbers left out."""
    reason = layer.reason
    if layer.op_type in reason:
        reason = re.sub(rf"\b{re.escape(layer.op_type)}\b", "this operator", reason)
    head, colon, tail = reason.partition(": ")
    return head if colon and re.search(r"\d", tail) else reason

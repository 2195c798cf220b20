"""What will be done with each node of the cleaned graph, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Precision = Literal["int8", "fp32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """The decision for one node.

    Attributes:
        name: Node name in the cleaned graph (unique).
        op_type: ONNX operator.
        precision: Arithmetic chosen.
        engine: Engine kind that runs it.
        reason: Why, in words a user understands; never empty.
        macs: Multiply-accumulates for one inference (0 for other operators than the four that count).
        weight_bits: Of its constant weights, where it has them; 32 is float.
        output_bits: Of the values that leave it: 8 rounded to an integer grid; 32 float, or for int8 its sums scaled to
            float instead of rounded.
        has_channel_grids: int8 only: its output is rounded on one grid a channel, where statistics by channel are known.
    """

    name: str
    op_type: str
    precision: Precision
    engine: str
    reason: str
    macs: int = 0
    weight_bits: int = 32
    output_bits: int = 32
    has_channel_grids: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every node of the cleaned graph, in graph order.

    Attributes:
        target: Target name.
        dialect: Name of the dialect that encodes it.
        nodes: One entry a node.
    """

    target: str
    dialect: str
    nodes: tuple[NodePlan, ...]

    @property
    def planned_integer_share(self) -> float:
        """Share of MACs planned as int8, 0..1; what the engine really does is read from its optimised graph."""
        total = sum(n.macs for n in self.nodes)
        return sum(n.macs for n in self.nodes if n.precision == "int8") / total if total else 0.0

    def by_name(self) -> Mapping[str, NodePlan]:
        """Node name to decision."""
        return {n.name: n for n in self.nodes}

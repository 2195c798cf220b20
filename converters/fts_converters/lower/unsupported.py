"""What an engine still lacks after lowering: node by node, with what it hangs on and the nearest thing that would work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fts_converters.lower.fill_shapes import fill_shapes
from fts_converters.lower.node_facts import lack_of
from fts_converters.model import Model
from fts_converters.passes.contract import Refusal
from fts_converters.passes.graph_reading import label
from fts_devices.op_support import EngineOps

# What to do about operators without a replacement, where something can be said at all.
NEAREST: Mapping[str, str] = {
    "Resize": "nearest or linear by constant scales",
    "GridSample": "a constant grid, or bilinear and nearest with zeros or border padding",
    "ScatterND": "constant indices that name no place twice",
    "ScatterElements": "constant indices that name no place twice",
    "Gather": "constant indices",
    "GatherElements": "constant indices",
    "GatherND": "constant indices",
    "CumSum": "a constant axis",
    "NonMaxSuppression": "the net cut in front of it, boxes and scores as outputs",
    "NonZero": "a mask of fixed size in its place",
    "Loop": "a known trip count, so that it is unrolled",
    "If": "a constant condition, so that one branch is inlined",
    "Softmax": "Softmax over the last axis of a tensor of 4 axes",
    "Erf": "Gelu as one operator",
    "TopK": "the net cut in front of it",
    "Einsum": "known sizes, so that it becomes MatMul",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsupportedNode:
    """A node that an engine does not take as it is.

    Attributes:
        node: Its name.
        op_type: ONNX operator.
        attribute: What it hangs on: an attribute, an input, "rank", "type"; "" when it is the operator itself.
        reason: Why the engine does not take it.
        not_lowered: Why no replacement was made; "" when there is none for this operator.
        nearest: The nearest thing that would work.
    """

    node: str
    op_type: str
    attribute: str
    reason: str
    not_lowered: str
    nearest: str


def unsupported_nodes(
    model: Model, engine: EngineOps, refusals: Sequence[tuple[str, Refusal]] = ()
) -> tuple[UnsupportedNode, ...]:
    """Every node that the engine's documents speak against, in graph order.

    Args:
        model: A net after `lower`; only shapes are filled in.
        engine: Operators of the engine.
        refusals: What `lower` gave back: why a replacement was not made.
    """
    fill_shapes(model)
    reasons: dict[str, str] = {}
    for _, refusal in refusals:
        reasons.setdefault(refusal.node, refusal.reason)
    found = []
    for node in model.graph.nodes:
        lack = lack_of(engine, node, model.opset)
        if lack is None:
            continue
        ways = [w for w in (lack.works or NEAREST.get(node.op, ""), _elsewhere(engine)) if w]
        found.append(
            UnsupportedNode(
                node=label(node),
                op_type=node.op,
                attribute=lack.attribute,
                reason=lack.reason,
                not_lowered=reasons.get(label(node), ""),
                nearest="; or ".join(ways),
            )
        )
    return tuple(found)


def _elsewhere(engine: EngineOps) -> str:
    return f"this node on {engine.fallback}" if engine.fallback else ""

"""What a search chooses for a unit, from cheap to exact: int8, the engine's finer integer form, float."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from fts.vocabulary.device_profile import DeviceProfile
from fts.vocabulary.dialect import Dialect
from fts.vocabulary.plan import NodePlan, Plan
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.plan_nodes import FULL_WEIGHT_BITS, SUM_BITS, plan_nodes, plan_only
from fts_converters.quantize.units import Candidates

Level = Literal["int8", "fine", "float"]
LEVELS: tuple[Level, ...] = ("int8", "fine", "float")


def plan_levels(
    index: GraphIndex,
    candidates: Candidates,
    profile: DeviceProfile,
    dialect: Dialect,
    levels: Mapping[str, Level],
    reasons: Mapping[str, str],
) -> Plan:
    """The plan of a choice.

    Args:
        index: Index of the cleaned graph.
        candidates: Its units.
        profile: Target.
        dialect: Encoding.
        levels: By unit; int8 where it says nothing.
        reasons: Why a unit is not at int8, by unit.
    """
    by_level = {level: {u: reasons[u] for u, chosen in levels.items() if chosen == level} for level in LEVELS}
    return plan_nodes(index, candidates, profile, dialect, kept_float=by_level["float"], fine=by_level["fine"])


def plan_alone(
    index: GraphIndex, candidates: Candidates, profile: DeviceProfile, dialect: Dialect, unit: str, level: Level
) -> Plan:
    """One unit at a level, all else float: what it costs in quality."""
    fine = {unit: "measured alone"} if level == "fine" else {}
    return plan_only(index, candidates, profile, dialect, unit, fine=fine)


def plan_cost(plan: Plan, dialect: Dialect) -> float:
    """Work of a plan as a share of the same net in float, by multiply-accumulates in the dialect's costs; 0..1 and more."""
    total = sum(n.macs for n in plan.nodes)
    return sum(n.macs * _cost_per_mac(n, dialect) for n in plan.nodes) / total if total else 0.0


def _cost_per_mac(node: NodePlan, dialect: Dialect) -> float:
    if node.precision != "int8":
        return 1.0
    if node.output_bits == SUM_BITS:
        return dialect.mac_costs["sums"]
    if node.weight_bits == FULL_WEIGHT_BITS != dialect.weight.bits:
        return dialect.mac_costs["full_weights"]
    return dialect.mac_costs["int8"]

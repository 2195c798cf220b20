"""Decide the precision of every node, and say why.

Rule: an operator that multiplies and sums is int8 whenever the dialect has a kernel for it. An operator that only joins
or moves (bridge, passthrough) is int8 when integers come in and integers are wanted behind it; between float neighbours
it would only add rounding and two conversions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from fts.vocabulary.device_profile import DeviceProfile
from fts.vocabulary.dialect import Dialect
from fts.vocabulary.plan import NodePlan, Plan
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.units import Candidates, Unit


def plan_nodes(
    index: GraphIndex,
    candidates: Candidates,
    profile: DeviceProfile,
    dialect: Dialect,
    *,
    kept_float: Mapping[str, str],
) -> Plan:
    """Plan with everything int8 that gains by it.

    Args:
        index: Index of the cleaned graph.
        candidates: Its units.
        profile: Target.
        dialect: Encoding.
        kept_float: Unit name to the reason why it stays float (budget, pin).
    """
    wanted = {name: unit for name, unit in candidates.units.items() if name not in kept_float}
    chosen = _drop_isolated(wanted, index)
    reasons = {**candidates.reasons, **kept_float}
    isolated = "between float neighbours: converting to integers and back would cost more than it saves"
    for name in wanted:
        if name not in chosen:
            reasons[name] = isolated
    return _plan(index, candidates, profile, dialect, chosen, reasons)


def plan_only(index: GraphIndex, candidates: Candidates, profile: DeviceProfile, dialect: Dialect, unit: str) -> Plan:
    """Plan with one unit in int8 and all else float: what this unit alone costs."""
    reasons = {**candidates.reasons, **{n: "measured alone: another unit" for n in candidates.units}}
    return _plan(index, candidates, profile, dialect, {unit: candidates.units[unit]}, reasons)


def _drop_isolated(units: Mapping[str, Unit], index: GraphIndex) -> dict[str, Unit]:
    kept = dict(units)
    while True:
        outputs = {u.output for u in kept.values()}
        read = {a for u in kept.values() for a in u.activations}
        alone = [
            name
            for name, u in kept.items()
            if u.role != "mac" and not (all(a in outputs for a in u.activations) and u.output in read)
        ]
        if not alone:
            return kept
        for name in alone:
            del kept[name]


def _plan(
    index: GraphIndex,
    candidates: Candidates,
    profile: DeviceProfile,
    dialect: Dialect,
    chosen: Mapping[str, Unit],
    reasons: Mapping[str, str],
) -> Plan:
    main_of = {n: u for u in candidates.units.values() for n in u.nodes}
    nodes = []
    for node in index.model.graph.node:
        unit = main_of.get(node.name)
        is_integer = unit is not None and unit.name in chosen
        reason = (
            _why_integer(node.name, unit) if is_integer and unit else reasons.get(unit.name if unit else node.name, "")
        )
        nodes.append(
            NodePlan(
                name=node.name,
                op_type=node.op_type,
                precision="int8" if is_integer else "fp32",
                engine=profile.engine,
                reason=reason,
                macs=candidates.macs.get(node.name, 0),
            )
        )
    return Plan(target=profile.target, dialect=dialect.name, nodes=tuple(nodes))


def _why_integer(name: str, unit: Unit) -> str:
    if name != unit.name:
        return f"folded into {unit.op_type} {unit.name!r}"
    return {
        "mac": "integer kernel",
        "bridge": "integer kernel between integer neighbours",
        "passthrough": "moves integers",
    }[unit.role]


def tensors_to_calibrate(units: Iterable[Unit], index: GraphIndex, extra: Collection[str]) -> tuple[str, ...]:
    """Names of all float32 tensors whose range an encoding may ask for, in a stable order, plus `extra`."""
    names = {name for u in units for name in (*u.activations, u.output)}
    names.update(extra)
    return tuple(sorted(n for n in names if not index.is_constant(n)))


def channel_tensors(units: Iterable[Unit], index: GraphIndex) -> tuple[str, ...]:
    """Outputs that an encoding may give one grid a channel (axis 1)."""
    outputs = {u.output for u in units if u.op_type in ("Conv", "Gemm")}
    return tuple(sorted(name for name in outputs if index.shape(name) is not None))

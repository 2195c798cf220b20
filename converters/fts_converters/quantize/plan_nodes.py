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
from fts_converters.quantize.encode_sums import may_keep_sums
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.units import Candidates, Unit

EMPTY: Mapping[str, str] = {}
# Of int8 units whose sums leave them unrounded (`encode_sums`), and of weights on the full grid.
SUM_BITS, FULL_WEIGHT_BITS, FLOAT_BITS = 32, 8, 32


def plan_nodes(
    index: GraphIndex,
    candidates: Candidates,
    profile: DeviceProfile,
    dialect: Dialect,
    *,
    kept_float: Mapping[str, str],
    fine: Mapping[str, str] = EMPTY,
) -> Plan:
    """Plan with everything int8 that gains by it.

    Args:
        index: Index of the cleaned graph.
        candidates: Its units.
        profile: Target.
        dialect: Encoding.
        kept_float: Unit name to the reason why it stays float (budget, pin).
        fine: Unit name to the reason why it takes the finer one of the engine's integer forms: sums that are not rounded
            where float operators read them, else weights of 8 bits where the usual ones have less.
    """
    wanted = {name: unit for name, unit in candidates.units.items() if name not in kept_float}
    chosen = _drop_isolated(wanted)
    reasons = {**candidates.reasons, **kept_float}
    isolated = "between float neighbours: converting to integers and back would cost more than it saves"
    for name in wanted:
        if name not in chosen:
            reasons[name] = isolated
    return _plan(index, candidates, profile, dialect, chosen, reasons, fine)


def plan_only(
    index: GraphIndex,
    candidates: Candidates,
    profile: DeviceProfile,
    dialect: Dialect,
    unit: str,
    fine: Mapping[str, str] = EMPTY,
) -> Plan:
    """Plan with one unit in int8 and all else float: what this unit alone costs.

    Its form is the one that it has with everything in int8, whoever reads its output here.
    """
    reasons = {**candidates.reasons, **{n: "measured alone: another unit" for n in candidates.units}}
    chosen = {unit: candidates.units[unit]}
    return _plan(index, candidates, profile, dialect, chosen, reasons, fine, readers=_drop_isolated(candidates.units))


def is_fine(node: NodePlan, dialect: Dialect) -> bool:
    """Is a node int8 in a form that is finer than the dialect's usual one?"""
    return node.precision == "int8" and (node.output_bits == SUM_BITS or node.weight_bits > dialect.weight.bits)


def _forms(
    fine: Mapping[str, str],
    chosen: Mapping[str, Unit],
    readers: Mapping[str, Unit],
    index: GraphIndex,
    dialect: Dialect,
) -> dict[str, tuple[int, int]]:
    """(weight bits, output bits) of the units that are wanted finer than usual and can be."""
    found = {}
    for name in fine:
        unit = chosen.get(name)
        if unit is None or not unit.weight:
            continue
        if dialect.has_sum_kernels and may_keep_sums(unit, index) and _is_read_in_float(unit, readers, index):
            found[name] = (dialect.weight.bits, SUM_BITS)
        elif dialect.weight.bits < FULL_WEIGHT_BITS:
            found[name] = (FULL_WEIGHT_BITS, dialect.activation.bits)
    return found


def _is_read_in_float(unit: Unit, chosen: Mapping[str, Unit], index: GraphIndex) -> bool:
    """Where integers are all that is wanted of it, its sums would be rounded right behind the kernel."""
    members = {n for u in chosen.values() for n in u.nodes}
    readers = index.readers.get(unit.output, ())
    return unit.output in index.outputs | index.captured or any(r.name not in members for r in readers)


def _may_have_channel_grids(unit: Unit, index: GraphIndex) -> bool:
    """Conv and Gemm take a bias that moves each channel; an activation in between must leave 0 where it is."""
    if unit.op_type not in ("Conv", "Gemm"):
        return False
    behind = [n.op_type for n in index.model.graph.node if n.name in unit.nodes[1:]]
    return all(op_type == "Relu" for op_type in behind)


def _drop_isolated(units: Mapping[str, Unit]) -> dict[str, Unit]:
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
    fine: Mapping[str, str],
    readers: Mapping[str, Unit] | None = None,
) -> Plan:
    readers = chosen if readers is None else readers
    forms = _forms(fine, chosen, readers, index, dialect)
    read_as_integers = {a for u in readers.values() for a in u.activations}
    main_of = {n: u for u in candidates.units.values() for n in u.nodes}
    nodes = []
    for node in index.model.graph.node:
        unit = main_of.get(node.name)
        is_integer = unit is not None and unit.name in chosen
        reason = (
            _why_integer(node.name, unit, fine if unit.name in forms else EMPTY)
            if is_integer and unit
            else reasons.get(unit.name if unit else node.name, "")
        )
        usual = (dialect.weight.bits, dialect.activation.bits) if is_integer else (FLOAT_BITS, FLOAT_BITS)
        weight_bits, output_bits = forms.get(node.name, usual) if is_integer else usual
        nodes.append(
            NodePlan(
                name=node.name,
                op_type=node.op_type,
                precision="int8" if is_integer else "fp32",
                engine=profile.engine,
                reason=reason,
                macs=candidates.macs.get(node.name, 0),
                weight_bits=weight_bits,
                output_bits=output_bits,
                has_channel_grids=is_integer
                and unit is not None
                and node.name == unit.name
                and output_bits != SUM_BITS
                and unit.output not in read_as_integers
                and _may_have_channel_grids(unit, index),
            )
        )
    return Plan(target=profile.target, dialect=dialect.name, nodes=tuple(nodes))


def _why_integer(name: str, unit: Unit, fine: Mapping[str, str]) -> str:
    if name == unit.name and name in fine:
        return f"integer kernel, finer than usual: {fine[name]}"
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

"""Scale channels by powers of two, in the constants in front of them and behind them: the same function, other ranges.

    W'[o, i] = W[o, i] * s[o] / s[i],   b'[o] = b[o] * s[o]        and likewise for norms, sums and bounds with constants

A quiet channel that shares a tensor's grid with a loud one keeps few of its levels; scaled up in front and down behind it
keeps more. Powers of two commute with rounding, so every bit of every output stays (while nothing leaves float32's range);
only in front of a norm, where a factor vanishes up to its epsilon, is there a change, and it is bounded (`norm_condition`).

Requires: `factors` by tensor and channel (`factors_from_weights`, `factors_from_ranges`, or anything else). Refused, and
left at 1: channels that are tied to an input or output or to an operator that no factor passes; tied channels that were
given different factors; what a norm's epsilon forbids; what would leave a constant's float32 range or cost it a bit.
Not one of `DEFAULT_PASSES`: only who knows what is rounded, and how, can say that other ranges are better ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.equalize.channel_groups import ChannelGroups, channel_groups
from fts_converters.equalize.factors import Exponents, Factors, exponents_of_groups, factors_of_groups
from fts_converters.equalize.norm_condition import Variances, norm_refusals
from fts_converters.equalize.trace import Absorber
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import TensorNames, finish
from fts_converters.passes.graph_reading import constant, label

Constants = Mapping[tuple[int, int], tuple[Absorber, ...]]


def equalize(model: Model, factors: Factors, variances: Variances | None = None) -> PassResult:
    """Apply factors.

    Args:
        model: Changed in place.
        factors: Of the graph as it is.
        variances: Least calibrated variance of each group of a norm's input (`NormInput`), by tensor; without it nothing
            in front of a norm is scaled.
    """
    groups = channel_groups(model)
    applicable = _applicable(groups, factors, variances or {})
    exponents, _ = exponents_of_groups(groups, applicable)
    if exponents.any():
        _write(model.graph, _constants(groups), exponents)
    return PassResult(is_changed=bool(exponents.any()), refusals=applicable.refusals)


def applicable_factors(model: Model, factors: Factors, variances: Variances | None = None) -> Factors:
    """What `equalize` would apply of the factors, for every tensor that it would scale, with its refusals."""
    return _applicable(channel_groups(model), factors, variances or {})


def _applicable(groups: ChannelGroups, factors: Factors, variances: Variances) -> Factors:
    exponents, refusals = exponents_of_groups(groups, factors)
    forbidden = norm_refusals(groups, exponents, variances)
    exponents[list(forbidden)] = 0
    exponents, inexact = _exact(_constants(groups), exponents)
    told = dict.fromkeys((*factors.refusals, *refusals, *forbidden.values(), *inexact))
    return factors_of_groups(groups, exponents, tuple(told))


def _constants(groups: ChannelGroups) -> Constants:
    """The absorbers of each constant input, by (node, position)."""
    by_constant: dict[tuple[int, int], tuple[Absorber, ...]] = {}
    for absorber in groups.absorbers:
        key = id(absorber.node), absorber.position
        by_constant[key] = (*by_constant.get(key, ()), absorber)
    return by_constant


def _exact(constants: Constants, exponents: Exponents) -> tuple[Exponents, tuple[Refusal, ...]]:
    """The exponents without those that a constant cannot take up bit by bit, and the reasons.

    Each round sets groups to 0, never to anything else, so it ends.
    """
    kept = exponents.copy()
    refusals: list[Refusal] = []
    while True:
        lost: set[int] = set()
        for absorbers in constants.values():
            exponent = _exponent(absorbers, kept)
            if not exponent.any():
                continue
            value = np.asarray(constant(absorbers[0].node.inputs[absorbers[0].position]))
            with np.errstate(over="ignore", under="ignore"):
                scaled = np.ldexp(value, exponent)
                is_lost = (np.ldexp(scaled, -exponent) != value) & ~np.isnan(value)
            is_lost |= np.isinf(scaled) & np.isfinite(value)
            if is_lost.any():
                groups = {int(g) for a in absorbers for g in np.broadcast_to(a.ids, is_lost.shape)[is_lost] if kept[g]}
                lost |= groups
                reason = f"a factor would take constant {_name(absorbers)!r} out of float32's range"
                refusals.append(Refusal(node=label(absorbers[0].node), reason=reason))
        if not lost:
            return kept, tuple(refusals)
        kept[list(lost)] = 0


def _exponent(absorbers: tuple[Absorber, ...], exponents: Exponents) -> npt.NDArray[np.int32]:
    """What a constant is scaled by, in a shape that broadcasts with it; one number where it is the same all over."""
    total = np.zeros((), np.int32)
    for absorber in absorbers:
        total = total + np.int32(absorber.sign) * exponents[absorber.ids].astype(np.int32)
    flat = total.reshape(-1)
    return flat[0].reshape(()) if flat.size and (flat == flat[0]).all() else total


def _name(absorbers: tuple[Absorber, ...]) -> str:
    return str(absorbers[0].node.inputs[absorbers[0].position].name)


def _write(graph: gs.Graph, constants: Constants, exponents: Exponents) -> None:
    """Give the nodes new constants; the old ones stay with their other readers."""
    names = TensorNames(graph)
    for absorbers in constants.values():
        exponent = _exponent(absorbers, exponents)
        if exponent.any():
            node, position = absorbers[0].node, absorbers[0].position
            value = np.asarray(constant(node.inputs[position]))
            node.inputs[position] = names.constant(f"{_name(absorbers)}_equalized", np.ldexp(value, exponent))
    finish(graph)

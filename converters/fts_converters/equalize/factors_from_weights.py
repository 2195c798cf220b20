"""Choose factors from weights alone, without data.

    s_i = sqrt(r2_i / r1_i)

where r1_i is the greatest weight that makes channel i and r2_i the greatest one that reads it; afterwards both are
sqrt(r1_i r2_i). Rounded to a power of two, group by group, until no group moves. That ends: a move lowers the greater one
of r1_i and r2_i and raises the other to at most that (log2 of either lies within 1/2 of their mean afterwards), so the
weights sorted in descending order fall lexicographically, and a group with weights on both sides cannot run away.

With one scale an output channel the rows of the weights gain nothing by this; r1_i then stands for the range of the
activation, which is what has one grid for all channels. Where data is at hand, `factors_from_ranges` knows that range.

Source: Nagel et al. 2019, arXiv:1906.04721, eq. (11): there s_i is a divisor, s_i = 1/r2_i sqrt(r1_i r2_i).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fts_converters.equalize.channel_groups import ChannelGroups
from fts_converters.equalize.factors import Exponents, Factors, factors_of_groups
from fts_converters.equalize.norm_condition import Variances, norm_refusals
from fts_converters.equalize.ties import Ids
from fts_converters.equalize.weight_table import Values, weight_tables
from fts_converters.passes.contract import Refusal

# A channel that wants more is as good as dead: its weights say nothing, and stay.
MOST_EXPONENT = 24
# Half a step, and what log2 may round a tie away from it: two nets that differ by powers of two must agree on a tie.
LEAST_DISTANCE = 0.5 + 1e-6
# Real nets need a few sweeps; a stop against a chain of a thousand groups that all lean on each other, not a budget.
MOST_SWEEPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Link:
    """The weights around a group.

    Attributes:
        made: log2 of the greatest weights that make it.
        made_from: The group that each reads.
        read: log2 of the greatest weights that read it.
        read_into: The group that each makes.
    """

    made: Values
    made_from: Ids
    read: Values
    read_into: Ids


def factors_from_weights(groups: ChannelGroups, variances: Variances | None = None) -> Factors:
    """Choose them.

    Args:
        groups: Of the graph.
        variances: Least calibrated variances of the inputs of norms; without them nothing in front of a norm is scaled.

    Returns:
        The factors, and why channels stay at 1. For the graph with these factors in it all further ones are 1.
    """
    refused: dict[int, Refusal] = {}
    links = _links(groups)
    while True:
        exponents = _balance(groups, links, set(refused))
        new = norm_refusals(groups, exponents, variances or {}) | _as_good_as_dead(groups, exponents)
        if not new:
            return factors_of_groups(groups, exponents, (*groups.refusals, *dict.fromkeys(refused.values())))
        refused |= new


def _as_good_as_dead(groups: ChannelGroups, exponents: Exponents) -> dict[int, Refusal]:
    reason = f"a channel's weights ask for a factor beyond 2^{MOST_EXPONENT}: it is as good as dead"
    names = {int(g): name for name, c in groups.channels.items() for g in np.unique(c.ids)}
    wild = np.flatnonzero(np.abs(exponents) > MOST_EXPONENT)
    return {int(g): Refusal(node=names.get(int(g), ""), reason=reason) for g in wild}


def _balance(groups: ChannelGroups, links: Mapping[int, _Link], fixed: set[int]) -> Exponents:
    exponents = np.zeros(groups.count + 1, np.int64)  # the last one is nobody's, and stays 0
    free = [int(g) for g in groups.free if int(g) not in fixed and int(g) in links]
    for _ in range(MOST_SWEEPS):
        is_moved = False
        for group in free:
            link = links[group]
            first = float((link.made - exponents[link.made_from]).max()) + exponents[group]
            second = float((link.read + exponents[link.read_into]).max()) - exponents[group]
            distance = (second - first) / 2
            move = int(np.rint(distance)) if abs(distance) > LEAST_DISTANCE else 0
            exponents[group] += move
            is_moved |= move != 0
        if not is_moved:
            break
    return exponents[:-1]


def _links(groups: ChannelGroups) -> dict[int, _Link]:
    """Groups with weights on both sides. A weight between two channels of one group does not change and has no say."""
    tables = list(weight_tables(groups))
    made, read = (
        np.concatenate([np.zeros(0, np.int64), *(getattr(t, side) for t in tables)]) for side in ("made", "read")
    )
    log2 = np.log2(np.concatenate([np.zeros(0), *(t.greatest for t in tables)]))
    between = made != read
    made, read, log2 = made[between], read[between], log2[between]
    makers, readers = _rows_by(made, groups.count), _rows_by(read, groups.count)
    return {
        g: _Link(made=log2[makers[g]], made_from=read[makers[g]], read=log2[readers[g]], read_into=made[readers[g]])
        for g in range(groups.count)
        if len(makers[g]) and len(readers[g])
    }


def _rows_by(numbers: Ids, count: int) -> list[Ids]:
    """For each number below `count` the rows that have it."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, count + 1)))[:count]

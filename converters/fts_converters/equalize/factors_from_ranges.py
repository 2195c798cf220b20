"""Choose factors from calibrated ranges: least estimated rounding noise at what reads the channels.

A tensor T has one grid for all channels, with step D_T = (greatest - least value) / levels; a weight row o has its own,
with step D_o = greatest |w| / weight_steps. Rounding adds noise of D^2 / 12 a value. For a reader with weights W the
noise at its output o, relative to the signal there, with channel c scaled by s_c, is

    N_o = [ sum_c D_T^2 / 12 * |W_oc|^2 / s_c^2  +  D_o^2 / 12 * sum_c n_oc s_c^2 p_c ] / P_o,     P_o = sum_c |W_oc|^2 p_c

where p_c is the mean square of channel c, |W_oc|^2 the sum of squares and n_oc the number of the weights in between, and
D_T = max s_c high_c - min s_c low_c (0 included) / levels, D_o = max_c |w_oc| / s_c / weight_steps. Minimised is

    sum over readers of mean_o N_o,  where the first term counts every rounded tensor in whose grid the channel stands

by coordinate descent in steps of 2 from s = 1 on, until no step gains. N_o does not depend on the scale of output o, so that
the net with the factors in it gives the same numbers, and asks for no further ones.

p_c comes from the range: (reach / REACH_IN_DEVIATIONS)^2. Does *not* know how much an output matters further on: each
output of each reader counts the same, which is right behind a norm or before another equalized tensor.

Source: Bennett 1948, Spectra of quantized signals (noise D^2 / 12); the sum over outputs as in Meller et al. 2019,
arXiv:1902.01917, section 4, with the weights' own rounding added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fts_calibration.statistics.statistics import Statistics
from fts_converters.equalize.channel_groups import ChannelGroups
from fts_converters.equalize.factors import Exponents, Factors, factors_of_groups
from fts_converters.equalize.norm_condition import Variances, norm_refusals
from fts_converters.equalize.ties import Ids
from fts_converters.equalize.trace import NormInput
from fts_converters.equalize.weight_table import Values, weight_tables
from fts_converters.passes.contract import Refusal

LEVELS = 255
WEIGHT_STEPS = 127
# How many deviations the greatest of some 10^5 values lies from 0: 4 for normal ones, more for heavy tails. It only weighs
# the two kinds of noise against each other.
REACH_IN_DEVIATIONS = 4.0
MOST_EXPONENT = 16
# A step has to gain this share of the noise that it touches, which is far above what float64 sums are off by.
LEAST_GAIN = 1e-6
MOST_SWEEPS = 100


def factors_from_ranges(
    groups: ChannelGroups,
    statistics: Statistics,
    variances: Variances | None = None,
    *,
    weight_steps: int = WEIGHT_STEPS,
) -> Factors:
    """Choose them.

    Args:
        groups: Of the graph.
        statistics: Of the graph; tensors with channel ranges are those that are rounded on one grid.
        variances: Least calibrated variances of the inputs of norms; without them nothing in front of a norm is scaled.
        weight_steps: Steps of a weight's grid between 0 and its greatest: 127 for 8 bits, 63 for 7.

    Returns:
        The factors, and why channels stay at 1. For the graph with these factors in it all further ones are 1.
    """
    refused: dict[int, Refusal] = {}
    while True:
        exponents = _Descent(groups, statistics, set(refused), weight_steps).run()
        new = norm_refusals(groups, exponents, variances or {}) | _beyond(groups, exponents)
        if not new:
            return factors_of_groups(groups, exponents, (*groups.refusals, *dict.fromkeys(refused.values())))
        refused |= new


def _beyond(groups: ChannelGroups, exponents: Exponents) -> dict[int, Refusal]:
    reason = f"a channel's range asks for a factor beyond 2^{MOST_EXPONENT}: it is as good as dead"
    names = {int(g): name for name, c in groups.channels.items() for g in np.unique(c.ids)}
    wild = np.flatnonzero(np.abs(exponents) > MOST_EXPONENT)
    return {int(g): Refusal(node=names.get(int(g), ""), reason=reason) for g in wild}


@dataclass(slots=True, kw_only=True, eq=False)
class _Rounded:
    """A tensor with one grid: its groups, and the range of each."""

    groups: Ids
    low: Values
    high: Values


@dataclass(slots=True, kw_only=True, eq=False)
class _Reader:
    """Weights behind a tensor with known ranges, as (rows, columns) matrices.

    Attributes:
        columns: (I,) group of each column.
        column_of: Group to its column.
        greatest: (O, I) greatest |w|.
        signal: (O, I) n * p.
        power: (O,) P_o.
    """

    columns: Ids
    column_of: Mapping[int, int]
    greatest: Values
    signal: Values
    power: Values

    def noise(self, exponents: Exponents, weight_steps: int) -> float:
        """mean_o of the second term of N_o, times 12."""
        scale = np.exp2(exponents[self.columns])
        step = (self.greatest / scale).max(axis=1) / weight_steps
        return float((step**2 * (self.signal @ scale**2) / self.power).mean())


class _Descent:
    """The noise as a function of the exponents, and the way down."""

    def __init__(self, groups: ChannelGroups, statistics: Statistics, fixed: set[int], weight_steps: int) -> None:
        self._weight_steps = weight_steps
        self._rounded = list(_rounded_tensors(groups, statistics))
        powers = {
            name: _powers(groups, statistics, name) for name in groups.channels if name in statistics.channel_ranges
        }
        self._gain = np.zeros(groups.count)  # sum over readers of mean_o |W_oc|^2 / P_o
        self._readers: list[_Reader] = []
        for table in weight_tables(groups):
            source = next((t.name for t in table.node.inputs if t.name in powers), None)
            known = powers.get(source, {}) if source else {}
            self._add_reader(table.made, table.read, table.greatest, table.energy, table.count, known)
        for norm in groups.norms:
            self._add_norm(norm, powers.get(norm.tensor, {}))
        self._by_group_rounded = _positions(groups.count, [t.groups for t in self._rounded])
        self._by_group_reader = _positions(groups.count, [r.columns for r in self._readers])
        self._exponents = np.zeros(groups.count, np.int64)
        self._moving = [int(g) for g in groups.free if int(g) not in fixed and self._gain[g] > 0]

    def _add_reader(
        self, made: Ids, read: Ids, greatest: Values, energy: Values, count: Values, power: Mapping[int, float]
    ) -> None:
        heard = np.array([power.get(int(g), 0.0) > 0 for g in read], bool)
        if not heard.any():
            return
        rows, row_of = np.unique(made[heard], return_inverse=True)
        columns, column_of = np.unique(read[heard], return_inverse=True)
        shape = len(rows), len(columns)
        tables = [np.zeros(shape) for _ in range(3)]
        for table, values in zip(tables, (greatest, energy, count), strict=True):
            table[row_of, column_of] = values[heard]
        p = np.array([power[int(g)] for g in columns])
        total = tables[1] @ p
        self._gain[columns] += (tables[1] / total[:, None]).mean(axis=0)
        self._readers.append(
            _Reader(
                columns=columns,
                column_of={int(g): i for i, g in enumerate(columns)},
                greatest=tables[0],
                signal=tables[2] * p,
                power=total,
            )
        )

    def _add_norm(self, norm: NormInput, power: Mapping[int, float]) -> None:
        """A norm divides by the deviation: relative noise is all that counts."""
        for group in np.unique(norm.ids).tolist():
            if power.get(group, 0.0) > 0:
                self._gain[group] += 1.0 / (power[group] * len(norm.ids))

    def run(self) -> Exponents:
        for _ in range(MOST_SWEEPS):
            is_moved = [self._step(group) for group in self._moving]
            if not any(is_moved):
                break
        return self._exponents

    def _step(self, group: int) -> bool:
        now = self._noise_around(group)
        for move in (1, -1):
            self._exponents[group] += move
            if self._noise_around(group) < now * (1.0 - LEAST_GAIN):
                return True
            self._exponents[group] -= move
        return False

    def _noise_around(self, group: int) -> float:
        """The terms that the group's exponent has a part in, times 12."""
        total = 0.0
        for position in self._by_group_rounded[group]:
            tensor = self._rounded[position]
            scale = np.exp2(self._exponents[tensor.groups])
            step = ((scale * tensor.high).max() - (scale * tensor.low).min()) / LEVELS
            total += step**2 * float((self._gain[tensor.groups] / scale**2).sum())
        return total + sum(
            self._readers[p].noise(self._exponents, self._weight_steps) for p in self._by_group_reader[group]
        )


def _rounded_tensors(groups: ChannelGroups, statistics: Statistics) -> Iterator[_Rounded]:
    for name, ranges in statistics.channel_ranges.items():
        channels = groups.channels.get(name)
        if channels is None or channels.axis != 1 or len(channels.ids) != len(ranges):
            continue
        distinct, index = np.unique(channels.ids, return_inverse=True)
        low, high = np.zeros(len(distinct)), np.zeros(len(distinct))
        np.minimum.at(low, index, [r.low for r in ranges])
        np.maximum.at(high, index, [r.high for r in ranges])
        yield _Rounded(groups=distinct, low=low, high=high)


def _powers(groups: ChannelGroups, statistics: Statistics, name: str) -> dict[int, float]:
    """p of each group in a tensor: the mean over its channels."""
    channels, ranges = groups.channels[name], statistics.channel_ranges[name]
    if channels.axis != 1 or len(channels.ids) != len(ranges):
        return {}
    reach = np.array([max(abs(r.low), abs(r.high)) for r in ranges]) / REACH_IN_DEVIATIONS
    distinct, index = np.unique(channels.ids, return_inverse=True)
    means = np.bincount(index, reach**2) / np.bincount(index)
    return dict(zip(distinct.tolist(), means.tolist(), strict=True))


def _positions(count: int, members: list[Ids]) -> list[list[int]]:
    """For each group the positions of the sets that it is in."""
    positions: list[list[int]] = [[] for _ in range(count)]
    for position, ids in enumerate(members):
        for group in ids.tolist():
            positions[group].append(position)
    return positions

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

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fts_calibration.statistics.statistics import Statistics, TensorRange
from fts_converters.equalize.channel_groups import ChannelGroups
from fts_converters.equalize.factors import Exponents, Factors, factors_of_groups
from fts_converters.equalize.norm_condition import Variances, norm_refusals
from fts_converters.equalize.ties import Ids
from fts_converters.equalize.trace import NormInput
from fts_converters.equalize.weight_table import Values, weight_tables
from fts_converters.passes.contract import Refusal

ChannelRanges = Mapping[str, Sequence[TensorRange]]

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
    rounded: Collection[str] | None = None,
    weight_steps: int = WEIGHT_STEPS,
) -> Factors:
    """Choose them.

    Args:
        groups: Of the graph.
        statistics: Of the graph, by channel along axis 1. A tensor that has a range and no channel ranges keeps its
            scale: nobody could say its range afterwards.
        variances: Least calibrated variances of the inputs of norms; without them nothing in front of a norm is scaled.
        rounded: Tensors that are rounded on one grid for all channels; None for all that have channel ranges.
        weight_steps: Steps of a weight's grid between 0 and its greatest: 127 for 8 bits, 63 for 7.

    Returns:
        The factors, and why channels stay at 1. For the graph with these factors in it all further ones are 1.
    """
    refused = _unmeasured(groups, statistics)
    heard = statistics.channel_ranges
    heard = {
        n: r for n, r in heard.items() if (rounded is None or n in rounded) and _is_measured(groups, statistics, n)
    }
    while True:
        exponents = _Descent(groups, heard, set(refused), weight_steps).run()
        new = norm_refusals(groups, exponents, variances or {}) | _beyond(groups, exponents)
        if not new:
            return factors_of_groups(groups, exponents, (*groups.refusals, *dict.fromkeys(refused.values())))
        refused |= new


def _is_measured(groups: ChannelGroups, statistics: Statistics, name: str) -> bool:
    channels = groups.channels.get(name)
    return (
        channels is not None
        and channels.axis == 1
        and len(channels.ids) == len(statistics.channel_ranges.get(name, ()))
    )


def _unmeasured(groups: ChannelGroups, statistics: Statistics) -> dict[int, Refusal]:
    """Groups in a tensor whose range is wanted, but known for the whole alone."""
    refused: dict[int, Refusal] = {}
    for name in statistics.ranges:
        if name in groups.channels and not _is_measured(groups, statistics, name):
            refusal = Refusal(node=name, reason="the ranges of its channels were not measured")
            refused.update({int(g): refusal for g in groups.channels[name].ids if int(g) not in groups.blocked})
    return refused


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


class _Reader:
    """Weights behind a tensor with known ranges, as (O, I) matrices, and what their own rounding costs.

    For each row the two greatest |w_oc| / s_c are kept, so that trying another factor of one column looks at that alone.
    """

    def __init__(self, columns: Ids, greatest: Values, signal: Values, power: Values, weight_steps: int) -> None:
        """`columns` (I,) groups, `greatest` |w|, `signal` n * p, `power` (O,) P_o."""
        self.columns = columns
        self._column_of = {int(g): i for i, g in enumerate(columns)}
        self._greatest = greatest
        self._signal = signal
        self._weight = 1.0 / (power * weight_steps**2 * len(power))
        self._exponents = np.zeros(len(columns))
        self._first, self._first_at, self._second, self._sum = (np.zeros(len(power)) for _ in range(4))
        self._look(np.arange(len(power)))

    def noise(self, group: int, exponent: int) -> float:
        """mean_o of the second term of N_o, times 12, were the group's exponent this one."""
        column = self._column_of[group]
        others = np.where(self._first_at == column, self._second, self._first)
        step = np.maximum(others, self._greatest[:, column] * 2.0**-exponent)
        change = 4.0**exponent - 4.0 ** self._exponents[column]
        return float((self._weight * step**2 * (self._sum + self._signal[:, column] * change)).sum())

    def move(self, group: int, exponent: int) -> None:
        """Give the group this exponent."""
        column = self._column_of[group]
        self._exponents[column] = exponent
        self._look(np.flatnonzero(self._greatest[:, column]))

    def _look(self, rows: Ids) -> None:
        scaled = self._greatest[rows] * np.exp2(-self._exponents)
        self._first_at[rows] = scaled.argmax(axis=1)
        self._first[rows] = scaled.max(axis=1)
        scaled[np.arange(len(rows)), scaled.argmax(axis=1)] = 0.0
        self._second[rows] = scaled.max(axis=1)
        self._sum[rows] = self._signal[rows] @ np.exp2(2.0 * self._exponents)


class _Descent:
    """The noise as a function of the exponents, and the way down."""

    def __init__(self, groups: ChannelGroups, heard: ChannelRanges, fixed: set[int], weight_steps: int) -> None:
        self._weight_steps = weight_steps
        self._rounded = [_rounded_tensor(groups, name, ranges) for name, ranges in heard.items()]
        powers = {name: _powers(groups, name, ranges) for name, ranges in heard.items()}
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
        self._readers.append(_Reader(columns, tables[0], tables[2] * p, total, self._weight_steps))

    def _add_norm(self, norm: NormInput, power: Mapping[int, float]) -> None:
        """A norm divides by the deviation: relative noise is all that counts."""
        for group in np.unique(norm.ids).tolist():
            if power.get(group, 0.0) > 0:
                self._gain[group] += 1.0 / (power[group] * len(norm.ids))

    def run(self) -> Exponents:
        """Until no step of any group gains; a group is looked at again when one that shares a term with it has moved."""
        due = self._moving
        for _ in range(MOST_SWEEPS):
            moved = [group for group in due if self._move(group)]
            if not moved:
                break
            around = {id(ids): ids for g in moved for ids in self._sharing(g)}
            touched = {int(g) for ids in around.values() for g in ids}
            due = [group for group in self._moving if group in touched]
        return self._exponents

    def _sharing(self, group: int) -> list[Ids]:
        rounded = [self._rounded[p].groups for p in self._by_group_rounded[group]]
        return rounded + [self._readers[p].columns for p in self._by_group_reader[group]]

    def _move(self, group: int) -> bool:
        """Move one group by factors of 2, up or down, as long as each gains."""
        start = exponent = int(self._exponents[group])
        now = self._noise_around(group, exponent)
        for direction in (1, -1):
            while abs(exponent) <= MOST_EXPONENT:
                noise = self._noise_around(group, exponent + direction)
                if not noise < now * (1.0 - LEAST_GAIN):
                    break
                exponent, now = exponent + direction, noise
            if exponent != start:
                break
        if exponent == start:
            return False
        self._exponents[group] = exponent
        for position in self._by_group_reader[group]:
            self._readers[position].move(group, exponent)
        return True

    def _noise_around(self, group: int, exponent: int) -> float:
        """The terms that the group has a part in, times 12, were its exponent this one."""
        total = 0.0
        for position in self._by_group_rounded[group]:
            tensor = self._rounded[position]
            scale = np.exp2(np.where(tensor.groups == group, exponent, self._exponents[tensor.groups]))
            step = ((scale * tensor.high).max() - (scale * tensor.low).min()) / LEVELS
            total += step**2 * float((self._gain[tensor.groups] / scale**2).sum())
        return total + sum(self._readers[p].noise(group, exponent) for p in self._by_group_reader[group])


def _rounded_tensor(groups: ChannelGroups, name: str, ranges: Sequence[TensorRange]) -> _Rounded:
    distinct, index = np.unique(groups.channels[name].ids, return_inverse=True)
    low, high = np.zeros(len(distinct)), np.zeros(len(distinct))
    np.minimum.at(low, index, [r.low for r in ranges])
    np.maximum.at(high, index, [r.high for r in ranges])
    return _Rounded(groups=distinct, low=low, high=high)


def _powers(groups: ChannelGroups, name: str, ranges: Sequence[TensorRange]) -> dict[int, float]:
    """p of each group in a tensor: the mean over its channels."""
    reach = np.array([max(abs(r.low), abs(r.high)) for r in ranges]) / REACH_IN_DEVIATIONS
    distinct, index = np.unique(groups.channels[name].ids, return_inverse=True)
    means = np.bincount(index, reach**2) / np.bincount(index)
    return dict(zip(distinct.tolist(), means.tolist(), strict=True))


def _positions(count: int, members: list[Ids]) -> list[list[int]]:
    """For each group the positions of the sets that it is in."""
    positions: list[list[int]] = [[] for _ in range(count)]
    for position, ids in enumerate(members):
        for group in ids.tolist():
            positions[group].append(position)
    return positions

"""Weights summed up by the channels between which they stand: what the choice of factors looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.equalize.channel_groups import ChannelGroups
from fts_converters.equalize.ties import Ids
from fts_converters.equalize.trace import Absorber
from fts_converters.passes.graph_reading import constant

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightTable:
    """One weight constant; a row is a pair of groups with non-zero weights in between.

    Attributes:
        node: The node that has it.
        made: (n,) group that the weights make; `ChannelGroups.count` where they make none that can be scaled.
        read: (n,) group that they read; likewise.
        greatest: (n,) greatest |w|.
        energy: (n,) sum of w^2.
        count: (n,) number of non-zero weights.
    """

    node: gs.Node
    made: Ids
    read: Ids
    greatest: Values
    energy: Values
    count: Values


def weight_tables(groups: ChannelGroups) -> Iterator[WeightTable]:
    """All of them in graph order; weights that are not finite say nothing and are left out."""
    by_constant: dict[tuple[int, int], list[Absorber]] = {}
    for absorber in groups.absorbers:
        if absorber.is_weight:
            by_constant.setdefault((id(absorber.node), absorber.position), []).append(absorber)
    for (_, position), absorbers in by_constant.items():
        node = absorbers[0].node
        weight = np.abs(np.asarray(constant(node.inputs[position]), np.float64))
        sides = {a.sign: a.ids for a in absorbers}
        nobody = np.full((1,) * weight.ndim, groups.count, np.int64)
        yield _table(node, weight, sides.get(1, nobody), sides.get(-1, nobody), groups.count + 1)


def _table(node: gs.Node, weight: Values, made: Ids, read: Ids, base: int) -> WeightTable:
    rank = max(weight.ndim, made.ndim, read.ndim)
    weight = weight.reshape((1,) * (rank - weight.ndim) + weight.shape)
    made, read = (a.reshape((1,) * (rank - a.ndim) + a.shape) for a in (made, read))
    weight = np.where(np.isfinite(weight), weight, 0.0)
    same = tuple(a for a in range(rank) if made.shape[a] == read.shape[a] == 1)
    shape = np.broadcast_shapes(
        *(tuple(1 if a in same else n for a, n in enumerate(t.shape)) for t in (weight, made, read))
    )
    codes = np.broadcast_to(made * base + read, shape)
    parts = (weight, weight**2, (weight != 0).astype(np.float64))
    reduced = [parts[0].max(same, keepdims=True), *(p.sum(same, keepdims=True) for p in parts[1:])]
    columns = [np.ravel(np.broadcast_to(p, codes.shape)) for p in reduced]
    pairs, rows = np.unique(np.ravel(codes), return_inverse=True)
    greatest = np.zeros(len(pairs))
    np.maximum.at(greatest, rows, columns[0])
    energy, count = (np.bincount(rows, c, len(pairs)).astype(np.float64) for c in columns[1:])
    used = greatest > 0
    return WeightTable(
        node=node,
        made=(pairs // base)[used],
        read=(pairs % base)[used],
        greatest=greatest[used],
        energy=energy[used],
        count=count[used],
    )

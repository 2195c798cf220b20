"""Constant places of an axis as few slices, or as one Gather."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.lower.new_nodes import NewNodes

# Slices that are put together by one Concat; above it one Gather is shorter to read and no slower.
MOST_PIECES = 8


def runs_of(places: npt.NDArray[np.int64], breaks: Collection[int] = ()) -> list[tuple[int, int, int]]:
    """Cut places into runs (start, count, step) of equal steps, from the left, each as long as it goes.

    Args:
        places: Places, in order.
        breaks: Numbers that no run crosses: a run stays below one, or at and above it.
    """
    side = np.searchsorted(sorted(breaks), places, side="right")
    runs = []
    i = 0
    while i < len(places):
        step = int(places[i + 1] - places[i]) if i + 1 < len(places) and side[i + 1] == side[i] else 1
        step = step or 1
        count = 1
        while i + count < len(places) and places[i + count] - places[i] == step * count and side[i + count] == side[i]:
            count += 1
        if count == 2 and step != 1:
            count = 1  # two places are always a run; the second may begin a longer one
        runs.append((int(places[i]), count, step if count > 1 else 1))
        i += count
    return runs


def pick_rows(nodes: NewNodes, x: gs.Tensor, places: npt.NDArray[np.int64], axis: int = 0) -> gs.Tensor:
    """Places of an axis, none negative: slices put together, or a Gather."""
    runs = runs_of(places)
    if len(runs) > MOST_PIECES:
        return nodes.gather(x, places, axis)
    return nodes.concat([nodes.slice(x, axis, s, s + n * step, step) for s, n, step in runs], axis)

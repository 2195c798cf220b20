"""ScatterND and ScatterElements with constant, distinct indices become pieces of data and updates put together.

Both write rows of `updates` over rows of `data`, seen as (rows, inner): a row is what the index names. For each row of the
result it is known here whether it comes from data or from updates, and from which place. Runs of such places are slices;
up to MOST_PIECES of them are sliced and concatenated, more are gathered from data and updates behind each other:

    y = Gather(Concat(data, updates), source),   source[r] = r, or rows + u where update u lies on r

With a reduction (add, mul, max, min) the updates are first combined with the rows that they fall on, which is the same
when no row is named twice. Refused: computed indices, a row named twice (without a reduction its result is not defined).

Source: ScatterND and ScatterElements of the ONNX operator specification.
"""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.lower.pieces import MOST_PIECES, pick_rows, runs_of
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_reading import constant

REDUCTIONS = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
Rows = npt.NDArray[np.int64]


def scatter_to_concat(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted ScatterND and ScatterElements."""
    return lower_each(model, ("ScatterND", "ScatterElements"), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    data, _, updates = node.inputs
    indices = constant(node.inputs[1])
    if indices is None:
        return "its indices are computed"
    shape = nodes.shape(data)
    if node.op == "ScatterND":
        written, inner = _rows_of_points(indices, shape), prod(shape[indices.shape[-1] :])
    else:
        written, inner = _rows_of_elements(indices, shape, int(node.attrs.get("axis", 0))), 1
    if len(np.unique(written)) < len(written):
        return "its indices name a place twice"
    rows = prod(shape) // inner
    new = nodes.reshape(updates, [len(written), inner])
    old = nodes.reshape(data, [rows, inner])
    reduction = str(node.attrs.get("reduction", "none"))
    if reduction != "none":
        new = nodes.binary(REDUCTIONS[reduction], pick_rows(nodes, old, written), new)
    source = np.arange(rows)
    source[written] = rows + np.arange(len(written))
    return nodes.reshape(_put_together(nodes, old, new, source), shape)


def _rows_of_points(indices: npt.NDArray[np.generic], shape: tuple[int, ...]) -> Rows:
    """Row numbers that the points (…, depth) name, in the order of the updates."""
    depth = indices.shape[-1]
    points = indices.reshape(-1, depth).astype(np.int64)
    points = np.where(points < 0, points + np.array(shape[:depth]), points)
    return np.ravel_multi_index(tuple(points.T), shape[:depth]).astype(np.int64) if depth else np.zeros(1, np.int64)


def _rows_of_elements(indices: npt.NDArray[np.generic], shape: tuple[int, ...], axis: int) -> Rows:
    """Flat places that indices along an axis name, in the order of the updates."""
    axis %= len(shape)
    places: list[Rows] = list(np.indices(indices.shape))
    at = indices.astype(np.int64)
    places[axis] = np.where(at < 0, at + shape[axis], at)
    return np.ravel_multi_index(tuple(p.reshape(-1) for p in places), shape).astype(np.int64)


def _put_together(nodes: NewNodes, old: gs.Tensor, new: gs.Tensor, source: Rows) -> gs.Tensor:
    rows = nodes.shape(old)[0]
    if source.min() >= rows:  # nothing of data is left
        return pick_rows(nodes, new, source - rows)
    runs = runs_of(source, breaks=(rows,))
    if len(runs) > MOST_PIECES:
        return nodes.gather(nodes.concat([old, new], 0), source)
    parts = []
    for start, count, step in runs:
        whole, at = (old, start) if start < rows else (new, start - rows)
        parts.append(nodes.slice(whole, 0, at, at + count * step, step))
    return nodes.concat(parts, 0)

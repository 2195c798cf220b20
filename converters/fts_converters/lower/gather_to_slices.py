"""Gather, GatherElements and GatherND with constant indices become slices put together, or a Gather of places >= 0.

GatherND and GatherElements name rows of their data seen as (rows, inner): picked from the flattened data. Gather with
few runs of places is a Concat of slices; with more it stays a Gather, counted from the front, which some engines ask for.

Refused: computed indices; a Gather that is already as simple as it gets.
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


def gather_to_slices(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted Gather, GatherElements and GatherND."""
    return lower_each(model, ("Gather", "GatherElements", "GatherND"), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x, result = node.inputs[0], node.outputs[0]
    found = constant(node.inputs[1])
    if found is None:
        return "its indices are computed"
    indices = found.astype(np.int64)
    shape = nodes.shape(x)
    if node.op == "Gather":
        axis = int(node.attrs.get("axis", 0)) % len(shape)
        places = np.where(indices < 0, indices + shape[axis], indices).reshape(-1)
        if len(runs_of(places)) > MOST_PIECES and indices.min() >= 0 and indices.ndim == 1:
            return f"its indices are more than {MOST_PIECES} runs"
        return nodes.reshape(pick_rows(nodes, x, places, axis), nodes.shape(result))
    if node.op == "GatherElements":
        axis = int(node.attrs.get("axis", 0)) % len(shape)
        at: list[npt.NDArray[np.int64]] = list(np.indices(indices.shape))
        at[axis] = np.where(indices < 0, indices + shape[axis], indices)
        rows, inner = np.ravel_multi_index(tuple(a.reshape(-1) for a in at), shape), 1
    else:
        batch, depth = int(node.attrs.get("batch_dims", 0)), indices.shape[-1]
        points = np.where(indices < 0, indices + np.array(shape[batch : batch + depth]), indices)
        lead = np.indices(indices.shape[:-1])[:batch]
        at = [*lead, *np.moveaxis(points, -1, 0)]
        rows = np.ravel_multi_index(tuple(a.reshape(-1) for a in at), shape[: batch + depth])
        inner = prod(shape[batch + depth :])
    flat = nodes.reshape(x, [prod(shape) // inner, inner])
    return nodes.reshape(pick_rows(nodes, flat, rows.astype(np.int64)), nodes.shape(result))

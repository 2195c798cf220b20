"""A loop that could not be unrolled is refused: no engine of any target compiles it, and nothing in it could be quantized.

Does *not* look at an If: one with a live condition stays, in float.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_graphsurgeon as gs

from fts.errors import UnsupportedOpError
from fts_converters.model import Model
from fts_converters.passes import CleanResult
from fts_converters.passes.graph_reading import label
from fts_converters.passes.subgraph_copies import subgraphs_of
from fts_converters.passes.unroll_loops import LOOPS

UNROLL = "unroll_loops"


def refuse_loops(model: Model, cleaned: CleanResult, *, engine: str) -> None:
    """Look for loops in a cleaned net.

    Args:
        model: As `clean` left it.
        cleaned: What `clean` did; its refusals say why a loop stayed.
        engine: Of the target, for the error.

    Raises:
        UnsupportedOpError: A Loop or Scan is left; the message has the reason and what to do.
    """
    node = next(_loops(model.graph), None)
    if node is None:
        return
    record = next((r for r in cleaned.records if r.name == UNROLL), None)
    found = [x.reason for x in record.refusals if x.node == label(node)] if record else []
    absent = "the pass unroll_loops was left out" if record is None else "it is inside of one that stays"
    reason = found[0] if found else absent
    raise UnsupportedOpError(
        f"model {model.source!r}, node {label(node)!r}: {node.op} cannot be unrolled: {reason}; expected a number of "
        "iterations that the input shapes settle. Export the net with a fixed number of iterations (torch: trace it, or "
        "write the loop over a Python int), give the size by --shape, or fix the input that decides it by a value in the --card",
        node=label(node),
        op_type=node.op,
        domain=node.domain or "",
        engine=engine,
    )


def _loops(graph: gs.Graph) -> Iterator[gs.Node]:
    """All Loop and Scan nodes, outer ones first."""
    for node in graph.nodes:
        if node.op in LOOPS and not node.domain:
            yield node
    for node in graph.nodes:
        for inner in subgraphs_of(node):
            yield from _loops(inner)

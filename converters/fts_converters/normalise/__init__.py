"""Forms that the standard forbids or that libraries trip over, and onnxruntime runs: brought to the usual form on load.

One form a file; each changes a ModelProto in place and not what it computes. Runs before the checker.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from fts_converters.normalise.domains import name_the_standard_domain
from fts_converters.normalise.mean_variance import write_out_mean_variance
from fts_converters.normalise.node_order import sort_nodes
from fts_converters.normalise.sparse_constants import fill_in_sparse_constants

NORMALISERS: tuple[Callable[[onnx.ModelProto], None], ...] = (
    name_the_standard_domain,  # first: the others look for operators of the domain ""
    fill_in_sparse_constants,
    sort_nodes,
    write_out_mean_variance,
)


def normalise(model: onnx.ModelProto) -> None:
    """Run all in order.

    Raises:
        ModelError: Two versions of one operator set, or a sparse constant that is too large filled in.
    """
    for step in NORMALISERS:
        step(model)

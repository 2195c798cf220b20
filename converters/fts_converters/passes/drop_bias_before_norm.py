"""Remove the bias of a convolution whose output goes into InstanceNormalization alone.

The norm subtracts each plane's mean, so a constant per channel has no effect: norm(y + b) = norm(y). It costs an addition, and
under INT8 far more: the grid has to reach from the bias to 0, and a nearly flat plane on top of a large bias gets a step or
two of it. Requires: Conv or ConvTranspose with a constant bias, read by the norm alone. Does *not* hold for GroupNormalization,
whose mean is taken over several channels.
"""

from __future__ import annotations

import numpy as np

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_editing import finish
from fts_converters.passes.graph_reading import constant, only_reader


def drop_bias_before_norm(model: Model) -> PassResult:
    """Drops each such bias; a bias of zeros too, since it says nothing."""
    graph = model.graph
    is_changed = False
    for node in list(graph.nodes):
        if node.domain or node.op not in ("Conv", "ConvTranspose") or len(node.inputs) < 3 or not node.inputs[2].name:
            continue
        bias = constant(node.inputs[2])
        reader = only_reader(graph, node.outputs[0])
        if bias is None or not np.isfinite(bias).all() or reader is None or reader.domain:
            continue
        if reader.op == "InstanceNormalization" and reader.inputs[0] is node.outputs[0]:
            node.inputs = list(node.inputs)[:2]
            is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed)

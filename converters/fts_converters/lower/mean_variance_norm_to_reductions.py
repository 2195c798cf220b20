"""MeanVarianceNormalization becomes reductions: (x - mean) / (sqrt(var) + 1e-9), as its function body says.

Source: MeanVarianceNormalization of the ONNX operator specification, version 13, function body.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult

DEFAULT_AXES = (0, 2, 3)
EPSILON = 1e-9


def mean_variance_norm_to_reductions(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted MeanVarianceNormalization."""
    return lower_each(model, ("MeanVarianceNormalization",), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    axes = [int(a) % len(nodes.shape(x)) for a in node.attrs.get("axes", DEFAULT_AXES)]
    centred = nodes.binary("Sub", x, nodes.reduce("ReduceMean", x, axes))
    variance = nodes.reduce("ReduceMean", nodes.binary("Mul", centred, centred), axes)
    return nodes.binary("Div", centred, nodes.shifted(nodes.unary("Sqrt", variance), EPSILON, "epsilon"))

"""Max, Min, Sum and Mean of any number of operands become operations on two.

Sum(a, b, c) = Add(Add(a, b), c),   Mean = Sum / n,   Max and Min likewise
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult

OF_TWO = {"Max": "Max", "Min": "Min", "Sum": "Add", "Mean": "Add"}


def chain_operands(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted Max and Min of other than two operands, and Sum and Mean."""
    return lower_each(
        model, tuple(OF_TWO), _replace, choice.where(lambda n: OF_TWO[n.op] != n.op or len(n.inputs) != 2)
    )


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    value = node.inputs[0]
    for other in node.inputs[1:]:
        value = nodes.binary(OF_TWO[node.op], value, other)
    return nodes.scaled(value, 1 / len(node.inputs)) if node.op == "Mean" else value

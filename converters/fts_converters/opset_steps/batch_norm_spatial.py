"""BatchNormalization of opset 7 and 8 with spatial=0: one mean and variance for each element, not for each channel.

    y = (x - mean) / sqrt(variance + epsilon) * scale + bias,  all of shape (C, D1, ...) and broadcast over N

Source: onnx Changelog.md, BatchNormalization-7. Opset 9 has only the other form.
"""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

from fts_converters.fresh_names import FreshNames
from fts_converters.tensor_types import Scope


def write_out_batch_norm_per_element(scope: Scope, names: FreshNames, opset: int) -> None:
    """Replaces each such node by arithmetic, in place."""
    graph = scope.graph
    for position, node in reversed(list(enumerate(graph.node))):
        attributes = {a.name: a for a in node.attribute}
        is_per_element = "spatial" in attributes and attributes["spatial"].i == 0
        if node.op_type != "BatchNormalization" or node.domain or opset > 8 or not is_per_element:
            continue
        x, scale, bias, mean, variance = node.input
        y = node.output[0]
        epsilon = attributes["epsilon"].f if "epsilon" in attributes else 1e-5
        dtype = helper.tensor_dtype_to_np_dtype(scope.types[x])
        shift, raised, deviation, centred, unit, scaled = (
            names.take(f"{y}_{part}") for part in ("epsilon", "raised", "deviation", "centred", "unit", "scaled")
        )
        graph.initializer.append(numpy_helper.from_array(np.array(epsilon, dtype), shift))
        new = [
            helper.make_node("Add", [variance, shift], [raised]),
            helper.make_node("Sqrt", [raised], [deviation]),
            helper.make_node("Sub", [x, mean], [centred]),
            helper.make_node("Div", [centred, deviation], [unit]),
            helper.make_node("Mul", [unit, scale], [scaled]),
            helper.make_node("Add", [scaled, bias], [y], name=node.name),
        ]
        del graph.node[position]
        for offset, made in enumerate(new):
            graph.node.insert(position + offset, made)

"""Numbers that became operands: Clip's bounds and Pad's value, since opset 11 tensors of the data's own type.

The converter writes float32 whatever the data is. A bound outside the data's type bounds nothing and becomes infinite.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from fts_converters.fresh_names import FreshNames
from fts_converters.tensor_types import Scope

# Operator -> positions of the operands in question.
OPERANDS = {"Clip": (1, 2), "Pad": (2,)}


def give_operands_the_type_of_the_data(scope: Scope, names: FreshNames, opset: int) -> None:
    """Replaces float32 constants beside data of another type, in place."""
    graph = scope.graph
    constants = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            constants.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
    for node in graph.node:
        wanted = scope.types.get(node.input[0], 0) if node.input else 0
        for place in OPERANDS.get(node.op_type, ()) if not node.domain else ():
            tensor = constants.get(node.input[place]) if place < len(node.input) else None
            if tensor is None or wanted in (0, tensor.data_type) or tensor.data_type != onnx.TensorProto.FLOAT:
                continue
            name = names.take(f"{node.output[0]}_{node.op_type}_{place}".lower())
            with np.errstate(over="ignore"):
                value = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(wanted))
            graph.initializer.append(numpy_helper.from_array(value, name))
            node.input[place] = name

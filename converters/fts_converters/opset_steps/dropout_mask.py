"""The mask of a Dropout: dropped where nobody reads it, refused where somebody does.

It has the data's type in opset 7 and is boolean from 10 on; what it holds in inference is defined from 12 on only (all
true; onnxruntime gives all false before), so that a net which reads an older one has no meaning to keep.
"""

from __future__ import annotations

from fts.errors import ModelError
from fts_converters.fresh_names import FreshNames
from fts_converters.tensor_types import Scope, graphs


def drop_dropout_masks(scope: Scope, names: FreshNames, opset: int) -> None:
    """Changes every Dropout of a graph in place.

    Raises:
        ModelError: A mask is read, or an output.
    """
    if opset >= 12:
        return
    read = {name for g in graphs(scope.graph) for n in g.node for name in n.input}
    read.update(o.name for g in graphs(scope.graph) for o in g.output)
    for node in scope.graph.node:
        if node.op_type != "Dropout" or node.domain or len(node.output) < 2:
            continue
        mask = node.output[1]
        if mask and mask in read:
            raise ModelError(
                f"node {node.name or node.output[0]!r}: the mask {mask!r} of a Dropout of opset {opset} is used, "
                "and before opset 12 its content in inference is undefined. Export with opset 12 or newer, or without it"
            )
        del node.output[1:]

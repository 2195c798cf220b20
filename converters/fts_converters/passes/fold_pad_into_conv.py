"""A zero Pad in front of a convolution becomes the convolution's own padding.

Requires: constant mode with value 0, pads that are constants, not negative, and only on spatial axes; a Conv that alone
reads the result and has explicit pads. Does *not* fold reflect or edge pads, nor pads in front of pooling, whose own
padding means something else.
"""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import finish
from fts_converters.passes.graph_reading import constant, label, only_reader, own_nodes


def fold_pad_into_conv(model: Model) -> PassResult:
    """Folds each one that can be."""
    graph = model.graph
    members = own_nodes(graph)
    refusals = []
    is_changed = False
    for node in list(graph.nodes):
        if node.op != "Pad" or node.domain:
            continue
        reader = only_reader(graph, node.outputs[0])
        if reader is None or reader.op != "Conv" or reader.domain or reader.inputs[0] is not node.outputs[0]:
            continue
        if id(reader) not in members:
            continue
        pads = _spatial_pads(node)
        if isinstance(pads, str):
            refusals.append(Refusal(node=label(node), reason=pads))
        elif reader.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
            refusals.append(Refusal(node=label(node), reason="the Conv behind it pads by auto_pad"))
        else:
            own = reader.attrs.get("pads") or [0] * len(pads)
            reader.attrs["pads"] = [int(a) + int(b) for a, b in zip(own, pads, strict=True)]
            reader.attrs.pop("auto_pad", None)
            reader.inputs[0] = node.inputs[0]
            node.outputs.clear()
            node.inputs.clear()
            is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _spatial_pads(node: gs.Node) -> list[int] | str:
    """Begin and end pads of the spatial axes, or why they cannot be folded."""
    mode = node.attrs.get("mode", "constant")
    if mode != "constant":
        return f"it pads by {mode}, a convolution pads with zeros"
    if len(node.inputs) > 3 and node.inputs[3].name:
        return "it names its axes"
    pads = (
        node.attrs.get("pads") if "pads" in node.attrs else constant(node.inputs[1]) if len(node.inputs) > 1 else None
    )
    value = np.array(node.attrs.get("value", 0.0))
    if len(node.inputs) > 2 and node.inputs[2].name:
        given = constant(node.inputs[2])
        if given is None:
            return "its value is computed"
        value = given
    if pads is None:
        return "its pads are computed"
    if value.size and float(value.reshape(()).item()) != 0.0:
        return f"it pads with {float(value.reshape(()).item()):g}, a convolution pads with zeros"
    flat = [int(p) for p in np.asarray(pads).reshape(-1)]
    begin, end = flat[: len(flat) // 2], flat[len(flat) // 2 :]
    if any(begin[:2]) or any(end[:2]):
        return "it pads the batch or channel axis"
    if min(flat) < 0:
        return "it crops"
    return begin[2:] + end[2:]

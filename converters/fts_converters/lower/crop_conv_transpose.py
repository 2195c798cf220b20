"""ConvTranspose with pads becomes one without, and a Slice that cuts off what the pads would have.

Pads of a transposed convolution crop its output. For engines that take it with pads of 0 alone; output_padding, which
adds at the end, is then part of what is cut less. Refused: auto_pad, output_shape, and an end that lies beyond the
uncropped output.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult


def crop_conv_transpose(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted ConvTranspose that has pads."""
    return lower_each(model, ("ConvTranspose",), _replace, choice.where(lambda n: any(n.attrs.get("pads", ()))))


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    if node.attrs.get("output_shape") or node.attrs.get("auto_pad", "NOTSET") != "NOTSET":
        return "it asks for an output_shape or pads by auto_pad"
    x, result = node.inputs[0], nodes.shape(node.outputs[0])
    kernel, size = nodes.shape(node.inputs[1])[2:], nodes.shape(x)[2:]
    count = len(size)
    strides, dilations = (node.attrs.get(k) or [1] * count for k in ("strides", "dilations"))
    whole = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(size, strides, kernel, dilations, strict=True)]
    begin = node.attrs["pads"][:count]
    if any(b + n > w for b, n, w in zip(begin, result[2:], whole, strict=True)):
        return "its output ends behind what the kernel reaches"
    attrs = {k: v for k, v in node.attrs.items() if k not in ("pads", "output_padding")}
    value: gs.Tensor = nodes.add("ConvTranspose", node.inputs, [*result[:2], *whole], **attrs)
    for i, (b, n) in enumerate(zip(begin, result[2:], strict=True)):
        value = nodes.slice(value, 2 + i, int(b), int(b) + n)
    return value

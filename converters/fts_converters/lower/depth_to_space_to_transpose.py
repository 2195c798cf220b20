"""DepthToSpace and SpaceToDepth become Reshape, Transpose of 5 axes, Reshape.

Blocks r; CRD: (N C, r, r, H, W) -> (N C, H, r, W, r).  DCR: (N, r, r, C H W …) needs six axes, so it moves C first:
(N, r r, C, H W) -> (N, C, r r, H W), from where it is CRD. SpaceToDepth is the inverse of DCR.

Source: DepthToSpace and SpaceToDepth of the ONNX operator specification.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult


def depth_to_space_to_transpose(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted DepthToSpace and SpaceToDepth."""
    return lower_each(model, ("DepthToSpace", "SpaceToDepth"), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x = node.inputs[0]
    batch, depth, height, width = nodes.shape(x)
    r = int(node.attrs["blocksize"])
    if node.op == "SpaceToDepth":
        cells = nodes.reshape(x, [batch * depth, height // r, r, width // r, r])
        blocks = nodes.transpose(cells, [0, 2, 4, 1, 3])
        area = (height // r) * (width // r)
        turned = nodes.transpose(nodes.reshape(blocks, [batch, depth, r * r, area]), [0, 2, 1, 3])
        return nodes.reshape(turned, [batch, depth * r * r, height // r, width // r])
    channels = depth // (r * r)
    if str(node.attrs.get("mode", "DCR")) == "DCR":
        x = nodes.transpose(nodes.reshape(x, [batch, r * r, channels, height * width]), [0, 2, 1, 3])
    blocks = nodes.reshape(x, [batch * channels, r, r, height, width])
    cells = nodes.transpose(blocks, [0, 3, 1, 4, 2])
    return nodes.reshape(cells, [batch, channels, height * r, width * r])

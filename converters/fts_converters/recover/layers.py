"""Which units have weights that can be fitted, and as what products. Each other one has a reason."""

from __future__ import annotations

import onnx

from fts_calibration.recovery.linear_layer import ConvLayer, LinearLayer, MatrixLayer
from fts_converters.quantize.graph_index import GraphIndex, attributes_of
from fts_converters.quantize.units import Unit


def layer_of(unit: Unit, index: GraphIndex) -> LinearLayer | str:
    """The unit as matrix products, or why it is none."""
    node = next(n for n in index.model.graph.node if n.name == unit.name)
    if not unit.weight:
        return "it has no constant weight"
    shape = index.shape(unit.weight) or ()
    if unit.op_type == "Conv":
        return _conv(node, shape, index)
    if unit.op_type == "Gemm":
        return MatrixLayer(is_transposed=bool(attributes_of(node).get("transB")))
    if unit.op_type == "MatMul" and len(shape) == 2 and unit.weight_axis == 1:
        return MatrixLayer(is_transposed=False)
    return f"{unit.op_type} with a weight of shape {shape} is no plain matrix product"


def _conv(node: onnx.NodeProto, weight_shape: tuple[int, ...], index: GraphIndex) -> LinearLayer | str:
    attributes = attributes_of(node)
    rank = len(weight_shape) - 2

    def numbers(name: str, usual: int, count: int = rank) -> tuple[int, ...]:
        given = attributes.get(name)
        return tuple(int(v) for v in given) if given is not None else (usual,) * count  # type: ignore[attr-defined]

    strides, dilations = numbers("strides", 1), numbers("dilations", 1)
    pads = numbers("pads", 0, 2 * rank)
    begin, end = pads[:rank], pads[rank:]
    auto_pad = attributes.get("auto_pad", b"NOTSET")
    if auto_pad in (b"SAME_UPPER", b"SAME_LOWER"):
        sizes = index.shape(node.input[0])
        if sizes is None:
            return "its padding depends on a size that is not known"
        # ONNX: output = ceil(input / stride); what is missing is split, the odd one behind (UPPER) or in front (LOWER).
        missing = [
            max((-(-s // stride) - 1) * stride + (k - 1) * d + 1 - s, 0)
            for s, stride, k, d in zip(sizes[2:], strides, weight_shape[2:], dilations, strict=True)
        ]
        small, large = tuple(m // 2 for m in missing), tuple(m - m // 2 for m in missing)
        begin, end = (small, large) if auto_pad == b"SAME_UPPER" else (large, small)
    elif auto_pad == b"VALID":
        begin = end = (0,) * rank
    groups = attributes.get("group", 1)
    assert isinstance(groups, int)
    return ConvLayer(
        weight_shape=weight_shape,
        groups=groups,
        strides=strides,
        dilations=dilations,
        pads_begin=begin,
        pads_end=end,
    )

"""A unit whose 32-bit sums leave the kernel and are scaled to float, instead of being rounded to 8 bits in it.

    y = s_x * s_w[c] * sum (q_x - z_x) (q_w - z_w) + b        ConvInteger | MatMulInteger -> DequantizeLinear [-> Add]

Its output is as fine as the products allow, at the price of one more pass in float: for what a normalisation or a float
operator reads anyway that costs nothing.

ONNX Runtime multiplies the weights, as its left operand, with the data: it has fast kernels for u8*s8 and u8*u8 only, and
with s8 weights falls back to one that is 5 times slower. So weights are u8 around the middle of their grid, and data is s8
where it is quantized for this unit and weights have 7 bits: they keep u8*s8 pairs inside 16 bits on x86 without VNNI, as in
the other form. Data that is u8 already stays so, and so does data of 8-bit weights: u8*u8 is exact on every x86; it is slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from fts_converters.quantize.graph_index import GraphIndex, attributes_of
from fts_converters.quantize.ranges import LEAST_RANGE
from fts_converters.quantize.units import Unit

KERNELS = {"Conv": "ConvInteger", "MatMul": "MatMulInteger", "Gemm": "MatMulInteger"}
# What stands in front of these may be off by a number a channel: they take the mean away.
TAKES_MEAN_AWAY = frozenset({"InstanceNormalization"})

AddInitializer = Callable[[str, npt.NDArray[np.generic]], str]


def may_keep_sums(unit: Unit, index: GraphIndex) -> bool:
    """Is there a kernel that gives the sums of this unit, exactly and fast?"""
    if unit.op_type not in KERNELS or not unit.weight or len(unit.activations) != 1:
        return False
    weight, data = index.shape(unit.weight) or (), index.shape(unit.activations[0]) or ()
    if unit.op_type == "Conv" and (len(data) < 2 or weight[1] != data[1]):
        return False  # the kernel goes group by group, several times slower than float
    if unit.op_type == "MatMul":
        return len(weight) == 2
    return True


def encode_sums(
    node: onnx.NodeProto,
    unit: Unit,
    index: GraphIndex,
    integers: str,
    scale: float,
    zero_point: str,
    weight_bits: int,
    output: str,
    weight: npt.NDArray[np.float32],
    weight_scales: npt.NDArray[np.float32] | None,
    bias: npt.NDArray[np.float64] | None,
    add_initializer: AddInitializer,
    fresh: Callable[[str], str],
) -> list[onnx.NodeProto]:
    """Nodes of one unit's main operator.

    Args:
        node: The operator.
        unit: Its unit, of which `may_keep_sums` is true.
        index: Index of the FP32 graph.
        integers: Its quantized input, uint8 or int8.
        scale: Of that input, > 0.
        zero_point: Of that input, an initializer.
        weight_bits: Of the weights, which are stored as uint8 around 2^(bits - 1).
        output: Name of the float result.
        weight: Its values before rounding.
        weight_scales: (C,) of its grid where that is given and holds the weight in so many bits; None to find them.
        bias: (C,) before rounding, or None.
        add_initializer: Stores an array and returns its name.
        fresh: Makes a name that is not taken.
    """
    attributes: dict[str, Any] = dict(attributes_of(node))
    axis = unit.weight_axis
    if unit.op_type == "Gemm":
        weight = weight.T if attributes.pop("transB", 0) else weight
        attributes, axis = {}, 1
    others = tuple(i for i in range(weight.ndim) if i != axis)
    reach = np.maximum(np.abs(weight).max(axis=others, initial=0.0), LEAST_RANGE)
    zero, most = 1 << (weight_bits - 1), (1 << (weight_bits - 1)) - 1
    steps = (reach / most).astype(np.float32)
    if weight_scales is not None and (np.rint(reach / weight_scales) <= most).all():
        steps = weight_scales
    along = np.expand_dims(steps, others)
    rounded = (np.clip(np.rint(weight / along), -most, most) + zero).astype(np.uint8)
    weight_name = add_initializer(f"{unit.weight}_quantized", rounded)
    weight_zero = add_initializer(f"{unit.weight}_zero_point", np.array(zero, np.uint8))
    sums, added = fresh(f"{output}_sums"), None if bias is None else _kept_bias(bias, unit, index)
    scaled = output if added is None else fresh(f"{output}_scaled")
    channel_axis = 1 if unit.op_type == "Conv" else len(index.shape(unit.activations[0]) or (0, 0)) - 1
    out_scale = add_initializer(f"{output}_sums_scale", (steps.astype(np.float64) * scale).astype(np.float32))
    nodes = [
        helper.make_node(
            KERNELS[unit.op_type],
            [integers, weight_name, zero_point, weight_zero],
            [sums],
            name=node.name,
            **attributes,
        ),
        helper.make_node(
            "DequantizeLinear", [sums, out_scale], [scaled], name=f"{node.name}_sums_scaled", axis=channel_axis
        ),
    ]
    if added is not None:
        shape = (1, -1, *(1,) * (weight.ndim - 2)) if unit.op_type == "Conv" else (-1,)
        bias_name = add_initializer(f"{output}_bias", added.reshape(shape))
        nodes.append(helper.make_node("Add", [scaled, bias_name], [output], name=f"{node.name}_sums_bias"))
    return nodes


def _kept_bias(bias: npt.NDArray[np.float64], unit: Unit, index: GraphIndex) -> npt.NDArray[np.float32] | None:
    """None where it is 0, or where all that read the output take a number a channel away."""
    readers = index.readers.get(unit.output, ())
    is_mean_lost = readers and all(r.op_type in TAKES_MEAN_AWAY for r in readers) and len(unit.nodes) == 1
    if not bias.any() or (is_mean_lost and unit.output not in index.outputs | index.captured):
        return None
    return bias.astype(np.float32)

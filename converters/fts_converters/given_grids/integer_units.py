"""Which groups DQ -> operator -> Q an integer kernel of the target computes exactly as given, and why not the others.

A group is whole when every operand comes out of a DQ, its result is read by one Q alone, and all grids are such that the
kernel means the same by them as the net does. What an engine would take all the same is listed here as reasons: it reads
an int32 bias on the scale s_in * s_w whatever its DQ says, weight scales along the output channels whatever their axis,
and one zero point for all channels.

An activation between the operator and the Q is a Clip of the integers, exactly, because rounding to a grid is monotone:
q(clip(x, a, b)) = clip(q(x), q(a), q(b)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts.vocabulary.device_profile import DeviceProfile, IntegerRole
from fts_converters.given_grids.grid import DEQUANTIZE, QUANTIZE, Grid, grid_of, is_dq, is_q
from fts_converters.passes.graph_reading import constant, only_reader, producer

# The accumulator is int32; half of it is left for the sum of products.
BIAS_LIMIT = 2**30
# Operators whose kernel gives floats when no Q follows; a Conv does as ConvInteger.
FLOAT_RESULT = frozenset({"Gemm", "MatMul"})
NO_OUTPUT_SCALE = "the net gives no scale of 8 bits that its output is read on alone, and none is made up"
NO_GROUPED_FLOAT_RESULT = f"{NO_OUTPUT_SCALE}; an integer convolution in groups with float results is slower than float"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GivenUnit:
    """A whole group.

    Attributes:
        node: The operator.
        role: mac, bridge or passthrough.
        operands: Input position to the DQ in front of it, weights and constants included, bias left out.
        weight: Position of a constant weight, or None.
        bias: Its real values in float64, or None.
        activation: Relu or Clip between the operator and the Q, or None.
        bounds: What the activation clips to, as integers of the Q's grid; None when it changes nothing.
        quantizer: The Q behind it; None when the kernel gives floats, the activation being left where it is.
    """

    node: gs.Node
    role: IntegerRole
    operands: Mapping[int, gs.Node]
    weight: int | None = None
    bias: npt.NDArray[np.float64] | None = None
    activation: gs.Node | None = None
    bounds: tuple[int, int] | None = None
    quantizer: gs.Node | None = None


def find_given_units(graph: gs.Graph, profile: DeviceProfile) -> tuple[Mapping[str, GivenUnit], Mapping[str, str]]:
    """Whole groups by the name of their operator, and the reason of every other operator but Q and DQ."""
    units: dict[str, GivenUnit] = {}
    reasons: dict[str, str] = {}
    folded: set[int] = set()
    for node in graph.nodes:
        if is_q(node) or is_dq(node) or id(node) in folded:
            continue
        found = _unit_of(graph, node, profile)
        if isinstance(found, str):
            reasons[node.name] = found
            continue
        units[node.name] = found
        if found.activation is not None:
            folded.add(id(found.activation))
            reasons.pop(found.activation.name, None)
    return units, reasons


def _unit_of(graph: gs.Graph, node: gs.Node, profile: DeviceProfile) -> GivenUnit | str:
    rule = profile.integer_ops.get(node.op) if not node.domain else None
    reads_integers = any(_integer_source(t) is not None for t in node.inputs)
    if not reads_integers:
        return _why_float(node)
    if rule is None:
        return (
            profile.float_reasons.get(node.op) or f"{profile.engine} has no integer kernel for {node.op} in this place"
        )
    if len(node.outputs) != 1:
        return f"{node.op} with several outputs has no integer kernel"
    if rule.role in ("passthrough", "activation"):
        return _moving_unit(graph, node)
    found = _mac_unit(node) if rule.role == "mac" else _bridge_unit(node)
    return found if isinstance(found, str) else _with_output(graph, found)


def _why_float(node: gs.Node) -> str:
    grids = [
        grid_of(m) for t in node.inputs if (m := producer(t, DEQUANTIZE)) is not None and constant(m.inputs[0]) is None
    ]
    if not grids:
        return "the net gives no scale for what it reads: it came in float and stays so"
    kinds = {
        "computed scales" if g is None else "a scale a channel" if g.axis is not None else str(g.dtype) for g in grids
    }
    return f"what it reads came with {', '.join(sorted(kinds))}, which no integer kernel reads"


def _integer_source(tensor: gs.Tensor) -> gs.Node | None:
    """The DQ that makes a tensor from integers that a Q made, both 8 bits and one scale."""
    maker = producer(tensor, DEQUANTIZE)
    quantizer = producer(maker.inputs[0], QUANTIZE) if maker is not None else None
    if quantizer is None:
        return None
    grids = grid_of(maker), grid_of(quantizer)
    return maker if all(g is not None and g.is_8_bit_tensor for g in grids) else None


def _constant_source(tensor: gs.Tensor) -> tuple[gs.Node, Grid] | None:
    """The DQ that makes a tensor from constant integers, with its grid."""
    maker = producer(tensor, DEQUANTIZE)
    grid = grid_of(maker) if maker is not None and constant(maker.inputs[0]) is not None else None
    return None if grid is None else (maker, grid)


def _mac_unit(node: gs.Node) -> GivenUnit | str:
    source = _integer_source(node.inputs[0])
    given = _constant_source(node.inputs[1])
    if node.op == "MatMul" and given is None:
        return _bridge_unit(node, role="mac")
    if source is None:
        return "the net gives no scale for its data"
    if given is None:
        return "the net gives no scale for its weights"
    weight, grid = given
    axis, channels = _output_channels(node, np.asarray(constant(weight.inputs[0])).shape)
    if grid.dtype not in (np.int8, np.uint8) or grid.real != np.float32:
        return f"its weights came as {grid.dtype} for {grid.real}: no integer kernel reads them"
    if axis is None and grid.axis is not None:
        return "its weights have a scale a channel, which no kernel of this operator takes"
    if grid.axis not in (None, axis):
        return f"its weight scales lie along axis {grid.axis}, and a kernel has them along the output channels"
    if (grid.zero_point != grid.zero_point[0]).any():
        return "its weights have a zero point a channel, and a kernel has one for all"
    unit = GivenUnit(node=node, role="mac", operands={0: source, 1: weight}, weight=1)
    if node.op == "MatMul":
        return unit
    if node.op == "Gemm" and (
        node.attrs.get("transA") or any(node.attrs.get(k, 1.0) != 1.0 for k in ("alpha", "beta"))
    ):
        return "Gemm with transA, alpha or beta has no integer kernel"
    return _with_bias(unit, source, grid, channels)


def _output_channels(node: gs.Node, shape: tuple[int, ...]) -> tuple[int | None, int]:
    if node.op == "MatMul":
        return (1, shape[1]) if len(shape) == 2 else (None, 0)
    axis = 0 if node.op == "Conv" or node.attrs.get("transB") else 1
    return axis, shape[axis]


def _with_bias(unit: GivenUnit, source: gs.Node, weight: Grid, channels: int) -> GivenUnit | str:
    if len(unit.node.inputs) < 3 or not unit.node.inputs[2].name:
        return unit
    tensor = unit.node.inputs[2]
    given = _constant_source(tensor)
    values = constant(tensor) if given is None else given[1].dequantized(np.asarray(constant(given[0].inputs[0])))
    if values is None:
        return "its bias is computed"
    if values.shape not in ((channels,), (1, channels)):
        return f"its bias has shape {values.shape}, and a kernel takes one value a channel"
    data = grid_of(source)
    assert data is not None
    bias = values.reshape(-1).astype(np.float64)
    step = weight.scale.astype(np.float64) * float(data.scale[0])
    if (np.abs(bias) > BIAS_LIMIT * step).any() or not np.isfinite(bias).all():
        return "its bias overflows 32 bits on the scale s_in * s_w"
    return replace(unit, bias=bias)


def _bridge_unit(node: gs.Node, role: IntegerRole = "bridge") -> GivenUnit | str:
    operands: dict[int, gs.Node] = {}
    for position, tensor in enumerate(node.inputs):
        source, given = _integer_source(tensor), _constant_source(tensor)
        if source is not None:
            operands[position] = source
        elif given is not None and given[1].is_8_bit_tensor:
            operands[position] = given[0]
        else:
            return f"the net gives no scale of 8 bits for its operand {tensor.name!r}"
    if any(d != 1 for d in node.attrs.get("dilations", ())):
        return f"{node.op} with dilations has no integer kernel"
    if any(0 in (t.shape or ()) for t in node.inputs):
        return "an operand has no elements"
    return GivenUnit(node=node, role=role, operands=operands)


def _with_output(graph: gs.Graph, unit: GivenUnit) -> GivenUnit | str:
    output, activation = unit.node.outputs[0], None
    reader = only_reader(graph, output)
    if reader is not None and not reader.domain and reader.op in ("Relu", "Clip") and reader.inputs[0] is output:
        behind = only_reader(graph, reader.outputs[0])
        if behind is not None and is_q(behind):
            reader, activation = behind, reader
    grid = grid_of(reader) if reader is not None and is_q(reader) else None
    if grid is not None and grid.is_8_bit_tensor:
        if activation is None:
            return replace(unit, quantizer=reader)
        bounds = _bounds(activation, grid)
        if bounds is None:
            return "the bounds of the Clip behind it are computed"
        is_idle = bounds == (grid.least, grid.greatest)
        return replace(unit, quantizer=reader, activation=activation, bounds=None if is_idle else bounds)
    if unit.node.op in FLOAT_RESULT:
        return unit
    if unit.node.op == "Conv":
        return NO_GROUPED_FLOAT_RESULT if unit.node.attrs.get("group", 1) != 1 else unit
    return NO_OUTPUT_SCALE


def _bounds(activation: gs.Node, grid: Grid) -> tuple[int, int] | None:
    """q(a), q(b) of a Relu or Clip."""
    ends: list[Any] = [0.0, np.inf] if activation.op == "Relu" else [-np.inf, np.inf]
    for position, tensor in enumerate(activation.inputs[1:3]):
        if tensor.name:
            value = constant(tensor)
            if value is None or value.size != 1:
                return None
            ends[position] = float(value.reshape(()).item())
    low, high = (int(grid.quantized(np.array(e, np.float32)).item()) for e in ends)
    return (low, high) if low <= high else None


def _moving_unit(graph: gs.Graph, node: gs.Node) -> GivenUnit | str:
    source = _integer_source(node.inputs[0])
    quantizer = only_reader(graph, node.outputs[0])
    if source is None:
        return _why_float(node)
    before, after = grid_of(source), grid_of(quantizer) if quantizer is not None and is_q(quantizer) else None
    if after is None:
        return NO_OUTPUT_SCALE
    if before is None or not before.is_same(after):
        return "the scales in front of it and behind it differ, so it cannot move integers"
    if node.op not in ("Relu", "Clip"):
        return GivenUnit(node=node, role="passthrough", operands={0: source}, quantizer=quantizer)
    bounds = _bounds(node, after)
    if bounds is None:
        return "its bounds are computed"
    return GivenUnit(node=node, role="passthrough", operands={0: source}, quantizer=quantizer, bounds=bounds)

"""Group nodes into the units that an engine runs as one integer kernel (DQ -> op [-> activation] -> Q).

A unit is an operator with an integer kernel plus the activation that folds into the Q behind it. For each node that
cannot be one, the reason is kept: it is what the report shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from fts.vocabulary.device_profile import DeviceProfile, IntegerRole
from fts_converters.macs import macs_of
from fts_converters.quantize.graph_index import GraphIndex, attributes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What one integer kernel computes.

    Attributes:
        name: Name of its main node; the unit is known by it.
        op_type: Operator of the main node.
        role: mac, bridge or passthrough.
        nodes: Names of all its nodes, main node first.
        activations: Tensors that must arrive quantized (repeated when read twice).
        weight: Constant weight tensor, or "".
        weight_axis: Axis of its output channels, or None for one scale.
        bias: Constant bias tensor, or "".
        constants: Other constant operands that are quantized like activations.
        output: Tensor that leaves the unit, behind its activation.
        macs: Multiply-accumulates of one inference.
    """

    name: str
    op_type: str
    role: IntegerRole
    nodes: tuple[str, ...]
    activations: tuple[str, ...]
    weight: str = ""
    weight_axis: int | None = None
    bias: str = ""
    constants: tuple[str, ...] = ()
    output: str = ""
    macs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Units that may be int8, and why each other node may not.

    Attributes:
        units: By name of the main node, in graph order.
        reasons: Node name to the reason why it is not in a unit.
        macs: Node name to multiply-accumulates, for nodes of the four operators that count.
    """

    units: Mapping[str, Unit]
    reasons: Mapping[str, str]
    macs: Mapping[str, int]


def macs_by_node(index: GraphIndex) -> dict[str, int]:
    """Multiply-accumulates of one inference for each node of the four operators that count."""
    return {n.name: macs for n in index.model.graph.node if (macs := _macs(n, index))}


def find_candidates(index: GraphIndex, profile: DeviceProfile) -> Candidates:
    """Find all units of a graph; nodes inside If and Loop stay float with their node."""
    units: dict[str, Unit] = {}
    reasons: dict[str, str] = {}
    macs: dict[str, int] = {}
    folded: set[str] = set()
    for node in index.model.graph.node:
        macs[node.name] = _macs(node, index)
        if node.name in folded:
            continue
        unit = _unit_of(node, index, profile, macs[node.name])
        if isinstance(unit, str):
            reasons[node.name] = unit
            continue
        unit = _with_activation(unit, index, profile)
        folded.update(unit.nodes[1:])
        units[node.name] = unit
    return Candidates(units=units, reasons=reasons, macs={k: v for k, v in macs.items() if v})


def _macs(node: onnx.NodeProto, index: GraphIndex) -> int:
    shapes = [index.shape(i) if i else () for i in node.input]
    output = index.shape(node.output[0]) if node.output else None
    if output is None or any(s is None for s in shapes):
        return 0
    return macs_of(node.op_type, [s or () for s in shapes], output, attributes_of(node))


def _unit_of(node: onnx.NodeProto, index: GraphIndex, profile: DeviceProfile, macs: int) -> Unit | str:
    rule = profile.integer_ops.get(node.op_type)
    if node.domain not in ("", "ai.onnx"):
        return f"operator of domain {node.domain}: no integer kernel known"
    if rule is None or rule.role == "activation":
        why = profile.float_reasons.get(node.op_type)
        return why or f"{profile.engine} has no integer kernel for {node.op_type} in this place"
    if len([o for o in node.output if o]) != 1:
        return f"{node.op_type} with several outputs has no integer kernel"
    if index.dtype(node.output[0]) != "float32":
        return f"its output is {index.dtype(node.output[0]) or 'of unknown type'}, not float32"
    if rule.role == "mac":
        return _mac_unit(node, index, macs)
    if rule.role == "bridge":
        return _bridge_unit(node, index)
    if index.is_constant(node.input[0]):
        return "it moves a constant"
    return Unit(
        name=node.name,
        op_type=node.op_type,
        role="passthrough",
        nodes=(node.name,),
        activations=(node.input[0],),
        output=node.output[0],
    )


def _mac_unit(node: onnx.NodeProto, index: GraphIndex, macs: int) -> Unit | str:
    data, weight = node.input[0], node.input[1]
    bias = node.input[2] if len(node.input) > 2 else ""
    attributes = attributes_of(node)
    constants = [i for i in node.input if i and index.is_constant(i)]
    if index.is_constant(data) and index.is_constant(weight):
        return "both operands are constants"
    if not all(np.isfinite(index.array(i)).all() for i in constants):
        return "a constant operand holds infinity, which no integer grid covers"
    if node.op_type == "MatMul":
        return _matmul_unit(node, index, macs)
    if not index.is_constant(weight):
        return "its weights are computed from the input, so they have no fixed scale"
    if index.is_constant(data):
        return "its data operand is a constant"
    if bias and not index.is_constant(bias):
        return "its bias is computed from the input"
    axis = 0
    if node.op_type == "Gemm":
        if attributes.get("transA") or attributes.get("alpha", 1.0) != 1.0 or attributes.get("beta", 1.0) != 1.0:
            return "Gemm with transA, alpha or beta has no integer kernel"
        axis = 0 if attributes.get("transB") else 1
        channels = index.shape(weight)[axis]  # type: ignore[index]
        if bias and index.shape(bias) not in ((channels,), (1, channels)):
            return f"Gemm with a bias of shape {index.shape(bias)} has no integer kernel (expected one value a column)"
    return Unit(
        name=node.name,
        op_type=node.op_type,
        role="mac",
        nodes=(node.name,),
        activations=(data,),
        weight=weight,
        weight_axis=axis,
        bias=bias,
        output=node.output[0],
        macs=macs,
    )


def _matmul_unit(node: onnx.NodeProto, index: GraphIndex, macs: int) -> Unit | str:
    left, right = node.input
    common: dict[str, Any] = dict(
        name=node.name, op_type=node.op_type, role="mac", nodes=(node.name,), output=node.output[0], macs=macs
    )
    if index.is_constant(right):
        rank = len(index.shape(right) or ())
        axis = 1 if rank == 2 else None
        return Unit(**common, activations=(left,), weight=right, weight_axis=axis)
    if index.is_constant(left):
        return Unit(**common, activations=(right,), constants=(left,))
    return Unit(**common, activations=(left, right))


def _bridge_unit(node: onnx.NodeProto, index: GraphIndex) -> Unit | str:
    live = tuple(i for i in node.input if i and not index.is_constant(i))
    constants = tuple(i for i in node.input if i and index.is_constant(i))
    if not live:
        return "all its operands are constants"
    if any(index.dtype(i) != "float32" for i in (*live, *constants)):
        return "an operand is not float32"
    if not all(np.isfinite(index.array(i)).all() for i in constants):
        return "a constant operand holds infinity, which no integer grid covers"
    if any(0 in (index.shape(i) or ()) for i in (*live, *constants)):
        return "an operand has no elements"
    if any(d != 1 for d in attributes_of(node).get("dilations", ())):  # type: ignore[attr-defined]
        return f"{node.op_type} with dilations has no integer kernel"
    return Unit(
        name=node.name,
        op_type=node.op_type,
        role="bridge",
        nodes=(node.name,),
        activations=live,
        constants=constants,
        output=node.output[0],
    )


def _with_activation(unit: Unit, index: GraphIndex, profile: DeviceProfile) -> Unit:
    if unit.role == "passthrough":
        return unit
    reader = index.only_reader(unit.output)
    rule = profile.integer_ops.get(reader.op_type) if reader is not None else None
    if reader is None or rule is None or rule.role != "activation" or reader.input[0] != unit.output:
        return unit
    if reader.op_type == "Clip" and not _clips_at_zero(reader, index):
        return unit
    return replace(unit, nodes=(*unit.nodes, reader.name), output=reader.output[0])


def _clips_at_zero(node: onnx.NodeProto, index: GraphIndex) -> bool:
    """Only a lower bound of 0 keeps the whole grid inside the bounds, whatever rounding does to the zero point."""
    bounds = [node.input[i] if len(node.input) > i else "" for i in (1, 2)]
    if any(b and not index.is_constant(b) for b in bounds) or not bounds[0]:
        return False
    low, high = (index.array(b).item() if b else float("inf") for b in bounds)
    return low == 0.0 and high > 0.0

"""A cleaned net with Q/DQ to what a conversion needs of it: the portable net, the plan, the encoded graph.

Nothing is searched and nothing is calibrated: what is integer was decided by whoever quantized the net.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from fts.vocabulary.device_profile import DeviceProfile
from fts.vocabulary.dialect import Dialect
from fts.vocabulary.plan import NodePlan, Plan
from fts_converters.given_grids.encode_given import encode_given
from fts_converters.given_grids.float_form import float_form
from fts_converters.given_grids.grid import is_dq, is_q
from fts_converters.given_grids.integer_units import find_given_units
from fts_converters.given_grids.spread_grids import fold_integer_constants, lift_integer_moves, spread_grids
from fts_converters.model import Model, model_from_proto
from fts_converters.passes.graph_reading import constant
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.units import macs_by_node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GivenNet:
    """A net that came with grids.

    Attributes:
        portable: The same function in float operators.
        spread: The net with Q and DQ around all that can be integer; units are found in it.
        count: Grids as they came.
        source: File name, for messages.
    """

    portable: onnx.ModelProto
    spread: onnx.ModelProto
    count: GridCount
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCount:
    """How many grids a net came with.

    Attributes:
        activations: Q nodes of computed tensors and DQ nodes of integer inputs.
        constants: DQ nodes of constants: weights, biases, operands.
    """

    activations: int
    constants: int

    def to_json(self) -> dict[str, int]:
        """For report.json and `fts inspect --json`."""
        return {"activations": self.activations, "constants": self.constants}

    def __str__(self) -> str:
        return f"{_counted(self.activations, 'activation')} and {_counted(self.constants, 'constant')}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def count_grids(model: Model) -> GridCount:
    """Count Q/DQ, those of subgraphs too; before or after cleaning."""
    activations = constants = 0
    for node in _all_nodes(model.graph):
        source = node.inputs[0] if is_q(node) or is_dq(node) else None
        if source is None:
            continue
        is_fixed = constant(source) is not None
        maker = source.inputs[0] if len(source.inputs) == 1 else None
        if is_dq(node):
            folded = maker
            while folded is not None and not is_q(folded) and folded.inputs and len(folded.inputs[0].inputs) == 1:
                folded = folded.inputs[0].inputs[0]
            constants += is_fixed or (folded is not None and is_q(folded) and constant(folded.inputs[0]) is not None)
            activations += not is_fixed and maker is None
        elif not is_fixed:
            activations += 1
    return GridCount(activations=activations, constants=constants)


def _all_nodes(graph: gs.Graph) -> Iterator[gs.Node]:
    for node in graph.nodes:
        yield node
        for value in node.attrs.values():
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, gs.Graph):
                    yield from _all_nodes(inner)


def holds_grids(model: Model) -> bool:
    """Whether any Q or DQ is in the net."""
    return any(is_q(n) or is_dq(n) for n in _all_nodes(model.graph))


def take_over(cleaned: onnx.ModelProto, source: str) -> GivenNet:
    """Make all forms of a cleaned net.

    Args:
        cleaned: With Q and DQ, every node named.
        source: File name, for messages.
    """
    model = _copy(cleaned, source)
    count = count_grids(model)
    fold_integer_constants(model)
    folded = model.to_proto()
    spread_grids(model)
    portable = _copy(folded, source)
    float_form(portable)
    return GivenNet(portable=portable.to_proto(), spread=model.to_proto(), count=count, source=source)


def continuous_form(proto: onnx.ModelProto, source: str) -> onnx.ModelProto:
    """The net with its grids' ends and without their rounding."""
    model = _copy(proto, source)
    lift_integer_moves(model)
    float_form(model, rounds=False)
    return model.to_proto()


def plan_given(given: GivenNet, profile: DeviceProfile, dialect: Dialect) -> Plan:
    """Every operator but Q and DQ: int8 where its group is whole, else the reason."""
    model = _copy(given.spread, given.source)
    units, reasons = find_given_units(model.graph, profile)
    folded = {u.activation.name: u for u in units.values() if u.activation is not None}
    macs = macs_by_node(GraphIndex(given.spread))

    def planned(node: gs.Node) -> NodePlan:
        unit = units.get(node.name) or folded.get(node.name)
        reason = reasons.get(node.name, "")
        if node.name in folded:
            reason = f"folded into {folded[node.name].node.op} {folded[node.name].node.name!r}"
        elif unit is not None:
            reason = "integer kernel on the scales that the net came with"
        return NodePlan(
            name=node.name,
            op_type=node.op,
            precision="fp32" if unit is None else "int8",
            engine=profile.engine,
            reason=reason,
            macs=macs.get(node.name, 0),
        )

    nodes = tuple(planned(n) for n in model.graph.nodes if not is_q(n) and not is_dq(n))
    return Plan(target=profile.target, dialect=dialect.name, nodes=nodes)


def encoded_given(given: GivenNet, profile: DeviceProfile, dialect: Dialect) -> onnx.ModelProto:
    """The graph for the engine, on the grids that the net came with."""
    model = _copy(given.spread, given.source)
    units, _ = find_given_units(model.graph, profile)
    return encode_given(model, units.values(), dialect)


def _copy(proto: onnx.ModelProto, source: str) -> Model:
    """A model of its own with the types of all its tensors."""
    own = onnx.ModelProto()
    own.CopyFrom(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    model = model_from_proto(own, source=source, source_sha256="")
    for tensor in model.graph.tensors().values():
        if isinstance(tensor, gs.Variable) and tensor.dtype is not None:
            tensor.dtype = np.dtype(tensor.dtype)
    return model

"""Raise the opset of a Model in place, so that an operator of a newer opset can be written.

From 13 to 21 operators gained types, optional inputs, and attributes whose default is what they did before; `RULES` holds
the few that changed otherwise, each with the opset it changed in. onnx's version converter makes the same changes on a
serialized copy: not above 2 GiB, with a new name given twice where branches need one (onnx 1.23), and the graph whose
tensors the passes hold would be another one. The tests compare the two, and check operator by operator that no other
change stands between the schemas of 13 and 21.

Ensures: the same function, or an unchanged graph and the nodes that stand in the way. Does *not* touch operators of other
domains, and does not lower an opset.

Source: onnx Operators.md and Changelog.md, opsets 13 to 21.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx_graphsurgeon as gs
from onnx import helper

from fts_converters.model import Model
from fts_converters.passes.contract import Refusal
from fts_converters.passes.graph_editing import TensorNames
from fts_converters.passes.graph_reading import constant, label, static_shape
from fts_converters.upgrade_opset import NEWEST_OPSET, OLDEST_OPSET

DEFAULT_DOMAINS = ("", "ai.onnx", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A change that a node needs.

    Attributes:
        opset: The opset that it comes with.
        ops: Operators that it concerns.
        obstacle: Why a node cannot be changed; "" when it can.
        rewrite: Makes the change.
    """

    opset: int
    ops: frozenset[str]
    obstacle: Callable[[gs.Node], str]
    rewrite: Callable[[gs.Node, TensorNames], None]


def raise_opset(model: Model, wanted: int) -> tuple[Refusal, ...]:
    """Bring the default domain of a graph and of its subgraphs to a newer opset.

    Args:
        model: Changed in place; its graph stays the same object.
        wanted: The opset, above the model's and at most NEWEST_OPSET.

    Returns:
        What stands in the way, and then the model is as it was; empty when it was raised.

    Raises:
        ValueError: `wanted` is out of range.
    """
    if not model.opset < wanted <= NEWEST_OPSET:
        raise ValueError(f"a net of opset {model.opset} cannot be raised to {wanted}; newest is {NEWEST_OPSET}")
    if model.opset < OLDEST_OPSET:
        reason = f"it has opset {model.opset}; nets are raised from {OLDEST_OPSET} on, which load_model brings them to"
        return (Refusal(node=model.graph.name or model.source, reason=reason),)
    due = [(node, rule) for node in _nodes(model.graph) for rule in RULES if _is_due(node, rule, model.opset, wanted)]
    refusals = tuple(
        Refusal(node=label(node), reason=f"the net cannot be raised to opset {wanted}: {reason}")
        for node, rule in due
        if (reason := rule.obstacle(node))
    )
    if refusals:
        return refusals
    names = TensorNames(model.graph)
    for node, rule in due:
        rule.rewrite(node, names)
    _set_opset(model.graph, wanted)
    return ()


def _nodes(graph: gs.Graph) -> Iterator[gs.Node]:
    for part in (graph, *graph.subgraphs(recursive=True)):
        yield from part.nodes


def _is_due(node: gs.Node, rule: Rule, before: int, wanted: int) -> bool:
    return node.op in rule.ops and node.domain in DEFAULT_DOMAINS and before < rule.opset <= wanted


def _set_opset(graph: gs.Graph, opset: int) -> None:
    for part in (graph, *graph.subgraphs(recursive=True)):
        part.opset = opset
        if part.import_domains is not None:
            part.import_domains = [
                helper.make_opsetid(d.domain, opset if d.domain in DEFAULT_DOMAINS else d.version)
                for d in part.import_domains
            ]


def _no_obstacle(_node: gs.Node) -> str:
    return ""


def _trains(node: gs.Node) -> str:
    """Its other outputs became running statistics of another meaning."""
    used = [t for t in node.outputs[1:] if t.name]
    return "this BatchNormalization writes statistics, as in training" if used else ""


def _keep(_node: gs.Node, _names: TensorNames) -> None:
    """Nothing to change, once there is no obstacle."""


def _name_old_coordinates(node: gs.Node, _names: TensorNames) -> None:
    """The default became half_pixel; before, there was no half pixel."""
    node.attrs.setdefault("coordinate_transformation_mode", "output_half_pixel")


def _axes_to_input(node: gs.Node, names: TensorNames) -> None:
    axes = node.attrs.pop("axes", None)
    if axes is not None:
        stem = f"{node.outputs[0].name}_axes"
        node.inputs.append(names.constant(stem, np.array(axes, np.int64)))


def _count_outputs(node: gs.Node, _names: TensorNames) -> None:
    """Equal parts have to be counted where no sizes are given."""
    if len(node.inputs) < 2 or not node.inputs[1].name:
        node.attrs["num_outputs"] = len(node.outputs)


def _rename_modes(node: gs.Node, _names: TensorNames) -> None:
    mode = node.attrs.get("mode")
    node.attrs.update({"mode": {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)} if mode else {})


def _axis_to_input(node: gs.Node, names: TensorNames) -> None:
    """The default became -2."""
    axis = np.array(node.attrs.pop("axis", 1), np.int64)
    while len(node.inputs) < 2:
        node.inputs.append(gs.Variable.empty())
    node.inputs.append(names.constant(f"{node.outputs[0].name}_axis", axis))


def _scale_is_computed(node: gs.Node) -> str:
    shape = static_shape(node.inputs[0])
    if shape is None or len(shape) < 2:
        return "the channel count of this GroupNormalization is not known"
    if any(constant(t) is None for t in node.inputs[1:3]):
        return "scale and bias of this GroupNormalization are one a group, and computed"
    return ""


def _scale_per_channel(node: gs.Node, names: TensorNames) -> None:
    """Scale and bias were one a group (G,), and are one a channel (C,)."""
    shape = static_shape(node.inputs[0])
    assert shape is not None
    repeats = shape[1] // int(node.attrs["num_groups"])
    for position in (1, 2):
        value = constant(node.inputs[position])
        assert value is not None
        node.inputs[position] = names.constant(
            f"{node.inputs[position].name}_per_channel", np.repeat(value.reshape(-1), repeats)
        )


RULES: tuple[Rule, ...] = (
    Rule(opset=14, ops=frozenset({"BatchNormalization"}), obstacle=_trains, rewrite=_keep),
    Rule(opset=16, ops=frozenset({"RoiAlign"}), obstacle=_no_obstacle, rewrite=_name_old_coordinates),
    Rule(
        opset=18,
        ops=frozenset(
            f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
        ),
        obstacle=_no_obstacle,
        rewrite=_axes_to_input,
    ),
    Rule(opset=18, ops=frozenset({"Split"}), obstacle=_no_obstacle, rewrite=_count_outputs),
    Rule(opset=20, ops=frozenset({"GridSample"}), obstacle=_no_obstacle, rewrite=_rename_modes),
    Rule(opset=20, ops=frozenset({"DFT"}), obstacle=_no_obstacle, rewrite=_axis_to_input),
    Rule(opset=21, ops=frozenset({"GroupNormalization"}), obstacle=_scale_is_computed, rewrite=_scale_per_channel),
)

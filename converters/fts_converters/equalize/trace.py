"""The state of walking a graph for channel groups: along which axis each tensor is scaled, and by which channels' factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.equalize.ties import Ids, Ties
from fts_converters.passes.contract import Refusal
from fts_converters.passes.graph_reading import constant, label

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Channels:
    """How a tensor is scaled: by one factor an index of one axis.

    Attributes:
        axis: That axis, not negative.
        ids: (size of the axis,) channel of each index; equal numbers are one channel.
    """

    axis: int
    ids: Ids


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Absorber:
    """A constant that takes factors up: constant * s[ids] ** sign.

    Attributes:
        node: The node that reads it.
        position: Which of its inputs it is.
        ids: Channels, of a shape that broadcasts with the constant's.
        sign: 1 for what makes the scaled tensor, -1 for what reads it.
        is_weight: False for summands and bounds, whose size says nothing about the gain from input to output.
    """

    node: gs.Node
    position: int
    ids: Ids
    sign: int
    is_weight: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NormInput:
    """A tensor that a norm divides by its deviation, so that a factor vanishes up to the norm's epsilon.

    Attributes:
        node: Name of the norm, for messages.
        tensor: What it reads.
        ids: (G,) channel of each group that has a deviation of its own.
        view: (lead, G): the tensor seen as (lead, G, rest) has one deviation for each (lead, group).
        epsilon: Added to the variance.
    """

    node: str
    tensor: str
    ids: Ids
    view: tuple[int, int]
    epsilon: float


class Trace:
    """What the rules for single operators read and write.

    Attributes:
        shapes: Static shape of each float32 tensor; one that is not in here cannot be scaled.
        opset: Of the default domain.
        ties: Which channels share a factor.
        channels: By tensor name, for tensors whose producer was visited.
        absorbers: Constants that take factors up.
        norms: Inputs of norms.
    """

    def __init__(self, shapes: Mapping[str, Shape], opset: int) -> None:
        self.shapes = shapes
        self.opset = opset
        self.ties = Ties()
        self.channels: dict[str, Channels] = {}
        self.absorbers: list[Absorber] = []
        self.norms: list[NormInput] = []

    def shape(self, tensor: gs.Tensor) -> Shape:
        """Static shape of a tensor that `channels` or `shapes` knows."""
        return self.shapes[tensor.name]

    def fresh(self, tensor: gs.Tensor, axis: int) -> Ids:
        """Scale a tensor along an axis by factors of its own; (size,) new channels."""
        ids = self.ties.fresh(self.shape(tensor)[axis])
        self.channels[tensor.name] = Channels(axis=axis, ids=ids)
        return ids

    def set(self, tensor: gs.Tensor, axis: int, ids: Ids) -> None:
        """Scale a tensor along an axis by the factors of known channels."""
        self.channels[tensor.name] = Channels(axis=axis, ids=ids)

    def along(self, tensor: gs.Tensor, axis: int) -> Ids:
        """(size,) channels of a tensor along this axis; where it is scaled along another, all become one channel."""
        channels = self.channels[tensor.name]
        if channels.axis == axis:
            return channels.ids
        return np.full(self.shape(tensor)[axis], self.ties.tie_all(channels.ids))

    def spread(self, tensor: gs.Tensor, shape: Shape, axis: int) -> Ids:
        """(shape[axis],) channels of a tensor that is broadcast to `shape`."""
        channels = self.channels[tensor.name]
        own = axis - (len(shape) - len(self.shape(tensor)))
        if own < 0 or own != channels.axis:
            return np.full(shape[axis], self.ties.tie_all(channels.ids))
        return channels.ids if len(channels.ids) == shape[axis] else np.full(shape[axis], channels.ids[0])

    def axis_in(self, tensor: gs.Tensor, shape: Shape) -> int:
        """The tensor's axis once it is broadcast to `shape`."""
        return self.channels[tensor.name].axis + len(shape) - len(self.shape(tensor))

    def absorb(self, node: gs.Node, position: int, ids: Ids, sign: int, *, is_weight: bool) -> None:
        """Let a constant input take factors up."""
        self.absorbers.append(Absorber(node=node, position=position, ids=ids, sign=sign, is_weight=is_weight))

    def block(self, tensor: gs.Tensor, node: gs.Node | None, reason: str) -> None:
        """Keep a tensor as it is; one that has no channels yet gets a single one, which is blocked."""
        if tensor.name not in self.channels:
            shape = self.shapes.get(tensor.name)
            if not shape:
                return
            axis = 1 if len(shape) > 1 else 0
            self.set(tensor, axis, np.full(shape[axis], self.ties.fresh(1)[0]))
        where = label(node) if node is not None else tensor.name
        self.ties.block(self.channels[tensor.name].ids, Refusal(node=where, reason=reason))


def is_present(node: gs.Node, position: int) -> bool:
    """True when the node has this input."""
    return len(node.inputs) > position and bool(node.inputs[position].name)


def is_float_constant(node: gs.Node, position: int) -> bool:
    """True when the input is a float32 constant, which can be scaled."""
    value = constant(node.inputs[position]) if is_present(node, position) else None
    return value is not None and value.dtype == np.float32

"""Sequences of tensors whose members are known become the plain tensors they hold.

    SequenceAt([a, b, c], 1) = b,   ConcatFromSequence([a, b, c]) = Concat(a, b, c),   SequenceLength([a, b, c]) = 3

torch exports Python lists so: SequenceEmpty or SequenceConstruct, SequenceInsert, SequenceErase, SplitToSequence. Requires:
positions that are constants, and for SplitToSequence constant sizes or a static axis; a loop that appends was unrolled
before. Does *not* follow a sequence out of an If or Loop that stays: left, with the reason.
"""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import TensorNames, bypass, finish
from fts_converters.passes.graph_reading import constant, label

MAKERS = frozenset({"SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SplitToSequence"})
READERS = frozenset({"SequenceAt", "SequenceLength", "ConcatFromSequence"})
# Members of a sequence, or why they are not known.
Members = list[gs.Tensor] | str


def resolve_sequences(model: Model) -> PassResult:
    """Resolves each reader of a known sequence; makers that nobody reads any more go."""
    return _Resolving(model).run()


class _Resolving:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.graph = model.graph
        self.names = TensorNames(self.graph)
        self.known: dict[int, Members] = {}
        self.made: list[gs.Node] = []

    def run(self) -> PassResult:
        refusals = []
        is_changed = False
        if not any(n.op in READERS and not n.domain for n in self.graph.nodes):
            return PassResult(is_changed=False)
        for node in list(self.graph.nodes):
            if node.domain:
                continue
            if node.op in MAKERS:
                self.known[id(node.outputs[0])] = self._made(node)
            elif node.op in READERS:
                reason = self._read(node)
                if reason:
                    refusals.append(Refusal(node=label(node), reason=reason))
                else:
                    is_changed = True
        if is_changed:
            finish(self.graph)
        else:
            self._take_back()
        return PassResult(is_changed=is_changed, refusals=tuple(refusals))

    def _take_back(self) -> None:
        """Pieces that were made for readers which then stayed."""
        for node in self.made:
            self.graph.nodes.remove(node)
            node.inputs.clear()
            node.outputs.clear()

    def _members(self, tensor: gs.Tensor) -> Members:
        return self.known.get(id(tensor), f"the sequence {tensor.name!r} comes out of an operator that stays")

    def _made(self, node: gs.Node) -> Members:
        if node.op == "SequenceEmpty":
            return []
        if node.op == "SequenceConstruct":
            return list(node.inputs)
        if node.op == "SplitToSequence":
            return self._split(node)
        members = self._members(node.inputs[0])
        if isinstance(members, str):
            return members
        has_position = len(node.inputs) > (2 if node.op == "SequenceInsert" else 1)
        position = self._position(node.inputs[-1]) if has_position else None
        if isinstance(position, str):
            return position
        if node.op == "SequenceInsert":
            at = len(members) if position is None else position + len(members) * (position < 0)
            return [*members[:at], node.inputs[1], *members[at:]]
        at = -1 if position is None else position
        if not -len(members) <= at < len(members):
            return f"position {at} of a sequence of {len(members)}"
        at %= len(members)
        return members[:at] + members[at + 1 :]

    def _position(self, tensor: gs.Tensor) -> int | str:
        value = constant(tensor)
        return int(value.reshape(-1)[0]) if value is not None else f"its position {tensor.name!r} is computed"

    def _split(self, node: gs.Node) -> Members:
        """Members of SplitToSequence: the outputs of one Split, without the axis where `keepdims` is 0."""
        source = node.inputs[0]
        axis = int(node.attrs.get("axis", 0))
        size = (
            source.shape[axis] if source.shape is not None and -len(source.shape) <= axis < len(source.shape) else None
        )
        length = int(size) if isinstance(size, int | np.integer) else None
        given = constant(node.inputs[1]) if len(node.inputs) > 1 else np.array(1)
        if given is None:
            return "the sizes of its pieces are computed"
        if given.ndim:
            sizes = [int(n) for n in given]
        elif length is None:
            return f"the size of {source.name!r} along axis {axis} is not known"
        else:
            step = int(given)
            sizes = [min(step, length - at) for at in range(0, length, step)]
        if not sizes:
            return f"{source.name!r} is empty along axis {axis}"
        pieces = [self.names.variable(f"{node.outputs[0].name}_piece", source) for _ in sizes]
        self._append("Split", [source], pieces, {"axis": axis}, "split", sizes)
        if node.attrs.get("keepdims", 1) or len(node.inputs) > 1:
            return list(pieces)
        return [self._one("Squeeze", piece, axis) for piece in pieces]

    def _one(self, op: str, tensor: gs.Tensor, axis: int) -> gs.Tensor:
        result = self.names.variable(f"{tensor.name}_{op.lower()}", tensor)
        self._append(op, [tensor], [result], {}, "axes", [axis])
        return result

    def _append(
        self,
        op: str,
        inputs: list[gs.Tensor],
        outputs: list[gs.Variable],
        attrs: dict[str, object],
        listed: str,
        numbers: list[int],
    ) -> None:
        """A node whose list of integers is an input from opset 13 on and an attribute before."""
        if self.model.opset >= 13:
            inputs = [*inputs, self.names.constant(listed, np.array(numbers, np.int64))]
        else:
            attrs = {**attrs, listed: numbers}
        node = gs.Node(op=op, attrs=attrs, inputs=inputs, outputs=outputs)
        self.graph.nodes.append(node)
        self.made.append(node)

    def _read(self, node: gs.Node) -> str:
        """Returns the reason when the node was left alone."""
        members = self._members(node.inputs[0])
        if isinstance(members, str):
            return members
        if node.op == "SequenceLength":
            value: gs.Tensor = self.names.constant("length", np.array(len(members), np.int64))
        elif node.op == "SequenceAt":
            at = self._position(node.inputs[1])
            if isinstance(at, str):
                return at
            if not -len(members) <= at < len(members):
                return f"it reads position {at} of a sequence of {len(members)}"
            value = members[at]
        else:
            if not members:
                return "it joins a sequence without members"
            axis = int(node.attrs["axis"])
            parts = [self._one("Unsqueeze", m, axis) for m in members] if node.attrs.get("new_axis", 0) else members
            value = self.names.variable(f"{node.outputs[0].name}_joined", members[0])
            joint = gs.Node(op="Concat", name=node.name, attrs={"axis": axis}, inputs=parts, outputs=[value])
            self.graph.nodes.append(joint)
        result = node.outputs[0]
        node.outputs.clear()
        node.inputs.clear()
        bridge = gs.Node(op="Identity", inputs=[value], outputs=[result])
        self.graph.nodes.append(bridge)
        bypass(self.graph, bridge)
        return ""

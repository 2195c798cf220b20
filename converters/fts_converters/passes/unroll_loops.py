"""A Loop or Scan whose number of iterations is known becomes its body, written out once for each.

    Loop(M, cond, s0; body):  s(k+1), y(k) = body(k, s(k)) for k = 0 .. n-1;  outputs s(n) and stack(y(0) .. y(n-1))

n is M where the condition is passed through; where it is computed, the part of the body that it depends on is run by
onnxruntime, iteration by iteration, until it gives false. Scan likewise, over the slices of its scanned inputs.

Requires: trip count and first condition are constants, and all that the condition depends on (counters that start from
constants); for Scan a static size. Ensures: tensors get names that nothing else has; outer tensors stay what they were;
loops inside of what was written out are unrolled in their turn, also those in branches of an If that stays.
Does *not* unroll beyond MOST_MADE nodes a loop, MOST_NODES in all, nor a Scan of opset 8, which has a batch axis.

Source: onnx Operators.md, Loop-11 and Scan-9.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts.engines.onnxruntime_session import open_session
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import TensorNames, UnusedNames, bypass, finish
from fts_converters.passes.graph_reading import constant, label, static_shape
from fts_converters.passes.subgraph_copies import (
    Places,
    copy_nodes,
    count_nodes,
    detach,
    rename_constants,
    subgraphs_of,
)

# A net of 10,000 nodes is cleaned within a minute; more is nobody's image net, and engines choke on it.
MOST_MADE = 10_000
MOST_NODES = 40_000
LOOPS = frozenset({"Loop", "Scan"})


def unroll_loops(model: Model) -> PassResult:
    """Unrolls until none is left that can be."""
    graph = model.graph
    is_changed = False
    while True:
        names = TensorNames(graph)
        node_names = UnusedNames({n.name for g in _homes(graph) for n in g.nodes})
        refusals = []
        is_round_changed = False
        for home in _homes(graph):
            for node in [n for n in home.nodes if n.op in LOOPS and not n.domain]:
                reason = _Unrolling(model, home, node, names, node_names).run()
                if reason:
                    refusals.append(Refusal(node=label(node), reason=reason))
                else:
                    is_round_changed = True
        if not is_round_changed:
            return PassResult(is_changed=is_changed, refusals=tuple(refusals))
        finish(graph)
        is_changed = True


def _homes(graph: gs.Graph) -> Iterator[gs.Graph]:
    """The graph and the branches of its Ifs; bodies of loops wait until they are written out."""
    yield graph
    for node in list(graph.nodes):
        if node.op == "If":
            for branch in subgraphs_of(node):
                yield from _homes(branch)


class _Unrolling:
    """One loop: decides, then writes."""

    def __init__(
        self, model: Model, home: gs.Graph, node: gs.Node, names: TensorNames, node_names: UnusedNames
    ) -> None:
        self.graph = model.graph
        self.opset = model.opset
        self.home = home
        self.node = node
        self.names = names
        self.node_names = node_names
        self.body: gs.Graph = node.attrs["body"]

    def run(self) -> str:
        """Returns the reason when the loop was left alone."""
        is_scan = self.node.op == "Scan"
        trips = _scan_length(self.node, self.opset) if is_scan else _trip_count(self.node, self.body)
        if isinstance(trips, str):
            return trips
        size = count_nodes(self.body)
        if trips * size > MOST_MADE:
            return (
                f"{trips} iterations of {size} nodes make {trips * size} nodes, and at most {MOST_MADE} are written out"
            )
        total = count_nodes(self.graph) + trips * size
        if total > MOST_NODES:
            return f"with its {trips} iterations of {size} nodes the net has {total} nodes, and at most {MOST_NODES} are made"
        scanned = int(self.node.attrs["num_scan_inputs"]) if is_scan else 0
        states = list(self.node.inputs[: len(self.node.inputs) - scanned] if is_scan else self.node.inputs[2:])
        empty: list[gs.Tensor | None] = [None] * len(self.node.outputs)
        if not trips:
            for i in range(len(states), len(self.node.outputs)):
                value = self._empty_stack(i - len(states), i)
                if value is None and self.node.outputs[i].name:
                    return (
                        f"it makes no iteration, and the shape of its output {self.node.outputs[i].name!r} is unknown"
                    )
                empty[i] = value
        self._write(trips, states, scanned, empty)
        return ""

    def _empty_stack(self, stack: int, position: int) -> gs.Constant | None:
        """A stacked output of no iteration."""
        made = self.body.outputs[position if self.node.op == "Scan" else position + 1]
        shape = static_shape(made)
        if shape is None or made.dtype is None:
            return None
        axis = self._axes("scan_output_axes", stack) % (len(shape) + 1)
        return self.names.constant(
            f"{self.node.outputs[position].name}_none", np.zeros((*shape[:axis], 0, *shape[axis:]), made.dtype)
        )

    def _axes(self, attribute: str, position: int) -> int:
        """An entry of a Scan's list of axes or directions, 0 where it is absent, as in a Loop."""
        values = self.node.attrs.get(attribute) or []
        return int(values[position]) if position < len(values) else 0

    def _write(self, trips: int, states: list[gs.Tensor], scanned: int, empty: list[gs.Tensor | None]) -> None:
        shared: Places = {}
        rename_constants(self.body, self.home, shared, self.names)
        is_scan = self.node.op == "Scan"
        first_state = 0 if is_scan else 2
        first_result = 0 if is_scan else 1
        stacks: list[list[gs.Tensor]] = [[] for _ in self.body.outputs[first_result + len(states) :]]
        sources = list(self.node.inputs[len(self.node.inputs) - scanned :]) if scanned else []
        for k in range(trips):
            places = dict(shared)
            if not is_scan:
                places[id(self.body.inputs[0])] = self._number(k)
                places[id(self.body.inputs[1])] = self.names.constant("is_running", np.array(True))
            for inside, outside in zip(self.body.inputs[first_state:], states, strict=False):
                places[id(inside)] = outside
            for j, source in enumerate(sources):
                at = trips - 1 - k if self._axes("scan_input_directions", j) else k
                places[id(self.body.inputs[len(states) + j])] = self._slice(source, at, j)
            self.home.nodes.extend(copy_nodes(list(self.body.nodes), places, self.names, self.node_names))
            results = [places.get(id(t), t) for t in self.body.outputs[first_result:]]
            states = results[: len(states)]
            for stack, result in zip(stacks, results[len(states) :], strict=True):
                stack.append(result)
        outputs = list(self.node.outputs)
        self.node.outputs.clear()
        self.node.inputs.clear()
        for i, old in enumerate(outputs):
            if not old.name:
                continue
            if i < len(states):
                self._bridge(states[i], old)
            elif (none := empty[i]) is not None:
                self._bridge(none, old)
            else:
                self._stack(stacks[i - len(states)], old, i - len(states))

    def _number(self, k: int) -> gs.Constant:
        return self.names.constant("iteration", np.array(k, np.int64))

    def _slice(self, source: gs.Tensor, at: int, position: int) -> gs.Tensor:
        piece = self.names.variable(f"{source.name}_slice", source)
        axis = self._axes("scan_input_axes", position)
        node = gs.Node(op="Gather", attrs={"axis": axis}, inputs=[source, self._number(at)], outputs=[piece])
        self.home.nodes.append(node)
        return piece

    def _stack(self, parts: list[gs.Tensor], result: gs.Tensor, stack: int) -> None:
        if self._axes("scan_output_directions", stack):
            parts = parts[::-1]
        axis = self._axes("scan_output_axes", stack)
        rows = []
        for part in parts:
            row = self.names.variable(f"{result.name}_part", result)
            inputs, attrs = [part], {"axes": [axis]}
            if self.opset >= 13:
                inputs, attrs = [part, self.names.constant("axes", np.array([axis], np.int64))], {}
            self.home.nodes.append(gs.Node(op="Unsqueeze", attrs=attrs, inputs=inputs, outputs=[row]))
            rows.append(row)
        self.home.nodes.append(gs.Node(op="Concat", attrs={"axis": axis}, inputs=rows, outputs=[result]))

    def _bridge(self, new: gs.Tensor, old: gs.Tensor) -> None:
        node = gs.Node(op="Identity", inputs=[new], outputs=[old])
        self.home.nodes.append(node)
        bypass(self.home, node)


def _scan_length(node: gs.Node, opset: int) -> int | str:
    """Iterations of a Scan, or why they are not known."""
    if opset < 9:
        return "it is a Scan of opset 8, which has a batch axis"
    scanned = int(node.attrs["num_scan_inputs"])
    axes = node.attrs.get("scan_input_axes") or [0] * scanned
    for tensor, axis in zip(node.inputs[len(node.inputs) - scanned :], axes, strict=True):
        shape = tensor.shape
        if shape is not None and isinstance(shape[int(axis)], int | np.integer):
            return int(shape[int(axis)])
    return "the size of what it scans is not known"


def _trip_count(node: gs.Node, body: gs.Graph) -> int | str:
    """Iterations of a Loop, or why they are not known."""
    most: int | None = None
    if node.inputs and node.inputs[0].name:
        limit = constant(node.inputs[0])
        if limit is None:
            return "its trip count is computed from the input"
        most = max(0, int(limit.reshape(-1)[0]))
    if len(node.inputs) > 1 and node.inputs[1].name:
        start = constant(node.inputs[1])
        if start is None:
            return "its first condition is computed from the input"
        if not bool(start.reshape(-1)[0]):
            return 0
    if most == 0:
        return 0
    goes_on = _constant_condition(body)
    if goes_on is False:
        return 1
    if goes_on is True:
        return "it has no trip count and its condition stays true" if most is None else most
    return _simulated_trip_count(node, body, most)


def _constant_condition(body: gs.Graph) -> bool | None:
    """True when the condition is passed through or always true, None when it is computed."""
    tensor = body.outputs[0]
    while tensor is not body.inputs[1]:
        value = constant(tensor)
        if value is not None:
            return bool(value.reshape(-1)[0])
        if len(tensor.inputs) != 1 or tensor.inputs[0].op != "Identity":
            return None
        tensor = tensor.inputs[0].inputs[0]
    return True


def _simulated_trip_count(node: gs.Node, body: gs.Graph, most: int | None) -> int | str:
    """Run what the condition depends on until it gives false."""
    needed = _condition_slice(node, body)
    if isinstance(needed, str):
        return needed
    nodes, positions = needed
    values = {p: np.asarray(constant(node.inputs[p])) for p in positions}
    longest = MOST_MADE // max(1, count_nodes(body)) + 1
    places: Places = {id(t): t for t in (body.inputs[0], body.inputs[1])}
    inputs = {p: gs.Variable(f"in{p}", dtype=_dtype_of(p, values)) for p in (0, 1, *positions)}
    for p, variable in inputs.items():
        places[id(body.inputs[p])] = variable
    names = TensorNames(body)
    copies = copy_nodes(nodes, places, names, UnusedNames(set()))
    try:
        outputs = []
        for i, p in enumerate((1, *positions)):
            out = gs.Variable(f"out{p}", dtype=_dtype_of(p, values))
            tensor = body.outputs[p - 1]
            copies.append(
                gs.Node(op="Identity", inputs=[places.get(id(tensor), tensor)], outputs=[out], name=f"give{i}")
            )
            outputs.append(out)
        part = gs.Graph(
            nodes=copies,
            inputs=list(inputs.values()),
            outputs=outputs,
            opset=body.opset,
            import_domains=body.import_domains,
        )
        for copy in copies:
            copy.name = ""
        proto = gs.export_onnx(part, do_type_check=False)
        proto.ir_version = 8 if body.opset < 19 else 10
        session = open_session(proto.SerializeToString(), threads=1, what="the condition of a Loop")
        for k in range(longest if most is None else min(most, longest)):
            feeds: dict[str, npt.NDArray[np.generic]] = {"in0": np.array(k, np.int64), "in1": np.array(True)}
            feeds.update({f"in{p}": v for p, v in values.items()})
            results = session.run({v.name: feeds[v.name] for v in inputs.values()})
            values = dict(zip(positions, results[1:], strict=True))
            if not bool(np.asarray(results[0]).reshape(-1)[0]):
                return k + 1
    finally:
        detach(copies)
    return longest if most is None else min(most, longest)  # the caller knows how many are too many


def _dtype_of(position: int, values: dict[int, npt.NDArray[np.generic]]) -> np.dtype[np.generic]:
    """Of an input of the body."""
    return np.dtype(np.int64) if position == 0 else np.dtype(np.bool_) if position == 1 else values[position].dtype


def _condition_slice(node: gs.Node, body: gs.Graph) -> tuple[list[gs.Node], list[int]] | str:
    """Nodes of the body that the condition depends on, in order, and the states (as input positions) that take part."""
    at_input = {id(t): p for p, t in enumerate(body.inputs)}
    makers = {id(t): n for n in body.nodes for t in n.outputs}
    needed: set[int] = set()
    positions: set[int] = set()
    open_tensors = [body.outputs[0]]
    while open_tensors:
        tensor = open_tensors.pop()
        position = at_input.get(id(tensor))
        maker = makers.get(id(tensor))
        if position is not None:
            if position >= 2 and position not in positions:
                if constant(node.inputs[position]) is None:
                    return (
                        f"its condition depends on {tensor.name!r}, which starts from a value computed from the input"
                    )
                positions.add(position)
                open_tensors.append(body.outputs[position - 1])
        elif maker is not None:
            if id(maker) not in needed:
                needed.add(id(maker))
                open_tensors += [t for t in _reads(maker) if t.name]
        elif constant(tensor) is None:
            return f"its condition depends on {tensor.name!r}, which is computed from the input"
        elif not isinstance(tensor, gs.Constant):
            return f"its condition depends on {tensor.name!r}, which a Constant node outside of it makes"
    return [n for n in body.nodes if id(n) in needed], sorted(positions)


def _reads(node: gs.Node) -> Iterator[gs.Tensor]:
    """Inputs of a node and what its subgraphs read from outside of them."""
    yield from node.inputs
    for graph in subgraphs_of(node):
        own = {id(t) for n in graph.nodes for t in n.outputs} | {id(t) for t in graph.inputs}
        for inner in graph.nodes:
            yield from (t for t in _reads(inner) if id(t) not in own)
        yield from (t for t in graph.outputs if id(t) not in own)

"""Emitters of Loop, Scan and sequences of tensors: counted, while-style, nested, stacked, and those that cannot be unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from tests.generators.builder import BOOL, F32, I64, Builder, Emitter, Value


class _Body:
    """A subgraph under construction; names are the outer builder's, so that nothing clashes."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.inputs: list[ValueInfoProto] = []

    def input(self, dtype: int, shape: Sequence[int | None] | None) -> str:
        name = self.b.fresh("state")
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def counters(self) -> tuple[str, str]:
        """Iteration number and condition, the first two inputs of a Loop's body."""
        return self.input(TensorProto.INT64, ()), self.input(TensorProto.BOOL, ())

    def const(self, array: npt.ArrayLike, dtype: Any = F32) -> str:
        name = self.b.fresh("weight")
        tensor = numpy_helper.from_array(np.asarray(array, dtype), name)
        if self.b.chance(0.4) or self.b.ir_version < 4:  # where an initializer has to be an input
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        return name

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = self.b.fresh(op)
        label = f"{op}_{len(self.nodes)}" if self.b.chance(0.5) else ""
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=label, **attributes))
        self.b.ops.add(op)
        return name

    def graph(self, *outputs: tuple[str, int, Sequence[int | None] | None]) -> GraphProto:
        """outputs: (name, element type, shape)."""
        infos = [helper.make_tensor_value_info(*o) for o in outputs]
        return helper.make_graph(self.nodes, self.b.fresh("body"), self.inputs, infos, self.initializers)


FLOAT = TensorProto.FLOAT


def _known(b: Builder, number: int) -> Value:
    """A trip count: a constant, or what shape arithmetic gives."""
    if number and b.chance(0.3):
        sized = b.const(np.zeros((number, 2)), F32)
        sizes = b.node("Shape", [sized], (2,), I64, 64.0, keep=False)
        return b.node("Gather", [sizes, b.const(0, I64)], (), I64, 64.0, keep=False, axis=0)
    return b.const(number, I64)


def loop_with_scan_outputs(b: Builder) -> Value:
    """Two states, one of which is an integer, and two stacked outputs; the iteration number takes part."""
    x = b.pick((1, 2), mag=4.0)
    trips = b.integer(1, 4)
    body = _Body(b)
    i, keep = body.counters()
    state, count = body.input(FLOAT, x.shape), body.input(TensorProto.INT64, ())
    step = body.op("Add", body.op("Mul", state, body.const(0.5)), x.name)
    number = body.op("Cast", i, to=FLOAT)
    stacked = body.op("Add", step, number)
    graph = body.graph(
        (body.op("Identity", keep), TensorProto.BOOL, ()),
        (step, FLOAT, x.shape),
        (body.op("Add", count, body.const(2, I64)), TensorProto.INT64, ()),
        (stacked, FLOAT, x.shape),
        (body.op("Identity", count), TensorProto.INT64, ()),
    )
    b.read.add(x.name)
    outputs = [
        (x.shape, F32, 3 * x.mag),
        ((), I64, 20.0),
        ((trips, *x.shape), F32, 3 * x.mag + 4),
        ((trips,), I64, 20.0),
    ]
    condition = b.const(True, BOOL) if b.chance(0.5) else None
    inputs = [_known(b, trips), condition, x, b.const(b.integer(-2, 2), I64)]
    return b.multi("Loop", inputs, outputs, constant=False, body=graph)[-2]


def loop_while(b: Builder) -> Value:
    """Runs while a counter of its own, or the iteration number, is below a limit; the trip count is absent or larger."""
    x = b.pick((1, 2, 3), mag=4.0)
    limit = b.integer(0, 3)
    body = _Body(b)
    i, keep = body.counters()
    state, count = body.input(FLOAT, x.shape), body.input(TensorProto.INT64, ())
    following = body.op("Add", count, body.const(1, I64))
    probe = i if b.chance(0.4) else following
    go = body.op("Less", probe, body.const(limit, I64))
    if b.chance(0.3):
        go = body.op("And", go, keep)
    step = body.op("Relu", body.op("Sub", x.name, body.op("Mul", state, body.const(0.25))))
    graph = body.graph((go, TensorProto.BOOL, ()), (step, FLOAT, x.shape), (following, TensorProto.INT64, ()))
    b.read.add(x.name)
    most = None if b.chance(0.5) else b.const(b.integer(3, 6), I64)
    start = b.const(not b.chance(0.15), BOOL)
    outputs = [(x.shape, F32, 3 * x.mag), ((), I64, 20.0)]
    return b.multi("Loop", [most, start, x, b.const(0, I64)], outputs, constant=False, body=graph)[0]


def loop_of_no_trips(b: Builder) -> Value:
    """The trip count is 0 or the first condition is false: states come out as they went in."""
    x = b.pick((1, 2, 3), mag=4.0)
    body = _Body(b)
    _, keep = body.counters()
    state = body.input(FLOAT, x.shape)
    graph = body.graph((keep, TensorProto.BOOL, ()), (body.op("Neg", state), FLOAT, x.shape))
    trips, condition = (0, True) if b.chance(0.5) else (3, False)
    inputs = [b.const(trips, I64), b.const(condition, BOOL), x]
    return b.node("Loop", inputs, x.shape, F32, x.mag, constant=False, body=graph)


def loop_that_grows(b: Builder) -> Value:
    """A state whose shape changes from one iteration to the next: state = Concat(state, x * i)."""
    x = b.pick((2, 3), where=lambda v: v.size <= 60, mag=4.0)
    trips = b.integer(1, 3)
    free = (None, *x.shape[1:])
    body = _Body(b)
    i, keep = body.counters()
    state = body.input(FLOAT, free)
    piece = body.op("Mul", x.name, body.op("Cast", i, to=FLOAT))
    graph = body.graph((keep, TensorProto.BOOL, ()), (body.op("Concat", state, piece, axis=0), FLOAT, free))
    b.read.add(x.name)
    shape = ((trips + 1) * x.shape[0], *x.shape[1:])
    return b.node("Loop", [_known(b, trips), b.const(True, BOOL), x], shape, F32, 3 * x.mag, constant=False, body=graph)


def loop_in_loop(b: Builder) -> Value:
    """The inner trip count is the outer iteration number; an If on that number; both bodies read outer tensors."""
    x = b.pick((1, 2, 3), mag=2.0)
    outer = _Body(b)
    i, keep = outer.counters()
    state = outer.input(FLOAT, x.shape)
    half = outer.op("Mul", state, outer.const(0.5))
    inner = _Body(b)
    _, inner_keep = inner.counters()
    inner_state = inner.input(FLOAT, x.shape)
    pushed = inner.op("Add", inner.op("Mul", inner_state, inner.const(0.5)), half)
    inner_graph = inner.graph(
        (inner.op("Identity", inner_keep), TensorProto.BOOL, ()), (inner.op("Sub", pushed, x.name), FLOAT, x.shape)
    )
    result = outer.op("Loop", i, keep, half, body=inner_graph)
    if b.chance(0.6):
        then, other = _Body(b), _Body(b)
        branches = (
            then.graph((then.op("Neg", result), FLOAT, x.shape)),
            other.graph((other.op("Add", result, x.name), FLOAT, x.shape)),
        )
        first = outer.op("Less", i, outer.const(1, I64))
        result = outer.op("If", first, then_branch=branches[0], else_branch=branches[1])
    graph = outer.graph((outer.op("Identity", keep), TensorProto.BOOL, ()), (result, FLOAT, x.shape))
    b.read.add(x.name)
    trips = b.integer(1, 3)
    inputs = [b.const(trips, I64), b.const(True, BOOL), x]
    return b.node("Loop", inputs, x.shape, F32, 8 * x.mag, constant=False, body=graph)


def loop_of_live_length(b: Builder) -> Value:
    """The trip count is an input, so it has to stay a loop."""
    x = b.pick((1, 2), mag=4.0)
    body = _Body(b)
    _, keep = body.counters()
    state = body.input(FLOAT, x.shape)
    step = body.op("Add", body.op("Mul", state, body.const(0.5)), x.name)
    graph = body.graph((body.op("Identity", keep), TensorProto.BOOL, ()), (step, FLOAT, x.shape))
    b.read.add(x.name)
    return b.node(
        "Loop", [b.input((), I64), b.const(True, BOOL), x], x.shape, F32, 2 * x.mag, constant=False, body=graph
    )


def scan(b: Builder) -> Value:
    """Two scanned inputs of different axes, a state, two stacked outputs, directions and axes of all sorts."""
    x = b.pick((2, 3), where=lambda v: v.size <= 200 and max(v.shape) <= 7, mag=4.0)
    axis = b.integer(0, x.rank - 1)
    trips = x.shape[axis]
    element = tuple(n for a, n in enumerate(x.shape) if a != axis)
    sums = b.const(b.rng.uniform(-1, 1, (2, trips)), F32)
    body = _Body(b)
    state, piece, pair = body.input(FLOAT, element), body.input(FLOAT, element), body.input(FLOAT, (2,))
    step = body.op("Add", body.op("Mul", state, body.const(0.5)), piece)
    outside = body.op("Identity", x.name)
    total = body.op("Add", body.op("ReduceMax", outside, keepdims=0), pair)
    graph = body.graph((step, FLOAT, element), (body.op("Neg", step), FLOAT, element), (total, FLOAT, (2,)))
    b.read.add(x.name)
    out_axis = b.integer(0, len(element))
    last = b.integer(0, 1)
    is_negative = b.opset >= 11 and b.chance(0.4)
    stacked = (*element[:out_axis], trips, *element[out_axis:])
    attributes: dict[str, Any] = {
        "scan_input_axes": [axis - x.rank if is_negative else axis, 1],
        "scan_input_directions": [b.integer(0, 1), b.integer(0, 1)] if b.chance(0.6) else None,
        "scan_output_axes": [out_axis - len(stacked) if is_negative else out_axis, last],
        "scan_output_directions": [b.integer(0, 1), b.integer(0, 1)] if b.chance(0.6) else None,
    }
    start = b.const(np.zeros(element), F32)
    outputs = [
        (element, F32, 2 * x.mag),
        (stacked, F32, 2 * x.mag),
        ((2, trips) if last else (trips, 2), F32, x.mag + 1),
    ]
    return b.multi("Scan", [start, x, sums], outputs, constant=False, body=graph, num_scan_inputs=2, **attributes)[-2]


def _sequence(b: Builder, op: str, inputs: Sequence[Value | None], **attributes: Any) -> Value:
    """A node that gives a sequence, which nothing but the caller reads."""
    return b.node(op, inputs, (), F32, 64.0, keep=False, constant=False, **attributes)


def sequence_of_pieces(b: Builder) -> Value:
    """SplitToSequence, changed now and then, and joined again along the same or a new axis, or one piece of it."""
    x = b.pick((2, 3), where=lambda v: v.shape[0] >= 2)
    n = x.shape[0]
    kind = b.choose(("ones", "without axis", "sizes"))
    if kind == "sizes":
        sizes = [1] * n if b.chance(0.5) else [n - 1, 1]
        pieces = _sequence(b, "SplitToSequence", [x, b.ints(*sizes)], axis=0)
    else:
        sizes = [1] * n
        pieces = _sequence(b, "SplitToSequence", [x], axis=0, keepdims=0 if kind == "without axis" else 1)
    rest = x.shape[1:]
    if b.chance(0.4):
        at = b.integer(-len(sizes), len(sizes) - 1)
        shape = rest if kind == "without axis" else (sizes[at], *rest)
        return b.node("SequenceAt", [pieces, b.const(at, I64)], shape, F32, x.mag, constant=False)
    if b.chance(0.5):
        at = b.integer(0, len(sizes) - 1)
        piece = b.node("SequenceAt", [pieces, b.const(at, I64)], (), F32, x.mag, keep=False, constant=False)
        pieces = _sequence(b, "SequenceErase", [pieces, b.const(at, I64)])
        pieces = _sequence(b, "SequenceInsert", [pieces, piece, b.const(b.choose((0, -1)), I64)])
    if kind == "without axis":
        return b.node("ConcatFromSequence", [pieces], (n, *rest), F32, x.mag, constant=False, axis=0, new_axis=1)
    return b.node("ConcatFromSequence", [pieces], x.shape, F32, x.mag, constant=False, axis=0)


def sequence_constructed(b: Builder) -> Value:
    """SequenceConstruct of two tensors and one more, stacked; its length as data."""
    x = b.pick((1, 2, 3), where=lambda v: v.size <= 200)
    other = b.node("Neg", [x], x.shape, F32, x.mag)
    pieces = _sequence(b, "SequenceConstruct", [x, other])
    if b.chance(0.5):
        pieces = _sequence(b, "SequenceInsert", [pieces, x, *([b.const(1, I64)] if b.chance(0.5) else [])])
        count = 3
    else:
        count = 2
    y = b.node("ConcatFromSequence", [pieces], (*x.shape, count), F32, x.mag, constant=False, axis=-1, new_axis=1)
    if b.chance(0.6):
        length = b.node("SequenceLength", [pieces], (), I64, 4.0, keep=False, constant=False)
        return b.binary("Mul", y, b.cast(length, F32), count * y.mag)
    return y


def loop_over_sequence(b: Builder) -> Value:
    """What torch writes for a list that a for loop appends to: SequenceEmpty, Loop of SequenceInsert, ConcatFromSequence."""
    x = b.pick((1, 2, 3), where=lambda v: v.size <= 200, mag=8.0)
    trips = b.integer(1, 3)
    body = _Body(b)
    i, keep = body.counters()
    sequence = b.fresh("state")
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, x.shape))
    body.inputs.append(helper.make_value_info(sequence, kind))
    piece = body.op("Add", x.name, body.op("Cast", i, to=FLOAT))
    longer = body.op("SequenceInsert", sequence, piece)
    graph = body.graph((body.op("Identity", keep), TensorProto.BOOL, ()))
    graph.output.append(helper.make_value_info(longer, kind))
    b.read.add(x.name)
    empty = _sequence(b, "SequenceEmpty", [])
    pieces = _sequence(b, "Loop", [b.const(trips, I64), b.const(True, BOOL), empty], body=graph)
    new_axis = b.integer(0, 1)
    shape = (trips, *x.shape) if new_axis else (trips * x.shape[0], *x.shape[1:])
    return b.node("ConcatFromSequence", [pieces], shape, F32, x.mag + 3, constant=False, axis=0, new_axis=new_axis)


EMITTERS = (
    Emitter(emit=loop_with_scan_outputs, since=11, weight=1.2),
    Emitter(emit=loop_while, since=11),
    Emitter(emit=loop_of_no_trips, since=11, weight=0.7),
    Emitter(emit=loop_that_grows, since=11, weight=0.7),
    Emitter(emit=loop_in_loop, since=11),
    Emitter(emit=loop_of_live_length, since=11, weight=0.7),
    Emitter(emit=scan, since=9, weight=1.2),
    Emitter(emit=sequence_of_pieces, since=11, weight=1.2),
    Emitter(emit=sequence_constructed, since=11, weight=1.2),
    Emitter(emit=loop_over_sequence, since=13, weight=0.8),
)

"""Emitters of If and Loop whose bodies read tensors of the graph around them."""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper
from tests.generators.builder import BOOL, F32, I64, Builder, Emitter, Value


def _branch(b: Builder, x: Value, op: str, number: float) -> GraphProto:
    """outer x -> op with a constant of the branch's own -> output."""
    weight, out = b.fresh("weight"), b.fresh(op)
    nodes: list[NodeProto] = []
    initializers: list[TensorProto] = []
    data = np.full(x.shape[-1:], number, np.float32)
    if b.chance(0.5):
        nodes.append(helper.make_node("Constant", [], [weight], value=numpy_helper.from_array(data)))
    else:
        initializers.append(numpy_helper.from_array(data, weight))
    inner = b.fresh("Relu")
    nodes.append(helper.make_node(op, [x.name, weight], [inner]))
    nodes.append(helper.make_node("Relu", [inner], [out]))
    b.ops.update((op, "Relu"))
    return helper.make_graph(
        nodes, b.fresh("branch"), [], [helper.make_tensor_value_info(out, TensorProto.FLOAT, x.shape)], initializers
    )


def if_(b: Builder) -> Value:
    x = b.pick((1, 2, 3, 4))
    if b.chance(0.5):
        b.patterns.add("if_constant_condition")
        condition = b.const(b.chance(0.5), BOOL)
    else:
        condition = b.input((), BOOL)
    mag = max(2 * x.mag, x.mag + 2)
    then, other = _branch(b, x, "Mul", 0.5), _branch(b, x, "Add", 1.25)
    b.read.add(x.name)
    return b.node("If", [condition], x.shape, F32, mag, constant=False, then_branch=then, else_branch=other)


def loop(b: Builder) -> Value:
    """state = state * 0.5 + outer, a constant number of times."""
    x = b.pick((1, 2, 3), mag=8.0)
    i, keep, state, kept, half, result = (b.fresh(n) for n in ("i", "keep", "state", "keep", "half", "state"))
    factor, scaled = b.fresh("weight"), b.fresh("Mul")
    body = helper.make_graph(
        [
            helper.make_node("Identity", [keep], [kept]),
            helper.make_node("Mul", [state, factor], [scaled]),
            helper.make_node("Add", [scaled, x.name], [half]),
            helper.make_node("Identity", [half], [result]),
        ],
        b.fresh("body"),
        [
            helper.make_tensor_value_info(i, TensorProto.INT64, ()),
            helper.make_tensor_value_info(keep, TensorProto.BOOL, ()),
            helper.make_tensor_value_info(state, TensorProto.FLOAT, x.shape),
        ],
        [
            helper.make_tensor_value_info(kept, TensorProto.BOOL, ()),
            helper.make_tensor_value_info(result, TensorProto.FLOAT, x.shape),
        ],
        [numpy_helper.from_array(np.array(0.5, np.float32), factor)],
    )
    b.read.add(x.name)
    trips, condition = b.const(b.integer(1, 4), I64), b.const(True, BOOL)
    start = x if b.chance(0.5) else b.const(np.zeros(x.shape), F32)
    return b.node("Loop", [trips, condition, start], x.shape, F32, 2 * x.mag + start.mag, constant=False, body=body)


EMITTERS = (
    Emitter(emit=if_, since=11, weight=1.5),
    Emitter(emit=loop, since=11, weight=1.2),
)

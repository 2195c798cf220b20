"""Scan of opset 8 has a batch axis in front of every operand; since opset 9 it has none, and the converter drops the axis.

    Scan8(states (N, ...), sequences (N, T, ...))  =  Loop over n < N of ( Loop over t < T of body )

Each Loop gathers its slice (along N; then along T, from the end for a sequence that is read backward) and stacks what
its body gives: final states (N, ...) and outputs (N, T, ...), as Scan8 does. Loop is the same in all opsets to 13.
Sequence lengths of their own (the first operand) are refused.

Source: onnx Changelog.md, Scan-8 and Loop-1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fts.errors import ModelError
from fts_converters.fresh_names import FreshNames
from fts_converters.tensor_types import Scope


def write_out_scan_batch(scope: Scope, names: FreshNames, opset: int) -> None:
    """Replaces each Scan of opset 8, in place.

    Raises:
        ModelError: A Scan with sequence lengths.
    """
    if opset != 8:
        return
    graph = scope.graph
    for position, node in reversed(list(enumerate(graph.node))):
        if node.op_type != "Scan" or node.domain:
            continue
        if node.input[0]:
            raise ModelError(
                f"node {node.name or node.output[0]!r}: Scan of opset 8 with sequence lengths ({node.input[0]!r}), which "
                "no newer opset can say. Export with opset 9 or newer"
            )
        new = _over_batch(node, scope, names)
        del graph.node[position]
        for offset, made in enumerate(new):
            graph.node.insert(position + offset, made)


def _over_batch(node: onnx.NodeProto, scope: Scope, names: FreshNames) -> list[onnx.NodeProto]:
    """The outer Loop and what it needs."""
    attributes = {a.name: a for a in node.attribute}
    operands = list(node.input[1:])
    number, go_on = names.take("batch_number"), names.take("batch_go_on")
    slices = [names.take(f"{name}_of_batch") for name in operands]
    takes = [helper.make_node("Gather", [x, number], [one]) for x, one in zip(operands, slices, strict=True)]
    body = attributes["body"].g
    backward = list(attributes["directions"].ints) if "directions" in attributes else []
    inner, results = _over_time(body, slices, attributes["num_scan_inputs"].i, backward, names)
    kept = names.take("batch_kept")
    graph = helper.make_graph(
        [*takes, *inner, helper.make_node("Identity", [go_on], [kept])],
        names.take(f"{body.name}_of_batch"),
        _loop_inputs(number, go_on),
        [_value(kept, TensorProto.BOOL)]
        + [_value(n, o.type.tensor_type.elem_type) for n, o in zip(results, body.output, strict=True)],
    )
    sizes, count = _size_of_first_axis(operands[-1], names)
    outputs = [name or names.take("unread") for name in node.output]
    outputs += [names.take("unread") for _ in range(len(results) - len(outputs))]
    return [*sizes, helper.make_node("Loop", [count, ""], outputs, name=node.name, body=graph)]


def _over_time(
    body: onnx.GraphProto, operands: Sequence[str], sequences: int, backward: Sequence[int], names: FreshNames
) -> tuple[list[onnx.NodeProto], list[str]]:
    """The inner Loop with what it needs, and the names of its outputs."""
    states = len(operands) - sequences
    number, go_on, kept = names.take("step_number"), names.take("step_go_on"), names.take("step_kept")
    sizes, count = _size_of_first_axis(operands[-1], names)
    one, last, from_end = names.take("one"), names.take("last"), names.take("from_end")
    before = [
        helper.make_node("Constant", [], [one], value=numpy_helper.from_array(np.array(1, np.int64))),
        helper.make_node("Sub", [count, one], [last]),
        helper.make_node("Sub", [last, number], [from_end]),
    ]
    takes = []
    for place, (operand, value) in enumerate(zip(operands[states:], body.input[states:], strict=True)):
        is_backward = place < len(backward) and backward[place] == 1
        takes.append(helper.make_node("Gather", [operand, from_end if is_backward else number], [value.name]))
    graph = helper.make_graph(
        [*before[2:], *takes, *body.node, helper.make_node("Identity", [go_on], [kept])],
        body.name,
        [*_loop_inputs(number, go_on), *body.input[:states]],
        [_value(kept, TensorProto.BOOL), *body.output],
        list(body.initializer),
    )
    results = [names.take(f"{o.name}_of_batch") for o in body.output]
    loop = helper.make_node("Loop", [count, "", *operands[:states]], results, body=graph)
    return [*sizes, *before[:2], loop], results


def _size_of_first_axis(tensor: str, names: FreshNames) -> tuple[list[onnx.NodeProto], str]:
    shape, zero, size = (names.take(f"{tensor}_{part}") for part in ("shape", "zero", "size"))
    nodes = [
        helper.make_node("Shape", [tensor], [shape]),
        helper.make_node("Constant", [], [zero], value=numpy_helper.from_array(np.array(0, np.int64))),
        helper.make_node("Gather", [shape, zero], [size]),
    ]
    return nodes, size


def _loop_inputs(number: str, go_on: str) -> list[onnx.ValueInfoProto]:
    return [
        helper.make_tensor_value_info(number, TensorProto.INT64, ()),
        helper.make_tensor_value_info(go_on, TensorProto.BOOL, ()),
    ]


def _value(name: str, elem_type: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, elem_type, None)

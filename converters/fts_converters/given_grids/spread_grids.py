"""Grids moved across operators that only move values, so that Q and DQ stand around every operator that can be integer.

All steps keep the function bit by bit. With q the rounding to a grid, dq(q(x)) = x for every x on the grid, and for an
operator m that moves or compares values, q(m(x)) = m(q(x)), because rounding to a grid is monotone:

    constant -> Q -> DQ                the integers are computed here, once
    DQ(constant) -> Transpose          DQ(transposed constant), along the axis where the scales went
    Q -> m on integers -> DQ           Q -> DQ -> m -> Q -> DQ
    integers at the net's ends         DQ -> Q -> DQ behind an input, Q -> DQ -> Q in front of an output
    DQ -> m -> readers in float        DQ -> m -> Q -> DQ -> readers
    x -> m -> Q -> DQ                  x -> Q -> DQ -> m -> Q -> DQ         (m with one reader, or a Concat)
"""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.given_grids.grid import DEQUANTIZE, QUANTIZE, Grid, grid_of, has_zero_point, is_dq, is_q
from fts_converters.model import Model
from fts_converters.passes.fold_constants import fold_constants
from fts_converters.passes.graph_editing import TensorNames, finish
from fts_converters.passes.graph_reading import constant, is_output, only_reader, producer
from fts_converters.passes.name_nodes import name_nodes

# Operators whose output holds values of their first input and nothing else, whatever their attributes.
MOVING = frozenset(
    {"DepthToSpace", "Flatten", "MaxPool", "Reshape", "Slice", "SpaceToDepth", "Squeeze", "Transpose", "Unsqueeze"}
)
# Of these, what keeps the order of all values: a tensor with one scale a channel may not pass them.
RESHAPING = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})


def _moves_values(node: gs.Node) -> bool:
    """Whether the output holds values of the first input, and zeros at most."""
    if node.domain or len(node.outputs) != 1:
        return False
    if node.op == "Resize":  # tf_crop_and_resize fills in a value of its own
        coordinates = node.attrs.get("coordinate_transformation_mode", "half_pixel")
        return bool(node.attrs.get("mode", "nearest") == "nearest" and coordinates != "tf_crop_and_resize")
    if node.op == "Pad":
        value = constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2].name else np.zeros(())
        return node.attrs.get("mode", "constant") != "constant" or (value is not None and not value.any())
    return node.op in MOVING


def fold_integer_constants(model: Model) -> None:
    """Weights that come as floats in front of Q become the integers that Q makes of them, transposed where they are read so."""
    while True:
        names = TensorNames(model.graph)
        is_changed = False
        for node in list(model.graph.nodes):
            is_changed |= _quantize_constant(node, model.graph) or _turn_constant(node, model.graph, names)
        if not is_changed:
            return
        finish(model.graph)
        name_nodes(model)
        fold_constants(model)


def spread_grids(model: Model) -> None:
    """Do all that the top of this file lists; run `fold_integer_constants` first."""
    for step in (_lift_integer_moves, _close_ends, _spread_forward, _spread_backward):
        step(model.graph, TensorNames(model.graph))
        finish(model.graph)
    name_nodes(model)


def lift_integer_moves(model: Model) -> None:
    """The third line alone: what moves integers between Q and DQ moves real numbers."""
    _lift_integer_moves(model.graph, TensorNames(model.graph))
    finish(model.graph)
    name_nodes(model)


def _quantize_constant(node: gs.Node, graph: gs.Graph) -> bool:
    if not is_q(node) or not node.outputs or is_output(graph, node.outputs[0]):
        return False
    values, grid = constant(node.inputs[0]), grid_of(node)
    if values is None or grid is None:
        return False
    output = node.outputs[0]
    node.outputs.clear()
    node.inputs.clear()
    output.to_constant(grid.quantized(values))
    return True


def _turn_constant(node: gs.Node, graph: gs.Graph, names: TensorNames) -> bool:
    """DQ(constant) -> Transpose, or -> Reshape and its like under one scale, the other way round."""
    if node.domain or node.op not in {"Transpose", *RESHAPING} or not node.outputs or is_output(graph, node.outputs[0]):
        return False
    maker = producer(node.inputs[0], DEQUANTIZE)
    grid = grid_of(maker) if maker is not None else None
    if grid is None or constant(maker.inputs[0]) is None or (grid.axis is not None and node.op != "Transpose"):
        return False
    attrs = dict(maker.attrs)
    if grid.axis is not None:
        values = np.asarray(constant(maker.inputs[0]))
        attrs["axis"] = list(node.attrs.get("perm", range(values.ndim)[::-1])).index(grid.axis)
    output = node.outputs[0]
    moved = gs.Variable(names.unused(f"{output.name}_integers"), dtype=grid.dtype)
    operands = list(node.inputs[1:])
    node.outputs.clear()
    node.inputs.clear()
    graph.nodes.append(
        gs.Node(op=node.op, attrs=dict(node.attrs), inputs=[maker.inputs[0], *operands], outputs=[moved])
    )
    graph.nodes.append(gs.Node(op=DEQUANTIZE, attrs=attrs, inputs=[moved, *maker.inputs[1:]], outputs=[output]))
    return True


def _lift_integer_moves(graph: gs.Graph, names: TensorNames) -> None:
    """Moves of integers become moves of real numbers between DQ and Q; a Clip of integers a Clip at the same steps."""
    for node in list(graph.nodes):
        if node.domain or node.op not in MOVING | {"Clip", "Concat"} or len(node.outputs) != 1:
            continue
        data = node.inputs if node.op == "Concat" else node.inputs[:1]
        makers = [producer(t, QUANTIZE) for t in data]
        grids = [grid_of(m) if m is not None else None for m in makers]
        grid = grids[0]
        if grid is None or grid.axis is not None or any(g is None or not g.is_same(grid) for g in grids):
            continue
        bounds = [constant(t) for t in node.inputs[1:]] if node.op == "Clip" else []
        if any(b is None and t.name for b, t in zip(bounds, node.inputs[1:], strict=False)):
            continue
        quantizer = makers[0]
        for position, tensor in enumerate(data):
            node.inputs[position] = _dequantized(graph, names, tensor, quantizer, grid)
        for position, bound in enumerate(bounds, 1):
            if bound is not None:
                node.inputs[position] = names.constant(f"{node.name}_bound", grid.dequantized(bound))
        output = node.outputs[0]
        raw = gs.Variable(names.unused(f"{output.name}_float"), dtype=grid.real, shape=output.shape)
        node.outputs[0] = raw
        _quantize(graph, names, raw, quantizer, grid, output)


def _close_ends(graph: gs.Graph, names: TensorNames) -> None:
    """Integers that others than a DQ read or write get a pair of their own."""
    for node in list(graph.nodes):
        if is_dq(node) and constant(node.inputs[0]) is None and producer(node.inputs[0], QUANTIZE) is None:
            grid = grid_of(node)
            if grid is not None and grid.is_8_bit_tensor and not is_output(graph, node.outputs[0]):
                readers = list(node.outputs[0].outputs)
                result = _pair(graph, names, node.outputs[0], node, grid)
                for reader in readers:
                    _replace_input(reader, node.outputs[0], result)
        elif is_q(node) and node.outputs:
            grid, integers = grid_of(node), node.outputs[0]
            others = [r for r in integers.outputs if not is_dq(r) or r.inputs[0] is not integers]
            if grid is None or not grid.is_8_bit_tensor or not (others or is_output(graph, integers)):
                continue
            inner = gs.Variable(names.unused(f"{integers.name}_inner"), dtype=grid.dtype, shape=integers.shape)
            redirect = [r for r in integers.outputs if is_dq(r) and r.inputs[0] is integers]
            node.outputs[0] = inner
            for reader in redirect:
                reader.inputs[0] = inner
            real = _dequantized(graph, names, inner, node, grid)
            _quantize(graph, names, real, node, grid, integers)


def _spread_forward(graph: gs.Graph, names: TensorNames) -> None:
    for node in list(graph.nodes):
        if not _moves_values(node):
            continue
        maker, output = producer(node.inputs[0], DEQUANTIZE), node.outputs[0]
        grid = grid_of(maker) if maker is not None and constant(maker.inputs[0]) is None else None
        if grid is None or not grid.is_8_bit_tensor or not output.outputs:
            continue
        readers = [r for r in output.outputs if not is_q(r)]
        if readers and not is_output(graph, output):
            result = _pair(graph, names, output, maker, grid)
            for reader in readers:
                _replace_input(reader, output, result)


def _spread_backward(graph: gs.Graph, names: TensorNames) -> None:
    """In reverse order, so that a grid passes chains of moves."""
    for node in reversed(list(graph.nodes)):
        if not (_moves_values(node) or (node.op == "Concat" and not node.domain)):
            continue
        quantizer = only_reader(graph, node.outputs[0])
        grid = grid_of(quantizer) if quantizer is not None and is_q(quantizer) else None
        if grid is None or not grid.is_8_bit_tensor:
            continue
        for position, tensor in enumerate(node.inputs if node.op == "Concat" else node.inputs[:1]):
            if constant(tensor) is not None or tensor.dtype != np.float32 or producer(tensor, DEQUANTIZE) is not None:
                continue
            if node.op == "Concat" or only_reader(graph, tensor) is node:
                node.inputs[position] = _pair(graph, names, tensor, quantizer, grid)


def _pair(graph: gs.Graph, names: TensorNames, source: gs.Tensor, like: gs.Node, grid: Grid) -> gs.Tensor:
    """source -> Q -> DQ on the grid of a node; the caller gives the result to whom it belongs."""
    integers = gs.Variable(names.unused(f"{source.name}_integers"), dtype=grid.dtype, shape=source.shape)
    _quantize(graph, names, source, like, grid, integers)
    return _dequantized(graph, names, integers, like, grid)


def _quantize(
    graph: gs.Graph, names: TensorNames, source: gs.Tensor, like: gs.Node, grid: Grid, output: gs.Tensor
) -> None:
    operands = list(like.inputs[1:])
    if not has_zero_point(like):  # Q would then make uint8, whatever DQ reads
        zeros = np.zeros(np.asarray(constant(like.inputs[1])).shape, grid.dtype)
        operands = [like.inputs[1], names.constant(f"{output.name}_zero_point", zeros)]
    axis = {} if grid.axis is None else {"axis": grid.axis}
    graph.nodes.append(gs.Node(op=QUANTIZE, attrs=axis, inputs=[source, *operands], outputs=[output]))


def _dequantized(graph: gs.Graph, names: TensorNames, integers: gs.Tensor, like: gs.Node, grid: Grid) -> gs.Tensor:
    real = gs.Variable(names.unused(f"{integers.name}_real"), dtype=grid.real, shape=integers.shape)
    axis = {} if grid.axis is None else {"axis": grid.axis}
    graph.nodes.append(gs.Node(op=DEQUANTIZE, attrs=axis, inputs=[integers, *like.inputs[1:]], outputs=[real]))
    return real


def _replace_input(node: gs.Node, old: gs.Tensor, new: gs.Tensor) -> None:
    for position, tensor in enumerate(node.inputs):
        if tensor is old:
            node.inputs[position] = new

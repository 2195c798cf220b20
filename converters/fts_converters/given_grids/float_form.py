"""Q and DQ spelled in float operators: the same function, bit by bit, and nothing that an engine could fuse.

    Q -> DQ:  Div by scale -> Round -> Clip to [qmin - z, qmax - z] -> Mul by scale
    constant -> DQ:  the constant's real numbers

An engine takes DQ -> op -> Q for a request to compute in integers, some with sums that saturate or with a bias read on
another scale. The portable net and the reference must not depend on that, so they hold no Q and no DQ.

With `rounds=False` the rounding is left out: then the function is continuous, and two forms of one net can be compared
within float rounding, where a value that lies between two steps would else fall to either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_graphsurgeon as gs

from fts_converters.given_grids.grid import grid_of, has_zero_point, integer_dtype, is_dq, is_q
from fts_converters.model import Model
from fts_converters.passes.graph_editing import TensorNames, finish, redirect_readers
from fts_converters.passes.graph_reading import constant, is_output, rank


def float_form(model: Model, *, rounds: bool = True, keep: Collection[int] = ()) -> None:
    """Spell Q and DQ, those of subgraphs too.

    Args:
        model: Changed in place.
        rounds: False leaves the rounding out.
        keep: `id` of nodes that stay; a DQ that stays has its Q among them too.

    A node stays as well when its grid is computed along an axis of a tensor of unknown rank.
    """
    _spell(model.graph, TensorNames(model.graph), rounds, keep)
    finish(model.graph)


def _spell(graph: gs.Graph, names: TensorNames, rounds: bool, keep: Collection[int]) -> None:
    levels: dict[int, tuple[gs.Tensor, gs.Tensor]] = {}
    for node in list(graph.nodes):
        for value in node.attrs.values():
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, gs.Graph):
                    _spell(inner, names, rounds, keep)
        if id(node) in keep or not (is_q(node) or is_dq(node)):
            continue
        speller = _Speller(graph, node, names)
        if not speller.is_possible:
            continue
        if is_q(node):
            integers = node.outputs[0]
            levels[id(integers)] = speller.spell_q(rounds)
        else:
            speller.spell_dq(levels.get(id(node.inputs[0])))


class _Speller:
    """Writes one node; arithmetic on constants is done at once."""

    def __init__(self, graph: gs.Graph, node: gs.Node, names: TensorNames) -> None:
        self.graph = graph
        self.node = node
        self.names = names
        self.axes = rank(node.inputs[0])
        self.dtype = integer_dtype(node)
        scale = node.inputs[1]
        value = constant(scale)
        self.is_per_tensor = (
            value.size == 1 if value is not None else rank(scale) == 0 or list(scale.shape or ()) == [1]
        )
        self.real = np.dtype(np.float32) if scale.dtype is None else np.dtype(scale.dtype)

    @property
    def is_possible(self) -> bool:
        if self.dtype is None or self.dtype.kind not in "iu" or self.node.attrs.get("block_size"):
            return False
        return self.is_per_tensor or self.axes is not None

    def spell_q(self, rounds: bool) -> tuple[gs.Tensor, gs.Tensor]:
        """Returns (q - zero_point as float, zero_point as float)."""
        node, bounds = self.node, np.iinfo(self.dtype)
        source = self._as_float(node.inputs[0], self.real)
        steps = self._op("Div", [source, self._scale()], node.inputs[0].shape)
        if rounds:
            steps = self._op("Round", [steps], node.inputs[0].shape)
        zero = self._zero()
        low = self._minus(self._number(bounds.min), zero)
        high = self._minus(self._number(bounds.max), zero)
        if all(isinstance(b, gs.Constant) and b.values.size == 1 for b in (low, high)):
            ends = [self.names.constant(f"{node.name}_end", b.values.reshape(())) for b in (low, high)]
            steps = self._op("Clip", [steps, *ends], node.inputs[0].shape)
        else:
            steps = self._op("Min", [self._op("Max", [steps, low], None), high], node.inputs[0].shape)
        output = node.outputs[0]
        node.outputs.clear()
        node.inputs.clear()
        if is_output(self.graph, output) or not all(is_dq(r) and r.inputs[0] is output for r in output.outputs):
            self._spell_integers(self._plus(steps, zero), output, rounds)
        return steps, zero

    def _spell_integers(self, whole: gs.Tensor, output: gs.Tensor, rounds: bool) -> None:
        """Integers that others than a DQ read; an output of the continuous form is float, because a Cast would round."""
        if not rounds and not output.outputs:
            output.dtype = np.dtype(np.float32)
            self._append("Identity", [whole], output)
            return
        if not rounds:
            whole = self._op("Round", [whole], output.shape)
        self._append("Cast", [whole], output, to=onnx.helper.np_dtype_to_tensor_dtype(self.dtype))

    def spell_dq(self, levels: tuple[gs.Tensor, gs.Tensor] | None) -> None:
        node, output = self.node, self.node.outputs[0]
        values = constant(node.inputs[0])
        grid = grid_of(node)
        if values is not None and grid is not None:
            result: gs.Tensor = self.names.constant(f"{output.name}_real", grid.dequantized(values))
        else:
            zero = self._zero()
            if levels is None:
                steps = self._minus(self._cast(node.inputs[0], np.dtype(np.float32)), zero)
            else:
                steps = self._plus(levels[0], self._minus(levels[1], zero))
            result = self._op("Mul", [steps, self._scale()], output.shape)
            if self.real != np.float32:
                result = self._cast(result, self.real)
        node.inputs.clear()
        node.outputs.clear()
        if not is_output(self.graph, output):
            redirect_readers(output, result)
        elif isinstance(result, gs.Constant) or len(result.inputs) != 1:
            self._append("Identity", [result], output)
        else:
            maker = result.inputs[0]
            maker.outputs[0] = output

    def _scale(self) -> gs.Tensor:
        return self._shaped(self._as_float(self.node.inputs[1], self.real))

    def _zero(self) -> gs.Tensor:
        if not has_zero_point(self.node):
            return self._number(0)
        tensor = self.node.inputs[2]
        values = constant(tensor)
        if values is None:
            return self._shaped(self._cast(tensor, np.dtype(np.float32)))
        return self._shaped(self.names.constant(f"{tensor.name}_float", values.astype(np.float32)))

    def _shaped(self, tensor: gs.Tensor) -> gs.Tensor:
        """A scale or zero point such that it broadcasts against the values."""
        values = constant(tensor)
        if self.is_per_tensor:
            if values is None or not values.ndim:
                return tensor
            return self.names.constant(f"{tensor.name}_scalar", values.reshape(()))
        assert self.axes is not None
        axis = int(self.node.attrs.get("axis", 1)) % self.axes
        shape = np.array([-1 if a == axis else 1 for a in range(self.axes)])
        if values is not None:
            return self.names.constant(f"{tensor.name}_shaped", values.reshape(shape))
        return self._op("Reshape", [tensor, self.names.constant(f"{tensor.name}_shape", shape)], list(shape))

    def _as_float(self, tensor: gs.Tensor, dtype: np.dtype[Any]) -> gs.Tensor:
        if dtype == np.float32:
            return tensor
        values = constant(tensor)
        if values is not None:
            return self.names.constant(f"{tensor.name}_float", values.astype(np.float32))
        return self._cast(tensor, np.dtype(np.float32))

    def _cast(self, tensor: gs.Tensor, dtype: np.dtype[Any]) -> gs.Tensor:
        return self._op("Cast", [tensor], tensor.shape, dtype, to=onnx.helper.np_dtype_to_tensor_dtype(dtype))

    def _number(self, value: float) -> gs.Constant:
        return self.names.constant(f"{self.node.name}_number", np.array(value, np.float32))

    def _plus(self, a: gs.Tensor, b: gs.Tensor) -> gs.Tensor:
        return self._sum("Add", np.add, a, b)

    def _minus(self, a: gs.Tensor, b: gs.Tensor) -> gs.Tensor:
        return self._sum("Sub", np.subtract, a, b)

    def _sum(self, op: str, compute: Callable[..., npt.NDArray[Any]], a: gs.Tensor, b: gs.Tensor) -> gs.Tensor:
        first, second = constant(a), constant(b)
        if first is not None and second is not None:
            return self.names.constant(f"{self.node.name}_number", np.asarray(compute(first, second)))
        if second is not None and not second.any():
            return a
        return self._op(op, [a, b], None)

    def _op(
        self, op: str, inputs: list[gs.Tensor], shape: Any, dtype: np.dtype[Any] | None = None, **attrs: Any
    ) -> gs.Tensor:
        stem = self.node.name or self.node.op
        output = gs.Variable(self.names.unused(f"{stem}_{op}"), dtype=dtype or np.dtype(np.float32), shape=shape)
        self._append(op, inputs, output, **attrs)
        return output

    def _append(self, op: str, inputs: list[gs.Tensor], output: gs.Tensor, **attrs: Any) -> None:
        stem = self.node.name or self.node.op
        self.graph.nodes.append(
            gs.Node(op=op, name=self.names.unused(f"{stem}_{op}"), attrs=attrs, inputs=inputs, outputs=[output])
        )

"""Writes the nodes that replace one node: every new tensor gets a free name, its shape and its type, every node a name.

Requires opset 13 (axes and splits as inputs, one form of each operator up to 21), static shapes and known types.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.passes.graph_editing import TensorNames
from fts_converters.passes.graph_reading import static_shape

INT64_MAX = 2**63 - 1
# Reductions whose axes became an input with opset 18; ReduceSum was first, with 13 (ONNX operator specification).
AXES_INPUT_SINCE = {"ReduceSum": 13}
AXES_INPUT_SINCE_OTHERS = 18


class NewNodes:
    """The replacement of one node under construction.

    Nothing is appended that computes nothing: a Reshape to the same shape, an identical permutation or a whole slice gives
    its input back.
    """

    def __init__(self, graph: gs.Graph, names: TensorNames, node: gs.Node) -> None:
        self._graph = graph
        self._names = names
        self._node = node
        self.made: list[gs.Node] = []
        self.opset = int(graph.opset)
        self.stem = str(node.outputs[0].name)
        self.dtype = np.dtype(node.outputs[0].dtype)

    # --- reading

    def shape(self, tensor: gs.Tensor) -> tuple[int, ...]:
        """Static shape; whoever lowers has made sure that it is known."""
        shape = static_shape(tensor)
        assert shape is not None
        return shape

    # --- constants

    def constant(self, what: str, values: npt.ArrayLike, dtype: Any = None) -> gs.Constant:
        """A new initializer, of the type of the node's output unless given."""
        return self._names.constant(f"{self.stem}_{what}", np.asarray(values, dtype or self.dtype))

    def ints(self, what: str, values: Sequence[int] | int) -> gs.Constant:
        """A new int64 initializer."""
        return self.constant(what, np.asarray(values, np.int64), np.int64)

    # --- nodes

    def add(
        self,
        op: str,
        inputs: Sequence[gs.Tensor],
        shape: Sequence[int],
        *,
        dtype: Any = None,
        **attributes: Any,
    ) -> gs.Variable:
        """A node of one output.

        Args:
            op: ONNX operator of the default domain.
            inputs: Its inputs.
            shape: Of its output.
            dtype: Of its output; that of its first input when None.
            attributes: Its attributes; None leaves one out.
        """
        made = self._names.variable(f"{self.stem}_{op.lower()}", inputs[0], list(shape))
        if dtype is not None:
            made.dtype = np.dtype(dtype)
        attrs = {k: v for k, v in attributes.items() if v is not None}
        node = gs.Node(op=op, name=made.name, attrs=attrs, inputs=list(inputs), outputs=[made])
        self._graph.nodes.append(node)
        self.made.append(node)
        return made

    def unary(self, op: str, x: gs.Tensor, **attributes: Any) -> gs.Variable:
        """Element by element."""
        return self.add(op, [x], self.shape(x), **attributes)

    def binary(self, op: str, x: gs.Tensor, y: gs.Tensor, *, dtype: Any = None) -> gs.Variable:
        """Element by element, with broadcasting."""
        return self.add(op, [x, y], np.broadcast_shapes(self.shape(x), self.shape(y)), dtype=dtype)

    def scaled(self, x: gs.Tensor, factor: float, what: str = "factor") -> gs.Tensor:
        """x * factor."""
        return x if factor == 1 else self.binary("Mul", x, self.constant(what, factor, x.dtype))

    def shifted(self, x: gs.Tensor, offset: float, what: str = "offset") -> gs.Tensor:
        """x + offset."""
        return x if offset == 0 else self.binary("Add", x, self.constant(what, offset, x.dtype))

    def clip(self, x: gs.Tensor, low: float, high: float) -> gs.Variable:
        """Least and greatest value."""
        return self.add(
            "Clip", [x, self.constant("low", low, x.dtype), self.constant("high", high, x.dtype)], self.shape(x)
        )

    def reshape(self, x: gs.Tensor, shape: Sequence[int]) -> gs.Tensor:
        """The same elements in another shape."""
        shape = [int(n) for n in shape]
        if self.shape(x) == tuple(shape):
            return x
        assert prod(self.shape(x)) == prod(shape)
        if isinstance(x, gs.Constant):
            return self.constant("reshaped", x.values.reshape(shape), x.dtype)
        return self.add("Reshape", [x, self.ints("shape", shape)], shape)

    def transpose(self, x: gs.Tensor, perm: Sequence[int]) -> gs.Tensor:
        """Axes in another order: axis i of the result is axis perm[i] of x."""
        if list(perm) == list(range(len(perm))):
            return x
        if isinstance(x, gs.Constant):
            return self.constant("turned", x.values.transpose(perm), x.dtype)
        shape = self.shape(x)
        return self.add("Transpose", [x], [shape[p] for p in perm], perm=[int(p) for p in perm])

    def reduce(self, op: str, x: gs.Tensor, axes: Sequence[int], *, keepdims: bool = True) -> gs.Tensor:
        """A reduction over some axes; none gives x itself for the sums and extrema."""
        axes = sorted(int(a) for a in axes)
        if not axes:
            return x
        shape = [1 if i in axes else n for i, n in enumerate(self.shape(x)) if keepdims or i not in axes]
        if self.opset >= AXES_INPUT_SINCE.get(op, AXES_INPUT_SINCE_OTHERS):
            return self.add(op, [x, self.ints("axes", axes)], shape, keepdims=int(keepdims))
        return self.add(op, [x], shape, axes=axes, keepdims=int(keepdims))

    def slice(self, x: gs.Tensor, axis: int, start: int, stop: int, step: int = 1) -> gs.Tensor:
        """Elements start, start + step … before `stop` of one axis; with a negative step `stop` -1 is before the first."""
        shape = list(self.shape(x))
        count = len(range(start, stop, step))
        if (start, step, count) == (0, 1, shape[axis]):
            return x
        shape[axis] = count
        end = -INT64_MAX if step < 0 and stop < 0 else stop
        bounds = [self.ints(k, [v]) for k, v in (("starts", start), ("ends", end), ("axes", axis), ("steps", step))]
        return self.add("Slice", [x, *bounds], shape)

    def concat(self, parts: Sequence[gs.Tensor], axis: int) -> gs.Tensor:
        """One behind the other along an axis."""
        if len(parts) == 1:
            return parts[0]
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(p)[axis] for p in parts)
        return self.add("Concat", parts, shape, axis=axis)

    def gather(self, x: gs.Tensor, indices: npt.NDArray[np.int64] | gs.Tensor, axis: int = 0) -> gs.Tensor:
        """Places of one axis: constant ones, or those of a tensor."""
        at = self.ints("indices", indices) if isinstance(indices, np.ndarray) else indices  # type: ignore[arg-type]
        shape = self.shape(x)
        return self.add("Gather", [x, at], (*shape[:axis], *self.shape(at), *shape[axis + 1 :]), axis=axis)

    def matmul(self, x: gs.Tensor, y: gs.Tensor) -> gs.Variable:
        """(…, m, k) by (…, k, n), leading axes broadcast; or (k,) by (k, n)."""
        a, b = self.shape(x), self.shape(y)
        return self.add("MatMul", [x, y], (*np.broadcast_shapes(a[:-2], b[:-2]), *a[-2:-1], b[-1]))

    # --- the end

    def discard(self) -> None:
        """Take back everything that was written."""
        for node in self.made:
            node.inputs.clear()
            node.outputs.clear()
        self._graph.nodes[:] = [n for n in self._graph.nodes if not any(n is m for m in self.made)]

    def take_over(self, value: gs.Tensor) -> None:
        """`value` becomes the output of the node that is replaced; the node goes away.

        The last node is called as the replaced one; a MatMul that does its work, if there is just one, rather than that.
        """
        node, result = self._node, self._node.outputs[0]
        if not any(value is o for m in self.made for o in m.outputs):
            value = self.add("Identity", [value], self.shape(value))
        last = value.inputs[0]
        node.outputs.clear()
        node.inputs.clear()
        last.outputs[0] = result
        if result.shape is None:
            result.shape = value.shape
        products = [m for m in self.made if m.op in ("MatMul", "Conv", "ConvTranspose")]
        heir = products[0] if len(products) == 1 else last
        if node.name:
            heir.name = node.name

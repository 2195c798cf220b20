"""Builds an ONNX graph node by node, with every tensor's shape, type and a bound of its magnitude at hand.

Bounds (`Value.mag`: |x| <= mag for every feed) are carried along by each emitter; `bounded` and `positive` emit the
operators that bring a value into the domain of what follows, so that no graph divides by nearly zero or overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from tests.generators.exact_ops import EXACT_OPS

F32, F64, F16 = np.dtype("float32"), np.dtype("float64"), np.dtype("float16")
I64, BOOL = np.dtype("int64"), np.dtype("bool")
ODD_SIZES = (1, 2, 3, 5, 7)
LARGEST = (
    1500  # elements; larger tensors are not read by later emitters, so that a graph stays a matter of milliseconds
)
GRID = 64  # feeds are multiples of 1/64: exact in every float type, with ties


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A tensor of the graph under construction.

    Attributes:
        name: Its name in the graph.
        shape: Static shape.
        dtype: numpy type.
        mag: Upper bound of |x|.
        exact: No rounding between the feeds and it.
        is_constant: The same for every feed.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    mag: float
    exact: bool
    is_constant: bool = False

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


Emit = Callable[["Builder"], "Value | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitter:
    """One way to extend a graph.

    Attributes:
        emit: Adds nodes; returns nothing of interest.
        since: First opset it can be expressed in.
        until: Last one.
        weight: How often it is drawn, relative to 1.
    """

    emit: Emit
    since: int = 9
    until: int = 99
    weight: float = 1.0

    @property
    def name(self) -> str:
        return self.emit.__name__


class Builder:
    """The graph under construction; the one mutable thing of the generator."""

    def __init__(self, rng: np.random.Generator, opset: int, ir_version: int) -> None:
        self.rng = rng
        self.opset = opset
        self.ir_version = ir_version
        self.nodes: list[NodeProto] = []
        self.inputs: list[ValueInfoProto] = []
        self.initializers: list[TensorProto] = []
        self.initializer_inputs: list[ValueInfoProto] = []
        self.feeds: dict[str, npt.NDArray[Any]] = {}
        self.pool: list[Value] = []
        self.weights: list[tuple[Value, npt.NDArray[Any]]] = []
        self.patterns: set[str] = set()
        self.ops: set[str] = set()
        self.read: set[str] = set()
        self._names: set[str] = set()
        self._style = int(rng.integers(4))
        self._name_nodes = int(rng.integers(4))

    # --- choices

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def choose(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def integer(self, low: int, high: int) -> int:
        """low <= n <= high."""
        return int(self.rng.integers(low, high + 1))

    # --- names

    def fresh(self, op: str) -> str:
        """An unused tensor name, in the style of one exporter for the whole graph, now and then one that tools generate."""
        number = len(self._names)
        if self.chance(0.04):
            stem = self.choose(
                ("onnx_graphsurgeon_constant_0", "_gs_0", "fts_0", "Conv_0", "x_folded", "0", "output#2")
            )
        else:
            stem = (f"v{number}", str(number), f"/net/{op}_output_{number}", f"{op}_{number}")[self._style]
        name, n = stem, 1
        while name in self._names:
            n += 1
            name = f"{stem}_{n}"
        self._names.add(name)
        return name

    def _node_name(self, op: str, output: str) -> str:
        style = self._name_nodes
        if style == 0 or (style == 1 and self.chance(0.3)):
            return ""
        if style == 2 and self.chance(0.2):
            # as `name_nodes` would name a node that has none; onnxruntime refuses two nodes of one name
            return f"{op}:{output}"
        return f"{op}_{len(self.nodes)}"

    # --- sources

    def shape(self, rank: int, sizes: Sequence[int] = ODD_SIZES) -> tuple[int, ...]:
        while True:
            shape = tuple(int(self.choose(sizes)) for _ in range(rank))
            if math.prod(shape) <= 400:
                return shape

    def image_shape(self, spatial: int = 2) -> tuple[int, ...]:
        """(n, c, d1, ...)."""
        sizes = {1: (5, 7, 9), 2: (3, 5, 6, 7), 3: (3, 4, 5)}[spatial]
        return (self.integer(1, 2), self.choose((1, 2, 3, 4, 5, 6, 8)), *(self.choose(sizes) for _ in range(spatial)))

    def input(self, shape: tuple[int, ...], dtype: np.dtype[Any] = F32) -> Value:
        name = self.fresh("input")
        if dtype == BOOL:
            array: npt.NDArray[Any] = self.rng.random(shape) < 0.5
        elif dtype == I64:
            array = self.rng.integers(-3, 4, shape)
        else:
            array = np.clip(np.round(self.rng.standard_normal(shape) * GRID) / GRID, -3, 3).astype(dtype)
        self.feeds[name] = np.asarray(array, dtype)
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape))
        value = Value(name=name, shape=shape, dtype=dtype, mag=3.0, exact=True)
        self.pool.append(value)
        return value

    def const(self, array: npt.ArrayLike, dtype: np.dtype[Any] | None = None) -> Value:
        """A constant: an initializer, one that is also an input, a Constant node, or (floats) one behind an Identity."""
        data = np.asarray(array, dtype)
        mag = float(np.abs(data.astype(np.float64)).max()) if data.size else 0.0
        name = self.fresh("weight")
        value = Value(name=name, shape=data.shape, dtype=data.dtype, mag=mag, exact=True, is_constant=True)
        kind = self.rng.random()
        if kind < 0.25:
            self._append("Constant", [], [name], {"value": numpy_helper.from_array(data)})
            self.patterns.add("constant_node")
            return value
        self.initializers.append(numpy_helper.from_array(data, name))
        # onnx and onnxruntime infer an empty tensor from a Slice whose starts might change
        can_hide = data.dtype.kind == "f"
        if self.ir_version < 4 or (kind > 0.97 and can_hide):
            self.patterns.add("initializer_is_input")
            elem = helper.np_dtype_to_tensor_dtype(data.dtype)
            self.initializer_inputs.append(helper.make_tensor_value_info(name, elem, data.shape))
        elif kind > 0.93 and can_hide and data.size:
            self.patterns.add("identity_of_initializer")
            return self.node("Identity", [value], data.shape, data.dtype, mag, keep=False, constant=True)
        return value

    def weight(self, shape: tuple[int, ...], fan_in_axes: tuple[int, ...], gain: float = 1.5) -> Value:
        """Weights with sum |w| <= gain over the axes that one output element sums over, so that mag grows by gain.

        One in five reuses an earlier weight of the same shape and axes: shared weights.
        """
        shared = [v for v, a in self.weights if v.shape == shape and np.abs(a).sum(fan_in_axes).max() <= gain * 1.01]
        if shared and self.chance(0.5):
            self.patterns.add("shared_weight")
            return self.choose(shared)
        raw = self.rng.standard_normal(shape)
        total = np.abs(raw).sum(fan_in_axes, keepdims=True)
        array = (raw / total * gain * self.rng.uniform(0.7, 1.0)).astype(F32)
        value = self.const(array)
        self.weights.append((value, array))
        return value

    def vector(self, n: int, low: float = -1.0, high: float = 1.0, dtype: np.dtype[Any] = F32) -> Value:
        return self.const(self.rng.uniform(low, high, n).astype(dtype))

    def scalar(self, number: float, dtype: np.dtype[Any] = F32) -> Value:
        return self.const(np.array(number, dtype))

    def ints(self, *numbers: int) -> Value:
        return self.const(np.array(numbers, I64))

    # --- reading

    def pick(
        self,
        rank: int | tuple[int, ...] | None = None,
        *,
        dtype: np.dtype[Any] = F32,
        exact: bool = False,
        where: Callable[[Value], bool] = lambda v: True,
        image: int | None = None,
        mag: float = 50.0,
    ) -> Value:
        """An earlier tensor that fits, late ones preferred, else a new input. `image`: spatial axes, each >= 3."""
        if image is not None:
            rank = image + 2
        ranks = (rank,) if isinstance(rank, int) else rank
        fits = [
            v
            for v in self.pool
            if v.dtype == dtype
            and (ranks is None or v.rank in ranks)
            and (v.exact or not exact)
            and where(v)
            and v.size <= LARGEST
            and (image is None or (min(v.shape[2:]) >= 3 and v.shape[1] <= 16))
        ]
        if fits and self.chance(0.9):
            value = fits[min(int(self.rng.geometric(0.4)), len(fits)) * -1]
            return self.bounded(value, mag) if not exact and dtype == F32 else value
        for _ in range(200):
            wanted = int(self.choose(ranks or (1, 2, 3, 4)))
            is_image = image is not None or (wanted > 2 and self.chance(0.5))
            shape = self.image_shape(wanted - 2) if is_image else self.shape(wanted)
            probe = Value(name="", shape=shape, dtype=dtype, mag=3, exact=True)
            if where(probe):
                return self.input(shape, dtype)
        raise AssertionError("an emitter asks for a shape that is never drawn")

    def bounded(self, value: Value, mag: float) -> Value:
        """The value itself, or a squashed one, with |x| <= mag."""
        if value.mag <= mag:
            return value
        if mag >= 1 and self.chance(0.5):
            return self.node("Tanh", [value], value.shape, value.dtype, 1.0)
        factor = self.scalar(2.0 ** math.floor(math.log2(mag / value.mag)), value.dtype)
        return self.node("Mul", [value, factor], value.shape, value.dtype, mag)

    def positive(self, value: Value, low: float = 0.3) -> Value:
        """A value >= low made of another."""
        if self.chance(0.5):
            up = self.node("Abs", [value], value.shape, value.dtype, value.mag)
        else:
            up = self.node("Sigmoid", [value], value.shape, value.dtype, 1.0)
        return self.node("Add", [up, self.scalar(low, value.dtype)], value.shape, value.dtype, up.mag + low)

    # --- nodes

    def node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        shape: Sequence[int],
        dtype: np.dtype[Any] = F32,
        mag: float = 1.0,
        *,
        keep: bool = True,
        constant: bool | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> Value:
        """Append a node of one output; `keep`: later emitters may read it; `constant`: decided by its inputs unless given."""
        return self.multi(
            op, inputs, [(tuple(shape), dtype, mag)], keep=keep, constant=constant, domain=domain, **attributes
        )[0]

    def multi(
        self,
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[tuple[tuple[int, ...], np.dtype[Any], float] | None],
        *,
        keep: bool = True,
        constant: bool | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> list[Value]:
        """Append a node of several outputs; None is an optional output left empty."""
        names = [self.fresh(op) if o is not None else "" for o in outputs]
        self._append(op, [v.name if v is not None else "" for v in inputs], names, attributes, domain)
        read = [v for v in inputs if v is not None]
        self.read.update(v.name for v in read)
        exact = (
            op in EXACT_OPS or op in ("Cast", "Equal", "Greater", "Less", "Not", "And", "Or", "ArgMax", "Shape")
        ) and all(v.exact for v in read)
        values = []
        for name, spec in zip(names, outputs, strict=True):
            if spec is None:
                continue
            shape, kind, mag = spec
            exact_here = exact and not (op == "Cast" and kind in (F16, F32) and any(v.dtype == F64 for v in read))
            is_constant = constant if constant is not None else all(v.is_constant for v in read)
            value = Value(
                name=name,
                shape=tuple(int(n) for n in shape),
                dtype=kind,
                mag=mag,
                exact=exact_here or kind.kind != "f",
                is_constant=is_constant,
            )
            if any(n < 1 for n in value.shape):
                raise AssertionError(f"{op} makes an empty tensor {value.shape}")
            values.append(value)
            if keep and not is_constant:
                self.pool.append(value)
        return values

    def _append(
        self, op: str, inputs: list[str], outputs: list[str], attributes: dict[str, Any], domain: str = ""
    ) -> None:
        while inputs and not inputs[-1]:
            inputs.pop()
        node = helper.make_node(
            op, inputs, outputs, domain=domain, **{k: v for k, v in attributes.items() if v is not None}
        )
        node.name = self._node_name(op, outputs[0])
        self.nodes.append(node)
        self.ops.add(op)
        self.read.update(inputs)

    # --- operators whose form depends on the opset

    def axes_op(
        self,
        op: str,
        value: Value,
        shape: Sequence[int],
        axes: Sequence[int],
        input_since: int,
        mag: float,
        **attributes: Any,
    ) -> Value:
        """Axes as an attribute before opset `input_since`, as an input from it on."""
        if self.opset >= input_since:
            return self.node(op, [value, self.ints(*axes)], shape, value.dtype, mag, **attributes)
        return self.node(op, [value], shape, value.dtype, mag, axes=list(axes), **attributes)

    def reduce(self, op: str, value: Value, axes: Sequence[int], keepdims: bool, mag: float) -> Value:
        dropped = {a % value.rank for a in axes}
        shape = [1 if i in dropped else n for i, n in enumerate(value.shape) if keepdims or i not in dropped]
        since = 13 if op == "ReduceSum" else 18
        return self.axes_op(op, value, shape, axes, since, mag, keepdims=int(keepdims))

    def reshape(self, value: Value, shape: Sequence[int], **attributes: Any) -> Value:
        return self.node(
            "Reshape", [value, self.ints(*shape)], self._filled(value, shape), value.dtype, value.mag, **attributes
        )

    @staticmethod
    def _filled(value: Value, shape: Sequence[int]) -> list[int]:
        filled = [value.shape[i] if n == 0 else n for i, n in enumerate(shape)]
        if -1 in filled:
            at = filled.index(-1)
            filled[at] = value.size // math.prod(n for n in filled if n != -1)
        return filled

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        return self.node("Transpose", [value], [value.shape[p] for p in perm], value.dtype, value.mag, perm=list(perm))

    def squeeze(self, value: Value, axes: Sequence[int]) -> Value:
        dropped = {a % value.rank for a in axes}
        return self.axes_op(
            "Squeeze", value, [n for i, n in enumerate(value.shape) if i not in dropped], axes, 13, value.mag
        )

    def unsqueeze(self, value: Value, axes: Sequence[int]) -> Value:
        rank = value.rank + len(axes)
        added = {a % rank for a in axes}
        rest = iter(value.shape)
        return self.axes_op(
            "Unsqueeze", value, [1 if i in added else next(rest) for i in range(rank)], axes, 13, value.mag
        )

    def slice(
        self,
        value: Value,
        starts: Sequence[int],
        ends: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int] | None = None,
    ) -> Value:
        """Opset 9 has attributes and no steps."""
        shape = list(value.shape)
        for i, axis in enumerate(axes):
            shape[axis] = len(range(*slice(starts[i], ends[i], steps[i] if steps else 1).indices(shape[axis])))
        if self.opset < 10:
            assert steps is None
            return self.node(
                "Slice", [value], shape, value.dtype, value.mag, starts=list(starts), ends=list(ends), axes=list(axes)
            )
        inputs = [value, self.ints(*starts), self.ints(*ends), self.ints(*axes)]
        if steps:
            inputs.append(self.ints(*steps))
        return self.node("Slice", inputs, shape, value.dtype, value.mag)

    def pad(self, value: Value, pads: Sequence[int], mode: str = "constant", number: float | None = None) -> Value:
        """`pads` in ONNX order, all begins then all ends; `number` None leaves the value out."""
        r = value.rank
        shape = [n + pads[i] + pads[i + r] for i, n in enumerate(value.shape)]
        mag = max(value.mag, abs(number or 0))
        if self.opset < 11:
            return self.node("Pad", [value], shape, value.dtype, mag, mode=mode, pads=list(pads), value=number)
        inputs: list[Value | None] = [value, self.ints(*pads)]
        if number is not None:
            inputs.append(self.scalar(number, value.dtype))
        return self.node("Pad", inputs, shape, value.dtype, mag, mode=mode)

    def cast(self, value: Value, dtype: np.dtype[Any], *, keep: bool = True) -> Value:
        to = helper.np_dtype_to_tensor_dtype(dtype)
        return self.node("Cast", [value], value.shape, dtype, value.mag, keep=keep, to=to)

    def split(self, value: Value, sizes: Sequence[int], axis: int) -> list[Value]:
        specs = [
            (tuple(n if i == axis % value.rank else m for i, m in enumerate(value.shape)), value.dtype, value.mag)
            for n in sizes
        ]
        if self.opset >= 13:
            return self.multi("Split", [value, self.ints(*sizes)], specs, axis=axis)
        return self.multi("Split", [value], specs, axis=axis, split=list(sizes))

    def binary(self, op: str, a: Value, b: Value, mag: float, dtype: np.dtype[Any] | None = None) -> Value:
        return self.node(op, [a, b], np.broadcast_shapes(a.shape, b.shape), dtype or a.dtype, mag)

    def clip(self, value: Value, low: float | None, high: float | None) -> Value:
        mag = (
            max(abs(low), abs(high))
            if low is not None and high is not None
            else value.mag + max(abs(low or 0), abs(high or 0))
        )
        if self.opset < 11:
            return self.node("Clip", [value], value.shape, value.dtype, mag, min=low, max=high)
        bounds = [None if n is None else self.scalar(n, value.dtype) for n in (low, high)]
        return self.node("Clip", [value, *bounds], value.shape, value.dtype, mag)

"""Compute in float32 what a net computes in float16, bfloat16 or float64, because integer units join float32 alone.

Inputs and outputs keep their types: a Cast stands at the border. Types in ONNX follow from declarations (inputs,
constants, `Cast.to` and the like), so that changing these changes a whole stretch of the graph, and no kernel is asked.

A *stretch* is a set of tensors of one type that nodes connect; a Cast ends it, and constants do not connect.

- float16 and bfloat16: widened, weights exactly. float32 holds every value of theirs, so that results only get nearer to
  what the formulas say; a Cast to float16 amid float32 becomes one that does nothing. Not widened: what depends on shapes
  alone, since a size rounded in float16 has to stay that size.
- float64: narrowed where the stretch has a layer that could be INT8, and every constant in it keeps its meaning in float32
  (none becomes infinite or zero). Other stretches stay: their author asked for doubles, and nothing would be gained.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from fts_converters.fresh_names import FreshNames
from fts_converters.tensor_types import Scope, graphs, scopes, subgraphs, without_weights

HALVES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})
OTHER_FLOATS = HALVES | {TensorProto.DOUBLE}
# Operators that a target may compute in integers.
LAYERS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
# Integer attributes that are an element type of an output, and those that say in which type to compute.
OUTPUT_TYPES = frozenset({"to", "dtype", "output_datatype", "output_dtype"})
COMPUTE_TYPES = frozenset({"stash_type", "softmax_precision"})
# Outputs say something about shapes, never about values.
SHAPE_OPS = frozenset({"Shape", "Size"})

# A tensor: the place of the graph that declares it in the list of scopes, and its name.
Key = tuple[int, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Widened:
    """What became of a net.

    Attributes:
        model: A copy that computes in float32, or the net itself where there was nothing to do.
        is_changed: It is a copy.
        left_alone: Stretches that stay as they are although they hold layers, each with the reason.
    """

    model: onnx.ModelProto
    is_changed: bool
    left_alone: tuple[str, ...] = ()


def holds_other_floats(model: onnx.ModelProto) -> bool:
    """Whether any tensor, of subgraphs too, is float16, bfloat16 or float64; values are not looked at."""
    return any(t in OTHER_FLOATS for s in scopes(model) for t in s.types.values())


def widen_types(model: onnx.ModelProto) -> Widened:
    """Compute in float32 where that is right.

    Args:
        model: A valid net without local functions; not changed.
    """
    if not holds_other_floats(model):
        return Widened(model=model, is_changed=False)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    table = _Table(scopes(copy))
    widened, left_alone = _decide(table)
    if not widened:
        return Widened(model=model, is_changed=False, left_alone=left_alone)
    _Rewrite(table, widened, FreshNames(copy.graph)).run()
    copy.ir_version = max(copy.ir_version, 4)  # constants are no inputs
    try:
        shape_inference.infer_shapes(without_weights(copy), check_type=True, strict_mode=True)
    except shape_inference.InferenceError as error:
        reason = f"the net stays in its types: they cannot become float32: {' '.join(str(error).split())[:300]}"
        return Widened(model=model, is_changed=False, left_alone=(*left_alone, reason))
    return Widened(model=copy, is_changed=True, left_alone=left_alone)


class _Table:
    """All tensors of a net: where each name is declared, its type, whether it is constant; and the stretches."""

    def __init__(self, found: list[Scope]) -> None:
        self.scopes = found
        self.places = {id(s.graph): i for i, s in enumerate(found)}
        self.declared = [self._declared(s.graph) for s in found]
        self.constants: dict[Key, TensorProto] = {}
        for i, scope in enumerate(found):
            given = {t.name: t for t in scope.graph.initializer}
            for node in scope.graph.node:
                if node.op_type == "Constant" and not node.domain:
                    given.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
            results = {o.name for o in scope.graph.output} if i else set()  # of a subgraph: its type is the If's
            self.constants.update(((i, name), t) for name, t in given.items() if name not in results)
        self.parents: dict[Key, Key] = {}
        for scope, node in self.nodes():
            self._connect(scope, node)

    @staticmethod
    def _declared(graph: onnx.GraphProto) -> set[str]:
        made = {name for n in graph.node for name in n.output}
        return made | {v.name for v in (*graph.input, *graph.initializer)}

    def nodes(self) -> Iterator[tuple[Scope, onnx.NodeProto]]:
        for scope in self.scopes:
            for node in scope.graph.node:
                yield scope, node

    def key(self, scope: Scope, name: str) -> Key:
        for graph in (scope.graph, *scope.outer):
            place = self.places[id(graph)]
            if name in self.declared[place]:
                return place, name
        return 0, name

    def type_of(self, key: Key) -> int:
        return int(self.scopes[key[0]].types.get(key[1], 0))

    def connected(self, scope: Scope, node: onnx.NodeProto) -> list[Key]:
        """Keys of a node's operands and results that have to be of one type where they are of one type now."""
        names: list[str] = list(node.output)
        if node.op_type == "Cast":
            names = []
        elif node.op_type == "CastLike":
            names += node.input[1:]
        else:
            names += node.input
        keys = [self.key(scope, n) for n in names if n]
        for inner in (g for root in subgraphs(node) for g in graphs(root)):
            place = self.places[id(inner)]
            keys += [(place, name) for name in self.declared[place]]
            keys += [self.key(self.scopes[place], o.name) for o in inner.output]
        return [k for k in keys if k not in self.constants and self.type_of(k) in OTHER_FLOATS]

    def _connect(self, scope: Scope, node: onnx.NodeProto) -> None:
        first: dict[int, Key] = {}
        for key in self.connected(scope, node):
            one = self.stretch(first.setdefault(self.type_of(key), key))
            self.parents[self.stretch(key)] = one

    def stretch(self, key: Key) -> Key:
        """The tensor that stands for the whole stretch (union-find with path halving)."""
        while (parent := self.parents.setdefault(key, key)) != key:
            self.parents[key] = self.parents.setdefault(parent, parent)
            key = parent
        return key


def _decide(table: _Table) -> tuple[set[Key], tuple[str, ...]]:
    """Stretches to widen, and those to leave with the reason."""
    fixed = _fixed(table)
    main = table.scopes[0].graph
    border = {(0, v.name) for v in (*main.input, *main.output)}  # between it and a Cast there is nothing to compute
    moving: set[Key] = set()
    connected = {key for scope, node in table.nodes() for key in table.connected(scope, node)}
    layers: dict[Key, str] = {}
    obstacles: dict[Key, str] = {}
    for i, scope in enumerate(table.scopes):
        for name in table.declared[i]:
            key = (i, name)
            is_value = table.type_of(key) in OTHER_FLOATS and key not in table.constants and key not in fixed
            if is_value and (key not in border or key in connected):
                moving.add(table.stretch(key))
        for node in scope.graph.node:
            for key in table.connected(scope, node):
                stretch = table.stretch(key)
                if node.op_type in LAYERS:
                    layers.setdefault(stretch, f"{node.op_type} {node.name or node.output[0]!r}")
                if table.type_of(key) == TensorProto.DOUBLE and (why := _lost(table, scope, node)):
                    obstacles.setdefault(stretch, why)
    widened = {s for s in moving if table.type_of(s) in HALVES}
    doubles = {s for s in moving if table.type_of(s) == TensorProto.DOUBLE and s in layers}
    widened |= {s for s in doubles if s not in obstacles}
    left_alone = tuple(f"{layers[s]} stays in float64: {obstacles[s]}" for s in sorted(doubles & set(obstacles)))
    return widened, left_alone


def _fixed(table: _Table) -> set[Key]:
    """Tensors that depend on constants and shapes alone."""
    fixed = set(table.constants)
    for scope, node in table.nodes():
        is_fixed = node.op_type in SHAPE_OPS or all(table.key(scope, n) in fixed for n in node.input if n)
        if is_fixed and not subgraphs(node) and table.places[id(scope.graph)] == 0:
            fixed.update(table.key(scope, n) for n in node.output)
    return fixed


def _lost(table: _Table, scope: Scope, node: onnx.NodeProto) -> str:
    """A constant that float32 cannot stand for; "" when there is none."""
    for name in node.input:
        tensor = table.constants.get(table.key(scope, name)) if name else None
        if tensor is None or tensor.data_type != TensorProto.DOUBLE:
            continue
        wide = numpy_helper.to_array(tensor)
        with np.errstate(over="ignore", under="ignore"):
            narrow = wide.astype(np.float32)
        what = f"constant {name!r} of {node.op_type} {node.name or node.output[0]!r} holds"
        if not np.array_equal(np.isfinite(narrow), np.isfinite(wide)):
            return f"{what} {float(np.abs(wide[np.isfinite(wide)]).max()):.3g}, beyond float32"
        if bool(((narrow == 0) & (wide != 0)).any()):
            return f"{what} {float(np.abs(wide[wide != 0]).min()):.3g}, which is 0 in float32"
    return ""


class _Rewrite:
    """Changes the net of a table in place."""

    def __init__(self, table: _Table, widened: set[Key], names: FreshNames) -> None:
        self.table = table
        self.widened = widened
        self.names = names
        self.copies: dict[Key, str] = {}
        main = table.scopes[0].graph
        self.inputs = {v.name: names.take(f"{v.name}_float32") for v in main.input if self._is_widened((0, v.name))}
        made = {name for n in main.node for name in n.output}
        self.outputs = {
            v.name: names.take(f"{v.name}_float32")
            for v in main.output
            if v.name in made and (0, v.name) not in table.constants and self._is_widened((0, v.name))
        }

    def _is_widened(self, key: Key) -> bool:
        is_other = self.table.type_of(key) in OTHER_FLOATS and key not in self.table.constants
        return is_other and self.table.stretch(key) in self.widened

    def run(self) -> None:
        """Everything; declarations first, while the names are still the old ones."""
        for place, scope in enumerate(self.table.scopes):
            self._declarations(place, scope)
        for scope, node in self.table.nodes():
            self._attributes(scope, node)
            self._names(scope, node)
        for scope in self.table.scopes[1:]:
            for value in scope.graph.output:
                value.name = self._new_name(self.table.key(scope, value.name), value.name)
        self._borders()
        self._drop_unread()

    def _declarations(self, place: int, scope: Scope) -> None:
        graph = scope.graph
        values = [*graph.value_info, *(graph.input if place else ()), *(graph.output if place else ())]
        for value in values:
            if self._is_widened(self.table.key(scope, value.name)):
                _set_element_type(value.type)
        for tensor in graph.initializer:
            if self._is_widened((place, tensor.name)):
                tensor.CopyFrom(_float32(tensor, tensor.name))

    def _attributes(self, scope: Scope, node: onnx.NodeProto) -> None:
        makes_float32 = any(self._is_widened(self.table.key(scope, n)) for n in node.output if n)
        is_touched = makes_float32 or any(self._is_widened(k) for k in self.table.connected(scope, node))
        for attribute in node.attribute:
            if makes_float32 and attribute.name in OUTPUT_TYPES and attribute.i in OTHER_FLOATS:
                attribute.i = TensorProto.FLOAT
            if is_touched and attribute.name in COMPUTE_TYPES and attribute.i in OTHER_FLOATS:
                attribute.i = TensorProto.FLOAT
            if makes_float32 and attribute.name == "value" and attribute.t.data_type in OTHER_FLOATS:
                attribute.t.CopyFrom(_float32(attribute.t, attribute.t.name))  # Constant, ConstantOfShape

    def _names(self, scope: Scope, node: onnx.NodeProto) -> None:
        kinds = {self.table.type_of(k) for k in self.table.connected(scope, node) if self._is_widened(k)}
        for i, name in enumerate(node.input):
            key = self.table.key(scope, name)
            is_type_free = node.op_type == "Cast" or (node.op_type == "CastLike" and i == 0)
            if key in self.table.constants:
                if name and self.table.type_of(key) in kinds and not is_type_free:
                    node.input[i] = self._copy(key)
            elif name and not (is_type_free and name in self.inputs):
                node.input[i] = self._new_name(key, name)
        for i, name in enumerate(node.output):
            node.output[i] = self._new_name(self.table.key(scope, name), name)

    def _new_name(self, key: Key, name: str) -> str:
        return {**self.inputs, **self.outputs}.get(name, name) if key[0] == 0 else name

    def _copy(self, key: Key) -> str:
        """The float32 form of a constant, beside it."""
        if key not in self.copies:
            name = self.names.take(f"{key[1]}_float32")
            self.table.scopes[key[0]].graph.initializer.append(_float32(self.table.constants[key], name))
            self.copies[key] = name
        return self.copies[key]

    def _borders(self) -> None:
        graph = self.table.scopes[0].graph
        for name, inner in self.inputs.items():
            graph.node.insert(0, helper.make_node("Cast", [name], [inner], to=TensorProto.FLOAT))
        for name, inner in self.outputs.items():
            graph.node.append(helper.make_node("Cast", [inner], [name], to=self.table.type_of((0, name))))

    def _drop_unread(self) -> None:
        """Constants whose readers all read the copy."""
        read: set[str] = set()
        for _, node in self.table.nodes():
            read.update(node.input)
        read.update(o.name for s in self.table.scopes for o in s.graph.output)
        unread: dict[int, set[str]] = defaultdict(set)
        for place, name in self.copies:
            if name not in read:
                unread[place].add(name)
        for place, dropped in unread.items():
            graph = self.table.scopes[place].graph
            for tensor in [t for t in graph.initializer if t.name in dropped]:
                graph.initializer.remove(tensor)
            for node in [n for n in graph.node if n.op_type == "Constant" and n.output[0] in dropped]:
                graph.node.remove(node)


def _float32(tensor: TensorProto, name: str) -> TensorProto:
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), name)


def _set_element_type(value: onnx.TypeProto) -> None:
    kind = value.WhichOneof("value")
    if kind == "tensor_type":
        value.tensor_type.elem_type = TensorProto.FLOAT
    elif kind is not None:
        _set_element_type(getattr(value, kind).elem_type)

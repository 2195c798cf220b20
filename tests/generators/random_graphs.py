"""Random valid ONNX graphs, the same for the same seed: the data on which graph passes are judged.

A graph is a handful of *emitters* drawn by weight, each of which extends it by one operator or by one pattern that
exporters write. What is dangerous for rewrites comes on top: tensors with several readers, a tensor that is read and
also an output, an output that is an input, dead branches, unread inputs, shared weights, initializers that are inputs,
Constant nodes, empty and repeated node names, names such as tools make up.

Feeds are multiples of 1/64 within [-3, 3]; weights are scaled so that magnitudes stay bounded (`builder`). Float32
throughout, with islands of float16, float64 and int64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, helper
from tests.generators import (
    control_flow,
    convolution,
    data_movement,
    elementwise,
    loops,
    normalization,
    patterns,
    pooling_resize,
    rearrangements,
    scaled_inputs,
)
from tests.generators.builder import LARGEST, Builder, Emitter, Value

OPSETS = tuple(range(9, 22))
EMITTERS: tuple[Emitter, ...] = (
    *elementwise.EMITTERS,
    *convolution.EMITTERS,
    *normalization.EMITTERS,
    *data_movement.EMITTERS,
    *pooling_resize.EMITTERS,
    *control_flow.EMITTERS,
    *patterns.EMITTERS,
    *loops.EMITTERS,
    *rearrangements.EMITTERS,
    *scaled_inputs.EMITTERS,
)
HAZARDS = (
    "constant_node",
    "initializer_is_input",
    "identity_of_initializer",
    "shared_weight",
    "dead_branch",
    "read_output",
    "input_is_output",
    "unread_input",
    "if_constant_condition",
    "island_float16",
    "island_float64",
    "island_int64",
    "symbolic_batch",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """A graph and something to feed it with.

    Attributes:
        model: Passes the checker in full, runs in onnxruntime without optimisation.
        feeds: One array per input that has no initializer.
        ops: Operator types, those of subgraphs too.
        opset: Of the default domain, 9 to 21.
        seed: `random_graph(seed)` gives this case again.
        patterns: Names of the emitters and hazards in it.
    """

    model: ModelProto
    feeds: dict[str, npt.NDArray[Any]]
    ops: frozenset[str]
    opset: int
    seed: int
    patterns: frozenset[str]

    def __repr__(self) -> str:
        return f"Case(seed={self.seed}, opset={self.opset}, patterns={sorted(self.patterns)})"


def random_graph(seed: int) -> Case:
    """The case of a seed."""
    rng = np.random.default_rng([20240917, seed])
    opset = int(rng.choice(OPSETS))
    # IR 3 makes every initializer an input; the newer ones are those that came with the opset (onnx release notes)
    ir_version = (
        3 if opset == 9 and rng.random() < 0.7 else 4 if opset < 13 else 7 if opset < 15 else 8 if opset < 19 else 10
    )
    b = Builder(rng, opset, ir_version)
    b.input(b.image_shape() if b.chance(0.7) else b.shape(b.integer(2, 3)))
    usable = [e for e in EMITTERS if e.since <= opset <= e.until]
    chances = np.array([e.weight for e in usable])
    for _ in range(b.integer(3, 11)):
        emitter = usable[int(rng.choice(len(usable), p=chances / chances.sum()))]
        emitter.emit(b)
        b.patterns.add(emitter.name)
    return _finish(b, seed)


def _finish(b: Builder, seed: int) -> Case:
    made = {name for node in b.nodes for name in node.output}
    leaves = [v for v in b.pool if v.name in made and v.name not in b.read]
    outputs = [v for v in leaves if v.size <= 4 * LARGEST and b.chance(0.9)]
    if not outputs:
        outputs = [v for v in b.pool if v.name in made][-1:] or [_identity(b)]
    if len(outputs) < len(leaves):
        b.patterns.add("dead_branch")
    read = [v for v in b.pool if v.name in made and v.name in b.read and v.size <= LARGEST]
    if read and b.chance(0.3):
        b.patterns.add("read_output")
        outputs.append(b.choose(read))
    if b.chance(0.1):
        b.patterns.add("input_is_output")
        outputs.append(next(v for v in b.pool if v.name == b.inputs[0].name))
    if b.chance(0.15):
        b.patterns.add("unread_input")
        b.input((2, 3))
    outputs = list({v.name: v for v in outputs}.values())
    b.rng.shuffle(outputs)  # type: ignore[arg-type]
    return _case(b, outputs, seed)


def _identity(b: Builder) -> Value:
    x = b.pool[0]
    return b.node("Identity", [x], x.shape, x.dtype, x.mag)


def _case(b: Builder, outputs: list[Value], seed: int) -> Case:
    symbolic = b.chance(0.12)
    if symbolic:
        b.patterns.add("symbolic_batch")
        for value in b.inputs:
            dims = value.type.tensor_type.shape.dim
            if dims:
                dims[0].dim_param = "batch" if value is b.inputs[0] else f"{value.name}_batch"
    given = {value.name: value for value in b.inputs}
    infos = []
    for v in outputs:
        if v.name in given:
            infos.append(given[v.name])
            continue
        shape: tuple[int | str, ...] = v.shape
        if symbolic:
            shape = tuple(f"{v.name}_{i}" for i in range(v.rank))
        infos.append(helper.make_tensor_value_info(v.name, helper.np_dtype_to_tensor_dtype(v.dtype), shape))
    graph = helper.make_graph(b.nodes, f"random_{seed}", [*b.inputs, *b.initializer_inputs], infos, b.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", b.opset)], ir_version=b.ir_version)
    return Case(
        model=model,
        feeds=b.feeds,
        ops=frozenset(b.ops),
        opset=b.opset,
        seed=seed,
        patterns=frozenset(b.patterns),
    )

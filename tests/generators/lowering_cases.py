"""Random graphs around one operator that some engine lacks, over attributes and shapes: what lowerings are judged on.

Other than `random_graph`, which draws what exporters write, a case here is one operator in an unusual form, now and then
with a reader behind it or its value as a second output. Shapes of all tensors are inferred, as cleaning leaves them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import helper, shape_inference
from tests.generators import lowering_arithmetic, lowering_indexing, lowering_norms, lowering_resampling
from tests.generators.builder import Builder, Emitter, Value
from tests.generators.random_graphs import Case

# What conversion works in: the loader raises older nets to 13.
OPSETS = (13, 15, 17, 18, 19, 20, 21)
KINDS: Mapping[str, Emitter] = {
    e.name: e
    for e in (
        *lowering_arithmetic.EMITTERS,
        *lowering_indexing.EMITTERS,
        *lowering_norms.EMITTERS,
        *lowering_resampling.EMITTERS,
    )
}


def lowering_case(kind: str, seed: int) -> Case:
    """The case of a kind and a seed."""
    emitter = KINDS[kind]
    rng = np.random.default_rng([20250301, *kind.encode(), seed])
    opset = int(rng.choice([o for o in OPSETS if emitter.since <= o <= emitter.until]))
    b = Builder(rng, opset, 8 if opset < 19 else 10)
    result = emitter.emit(b)
    assert result is not None
    outputs = [result]
    if result.dtype.kind == "f" and b.chance(0.3):
        outputs.append(b.node("Neg", [result], result.shape, result.dtype, result.mag))
        if b.chance(0.5):
            outputs.pop(0)
    return _case(b, outputs, seed, kind)


def _case(b: Builder, outputs: list[Value], seed: int, kind: str) -> Case:
    infos = [helper.make_tensor_value_info(v.name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for v in outputs]
    inputs = [*b.inputs, *b.initializer_inputs]
    graph = helper.make_graph(b.nodes, f"{kind}_{seed}", inputs, infos, b.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", b.opset)], ir_version=b.ir_version)
    return Case(
        model=shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True),
        feeds=b.feeds,
        ops=frozenset(b.ops),
        opset=b.opset,
        seed=seed,
        patterns=frozenset({kind, *b.patterns}),
    )

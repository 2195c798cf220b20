"""The generator keeps its promises: deterministic, valid, runnable, and every operator and pattern comes up."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from tests.generators.random_graphs import EMITTERS, HAZARDS, OPSETS, random_graph
from tests.generators.run_plain import run_plain
from tests.generators.tolerance import tolerance

SEEDS = 2000
LEAST_OP, LEAST_PATTERN = 15, 20

_NAMES = """
Abs Add And ArgMax ArgMin Atan AveragePool BatchNormalization Cast Ceil Celu Clip Concat ConcatFromSequence
Constant ConstantOfShape Conv ConvTranspose Cos CumSum DepthToSpace Div Dropout Einsum Elu Equal Erf Exp Expand
EyeLike Flatten Floor Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater
GroupNormalization HardSigmoid HardSwish Identity If InstanceNormalization LRN LayerNormalization LeakyRelu Less
Log LogSoftmax Loop LpNormalization LpPool MatMul Max MaxPool Mean Min Mish Mul Neg Not OneHot Or PRelu Pad Pow
Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
ReduceSumSquare Relu Reshape Resize Round Scan Scatter ScatterElements ScatterND Selu SequenceAt SequenceConstruct
SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Sigmoid Sign Sin Size Slice Softmax Softplus
Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze Sub Sum Tanh Tile TopK Transpose Trilu Unsqueeze Upsample
Where Xor
"""
OPS = frozenset(_NAMES.split())


def test_a_seed_gives_the_same_case_again() -> None:
    for seed in (0, 1, 17, 1999):
        a, b = random_graph(seed), random_graph(seed)
        assert a.model.SerializeToString(deterministic=True) == b.model.SerializeToString(deterministic=True)
        assert a.feeds.keys() == b.feeds.keys()
        assert all(np.array_equal(a.feeds[n], b.feeds[n]) for n in a.feeds)


def test_the_first_seeds_use_every_operator_and_pattern() -> None:
    assert len(OPS) >= 60
    ops: Counter[str] = Counter()
    patterns: Counter[str] = Counter()
    opsets: Counter[int] = Counter()
    for seed in range(SEEDS):
        case = random_graph(seed)
        ops.update(case.ops)
        patterns.update(case.patterns)
        opsets[case.opset] += 1
    assert {op: ops[op] for op in OPS if ops[op] < LEAST_OP} == {}
    assert set(ops) - OPS == set()
    wanted = {*(e.name for e in EMITTERS), *HAZARDS}
    assert {p: patterns[p] for p in wanted if patterns[p] < LEAST_PATTERN} == {}
    assert {o: opsets[o] for o in OPSETS if opsets[o] < SEEDS // len(OPSETS) // 2} == {}


def _check_valid_and_runs(seed: int) -> None:
    case = random_graph(seed)
    onnx.checker.check_model(case.model, full_check=True)
    outputs = run_plain(case.model, case.feeds)
    for value, y in zip(case.model.graph.output, outputs, strict=True):
        declared = value.type.tensor_type.shape.dim
        assert len(declared) == y.ndim
        assert all(d.dim_param or d.dim_value == n for d, n in zip(declared, y.shape, strict=True)), (case, value.name)
        assert y.size > 0
        if y.dtype.kind == "f":
            assert np.isfinite(y).all()
            assert np.abs(y.astype(np.float64)).max() < 1e6, (case, value.name)


def test_graphs_are_valid_run_and_have_the_declared_shapes() -> None:
    for seed in range(200):
        _check_valid_and_runs(seed)


@pytest.mark.slow
def test_more_graphs_are_valid_run_and_have_the_declared_shapes() -> None:
    for seed in range(200, 4000):
        _check_valid_and_runs(seed)


def test_the_tolerance_is_tight() -> None:
    """Of the range of the output; float16 islands and norms of nearly equal numbers are the loose ones."""
    relative = []
    for seed in range(150):
        case = random_graph(seed)
        reference = run_plain(case.model, case.feeds)
        for r, bound in zip(reference, tolerance(case, reference), strict=True):
            if r.dtype.kind == "f" and "island_float16" not in case.patterns:
                relative.append(bound / max(float(np.abs(r).max()), 1e-6))
    assert np.median(relative) < 2e-5
    assert np.quantile(relative, 0.95) < 1e-3

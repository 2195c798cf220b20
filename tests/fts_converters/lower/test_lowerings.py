"""Every lowering keeps the laws on random forms of its operators, and does something about most of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import pytest
from tests.generators.laws import check_law, model_of
from tests.generators.lowering_cases import lowering_case
from tests.generators.random_graphs import Case

from fts_converters.lower import LOWERINGS
from fts_converters.lower.fill_shapes import fill_shapes
from fts_converters.model import Model

LOWERING = {name: run for lowerings in LOWERINGS.values() for name, run in lowerings}
FAST_SEEDS = range(40)
SLOW_SEEDS = range(40, 240)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a lowering owes on one kind of case.

    Attributes:
        lowering: Its name.
        kind: Kind of case.
        ops: Operators of which none is left when it refused nothing.
        least_share: Share of the cases that it must change; the others are refused with a reason.
    """

    lowering: str
    kind: str
    ops: tuple[str, ...]
    least_share: float = 0.95


EXPECTED = (
    Expected(lowering="conv_transpose_to_conv", kind="conv_transpose_case", ops=("ConvTranspose",), least_share=0.85),
    Expected(lowering="einsum_to_matmul", kind="einsum_case", ops=("Einsum",)),
    Expected(lowering="products_to_matmul", kind="einsum_case", ops=(), least_share=0.1),
    Expected(lowering="scatter_to_concat", kind="scatter_nd_case", ops=("ScatterND",)),
    Expected(lowering="scatter_to_concat", kind="scatter_elements_case", ops=("ScatterElements",)),
    Expected(lowering="gather_to_slices", kind="gather_nd_case", ops=("GatherND",)),
    Expected(lowering="gather_to_slices", kind="gather_elements_case", ops=("GatherElements",)),
    Expected(lowering="gather_to_slices", kind="gather_case", ops=(), least_share=0.6),
    Expected(lowering="instance_norm_to_reductions", kind="instance_norm_case", ops=("InstanceNormalization",)),
    Expected(lowering="group_norm_to_reductions", kind="group_norm_case", ops=("GroupNormalization",)),
    Expected(lowering="layer_norm_to_reductions", kind="layer_norm_case", ops=("LayerNormalization",)),
    Expected(
        lowering="mean_variance_norm_to_reductions", kind="mean_variance_norm_case", ops=("MeanVarianceNormalization",)
    ),
    Expected(lowering="lp_norm_to_reductions", kind="lp_norm_case", ops=("LpNormalization",)),
    Expected(lowering="batch_norm_to_scale", kind="batch_norm_case", ops=("BatchNormalization",), least_share=0.6),
    Expected(lowering="cum_sum_to_matmul", kind="cum_sum_case", ops=("CumSum",)),
    Expected(lowering="depth_to_space_to_transpose", kind="depth_to_space_case", ops=("DepthToSpace",)),
    Expected(lowering="depth_to_space_to_transpose", kind="space_to_depth_case", ops=("SpaceToDepth",)),
    Expected(lowering="split_high_rank", kind="transpose_high_rank", ops=(), least_share=0.5),
    Expected(lowering="split_high_rank", kind="elementwise_high_rank", ops=(), least_share=0.95),
    Expected(lowering="split_high_rank", kind="high_dimensional_matmul", ops=(), least_share=0.1),
    Expected(lowering="resize_to_matmul", kind="resize_case", ops=(), least_share=0.4),
    Expected(lowering="resize_nearest_to_gather", kind="resize_case", ops=(), least_share=0.3),
    Expected(lowering="resize_to_matmul", kind="resize_aspect_case", ops=(), least_share=0.3),
    Expected(lowering="resize_nearest_to_gather", kind="resize_aspect_case", ops=(), least_share=0.3),
    Expected(lowering="chain_operands", kind="nary_case", ops=(), least_share=0.8),
    Expected(lowering="crop_conv_transpose", kind="conv_transpose_case", ops=(), least_share=0.2),
    Expected(lowering="expand_to_concat", kind="expand_case", ops=("Expand",), least_share=0.9),
    Expected(lowering="gemm_to_matmul", kind="gemm_case", ops=("Gemm",), least_share=0.95),
    Expected(
        lowering="global_pool_to_reduce",
        kind="global_pool_case",
        ops=("GlobalAveragePool", "GlobalMaxPool"),
        least_share=0.95,
    ),
    Expected(lowering="grid_sample_to_gather", kind="grid_sample_constant", ops=("GridSample",), least_share=0.9),
    Expected(lowering="grid_sample_to_gather", kind="grid_sample_computed", ops=("GridSample",), least_share=0.5),
    Expected(lowering="pool_1d_to_2d", kind="pool_1d", ops=(), least_share=0.95),
    Expected(lowering="resize_sizes_to_scales", kind="resize_case", ops=(), least_share=0.2),
    Expected(lowering="spell_activations", kind="activation_case", ops=(), least_share=0.95),
    Expected(lowering="spell_activations", kind="prelu_case", ops=("PRelu",), least_share=0.95),
    Expected(lowering="spell_activations", kind="log_softmax_case", ops=("LogSoftmax",), least_share=0.95),
    Expected(lowering="spell_activations", kind="leaky_slope", ops=("LeakyRelu",), least_share=0.95),
    Expected(
        lowering="spell_reductions",
        kind="reduction_case",
        ops=("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd", "ReduceSumSquare"),
        least_share=0.5,
    ),
    Expected(lowering="vector_to_matrix", kind="vector_matmul", ops=()),
    Expected(lowering="pad_to_concat", kind="pad_case", ops=("Pad",)),
    Expected(
        lowering="spatial_mean_to_pools", kind="spatial_mean", ops=("GlobalAveragePool", "ReduceMean"), least_share=0.3
    ),
    Expected(lowering="trilu_to_where", kind="trilu_case", ops=("Trilu",), least_share=0.95),
)


@lru_cache(maxsize=4096)
def _case(kind: str, seed: int) -> Case:
    return lowering_case(kind, seed)


def _with_shapes(case: Case) -> Model:
    model = model_of(case)
    fill_shapes(model)
    return model


def _check(expected: Expected, seeds: range) -> None:
    lowering = LOWERING[expected.lowering]
    reasons: Counter[str] = Counter()
    changed = 0
    for seed in seeds:
        case = _case(expected.kind, seed)
        model = check_law(lowering, case, source=_with_shapes)
        left = Counter(n.op for n in model.graph.nodes)
        fresh = _with_shapes(case)
        result = lowering(fresh)
        changed += result.is_changed
        reasons.update(r.reason for r in result.refusals)
        if not result.refusals:
            assert {op: left[op] for op in expected.ops if left[op]} == {}, (expected, seed)
    assert changed >= expected.least_share * len(seeds), (changed, reasons)
    assert all(reasons)


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda e: f"{e.lowering}-{e.kind}")
def test_it_keeps_the_laws_and_replaces_what_it_says(expected: Expected) -> None:
    _check(expected, FAST_SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("expected", EXPECTED, ids=lambda e: f"{e.lowering}-{e.kind}")
def test_it_keeps_the_laws_on_more_cases(expected: Expected) -> None:
    _check(expected, SLOW_SEEDS)


# Judged in test files of their own.
JUDGED_ELSEWHERE = frozenset({"group_norm_to_instance_norm", "widen_narrow_conv"})


def test_every_lowering_is_judged() -> None:
    assert {e.lowering for e in EXPECTED} | JUDGED_ELSEWHERE == set(LOWERING)

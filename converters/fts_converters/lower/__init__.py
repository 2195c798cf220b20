"""Exact replacements for what an engine lacks or runs badly. Each is a pass, one a file; who needs which is written out here.

A target (cpu-int8) gets its lowerings wherever they are possible. An engine gets a lowering where its documents speak
against the node (`fts_devices.op_support`) and for all of the replacement: nothing is rewritten that would not help.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_graphsurgeon as gs

from fts_converters.lower.batch_norm_to_scale import batch_norm_to_scale
from fts_converters.lower.chain_operands import chain_operands
from fts_converters.lower.conv_transpose_to_conv import conv_transpose_to_conv
from fts_converters.lower.crop_conv_transpose import crop_conv_transpose
from fts_converters.lower.cum_sum_to_matmul import cum_sum_to_matmul
from fts_converters.lower.depth_to_space_to_transpose import depth_to_space_to_transpose
from fts_converters.lower.each_wanted import ALL_NODES, Choice, Lowering
from fts_converters.lower.einsum_to_matmul import einsum_to_matmul, is_matrix_product
from fts_converters.lower.expand_to_concat import expand_to_concat
from fts_converters.lower.fill_shapes import fill_shapes
from fts_converters.lower.gather_to_slices import gather_to_slices
from fts_converters.lower.gemm_to_matmul import gemm_to_matmul
from fts_converters.lower.global_pool_to_reduce import global_pool_to_reduce
from fts_converters.lower.grid_sample_to_gather import grid_sample_to_gather
from fts_converters.lower.group_norm_to_instance_norm import group_norm_to_instance_norm
from fts_converters.lower.group_norm_to_reductions import group_norm_to_reductions
from fts_converters.lower.instance_norm_to_reductions import instance_norm_to_reductions
from fts_converters.lower.layer_norm_to_reductions import layer_norm_to_reductions
from fts_converters.lower.lp_norm_to_reductions import lp_norm_to_reductions
from fts_converters.lower.mean_variance_norm_to_reductions import mean_variance_norm_to_reductions
from fts_converters.lower.node_facts import lack_of
from fts_converters.lower.pad_to_concat import pad_to_concat
from fts_converters.lower.pool_1d_to_2d import pool_1d_to_2d
from fts_converters.lower.resize_nearest_to_gather import resize_nearest_to_gather
from fts_converters.lower.resize_sizes_to_scales import resize_sizes_to_scales
from fts_converters.lower.resize_to_matmul import resize_to_matmul
from fts_converters.lower.scatter_to_concat import scatter_to_concat
from fts_converters.lower.spatial_mean_to_pools import spatial_mean_to_pools
from fts_converters.lower.spell_activations import spell_activations
from fts_converters.lower.spell_reductions import spell_reductions
from fts_converters.lower.split_high_rank import split_high_rank
from fts_converters.lower.trilu_to_where import trilu_to_where
from fts_converters.lower.vector_to_matrix import vector_to_matrix
from fts_converters.lower.widen_narrow_conv import widen_narrow_conv
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_devices.op_support import EngineOps, load_engine_ops


def products_to_matmul(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """`einsum_to_matmul` where one MatMul does it: that has an integer kernel, an Einsum never."""
    return einsum_to_matmul(model, choice.where(lambda n: n.op != "Einsum" or is_matrix_product(n)))


LOWERINGS: Mapping[str, tuple[tuple[str, Lowering], ...]] = {
    "cpu-int8": (
        # onnxruntime has no integer ConvTranspose on CPU, but an integer Conv.
        ("conv_transpose_to_conv", conv_transpose_to_conv),
        # nor a kernel for GroupNormalization, but one for InstanceNormalization.
        ("group_norm_to_instance_norm", group_norm_to_instance_norm),
        ("products_to_matmul", products_to_matmul),
        ("widen_narrow_conv", widen_narrow_conv),  # its integer Conv wastes most of its time on few output channels
    ),
    "onnxruntime-cpu": (),
    "tensorrt": (
        ("einsum_to_matmul", einsum_to_matmul),  # ellipsis and diagonal before 10.12
        ("scatter_to_concat", scatter_to_concat),  # ScatterND with a reduction
        ("resize_to_matmul", resize_to_matmul),  # cubic, antialias, crops
        ("resize_nearest_to_gather", resize_nearest_to_gather),
        ("pool_1d_to_2d", pool_1d_to_2d),
        ("layer_norm_to_reductions", layer_norm_to_reductions),
        ("vector_to_matrix", vector_to_matrix),
    ),
    "tensorrt-dla": (
        ("crop_conv_transpose", crop_conv_transpose),  # takes pads of 0 alone
        ("resize_sizes_to_scales", resize_sizes_to_scales),
        ("chain_operands", chain_operands),
        ("spell_activations", spell_activations),  # HardSwish, HardSigmoid, slopes below 0
        ("gemm_to_matmul", gemm_to_matmul),
        ("spatial_mean_to_pools", spatial_mean_to_pools),  # windows up to 8
    ),
    "qnn-htp": (
        ("split_high_rank", split_high_rank),  # first: what follows looks at each form
        ("conv_transpose_to_conv", conv_transpose_to_conv),  # dilated ones
        ("einsum_to_matmul", einsum_to_matmul),
        ("scatter_to_concat", scatter_to_concat),
        ("gather_to_slices", gather_to_slices),  # places counted from the end
        ("batch_norm_to_scale", batch_norm_to_scale),  # 5 axes
        ("instance_norm_to_reductions", instance_norm_to_reductions),  # 5 axes
        ("group_norm_to_reductions", group_norm_to_reductions),
        ("layer_norm_to_reductions", layer_norm_to_reductions),  # several axes
        ("mean_variance_norm_to_reductions", mean_variance_norm_to_reductions),
        ("lp_norm_to_reductions", lp_norm_to_reductions),  # p = 1
        ("resize_to_matmul", resize_to_matmul),  # cubic, antialias, crops
        ("resize_nearest_to_gather", resize_nearest_to_gather),
        ("grid_sample_to_gather", grid_sample_to_gather),  # cubic by a constant grid
        ("cum_sum_to_matmul", cum_sum_to_matmul),  # exclusive, reverse
        ("chain_operands", chain_operands),
        ("spell_activations", spell_activations),
        ("spell_reductions", spell_reductions),
        ("gemm_to_matmul", gemm_to_matmul),  # alpha, beta
        ("global_pool_to_reduce", global_pool_to_reduce),  # maximum over 3 spatial axes
        ("trilu_to_where", trilu_to_where),
        ("pad_to_concat", pad_to_concat),  # wrap
    ),
    "litert-cpu": (
        ("einsum_to_matmul", einsum_to_matmul),
        ("scatter_to_concat", scatter_to_concat),
        ("gather_to_slices", gather_to_slices),
        ("batch_norm_to_scale", batch_norm_to_scale),
        ("instance_norm_to_reductions", instance_norm_to_reductions),
        ("group_norm_to_reductions", group_norm_to_reductions),
        ("layer_norm_to_reductions", layer_norm_to_reductions),
        ("mean_variance_norm_to_reductions", mean_variance_norm_to_reductions),
        ("lp_norm_to_reductions", lp_norm_to_reductions),
        ("resize_to_matmul", resize_to_matmul),
        ("resize_nearest_to_gather", resize_nearest_to_gather),
        ("cum_sum_to_matmul", cum_sum_to_matmul),
        ("chain_operands", chain_operands),
        ("spell_activations", spell_activations),
        ("spell_reductions", spell_reductions),
        ("gemm_to_matmul", gemm_to_matmul),
        ("expand_to_concat", expand_to_concat),
        ("pool_1d_to_2d", pool_1d_to_2d),
        ("pad_to_concat", pad_to_concat),  # takes constants alone
    ),
    "litert-npu-qualcomm": (
        ("einsum_to_matmul", einsum_to_matmul),
        ("scatter_to_concat", scatter_to_concat),
        ("gather_to_slices", gather_to_slices),
        ("batch_norm_to_scale", batch_norm_to_scale),
        ("instance_norm_to_reductions", instance_norm_to_reductions),
        ("group_norm_to_reductions", group_norm_to_reductions),
        ("layer_norm_to_reductions", layer_norm_to_reductions),
        ("mean_variance_norm_to_reductions", mean_variance_norm_to_reductions),
        ("grid_sample_to_gather", grid_sample_to_gather),
        ("chain_operands", chain_operands),
        ("spell_activations", spell_activations),
        ("spell_reductions", spell_reductions),
        ("trilu_to_where", trilu_to_where),
        ("depth_to_space_to_transpose", depth_to_space_to_transpose),
    ),
}
# Names of LOWERINGS that are targets; the others are engines.
TARGETS = frozenset(("cpu-int8",))
# A lowering may make what another one lowers; real nets need two rounds, this is a stop.
MOST_ROUNDS = 6


def lower(model: Model, name: str) -> tuple[tuple[str, Refusal], ...]:
    """Apply the lowerings of a target or an engine in place.

    Args:
        model: The net, cleaned.
        name: Key of `LOWERINGS`; any other has none.

    Returns:
        (lowering, refusal) of what is still there and was left as it is.
    """
    chosen = LOWERINGS.get(name, ())
    choice = (
        ALL_NODES if name == "cpu-int8" else _choice_of(load_engine_ops(name), model.opset) if chosen else ALL_NODES
    )
    fill_shapes(model)
    refusals: dict[str, tuple[Refusal, ...]] = {}
    for _ in range(MOST_ROUNDS):
        is_changed = False
        for lowering, run in chosen:
            result = run(model, choice)
            refusals[lowering] = result.refusals
            is_changed |= result.is_changed
        if not is_changed:
            break
    return tuple((lowering, refusal) for lowering, found in refusals.items() for refusal in found)


def _choice_of(engine: EngineOps, opset: int) -> Choice:
    """The nodes that an engine lacks, and what it takes in their place."""

    def is_lacking(node: gs.Node) -> bool:
        return lack_of(engine, node, opset) is not None

    return Choice(is_wanted=is_lacking, is_taken=lambda node: not is_lacking(node))

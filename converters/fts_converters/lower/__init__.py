"""Exact replacements for what an engine lacks or runs badly. Each is a pass, one a file; who needs which is written out here."""

from __future__ import annotations

from collections.abc import Mapping

from fts_converters.lower.batch_norm_to_scale import batch_norm_to_scale
from fts_converters.lower.conv_transpose_to_conv import conv_transpose_to_conv
from fts_converters.lower.cum_sum_to_matmul import cum_sum_to_matmul
from fts_converters.lower.depth_to_space_to_transpose import depth_to_space_to_transpose
from fts_converters.lower.each_wanted import Lowering
from fts_converters.lower.einsum_to_matmul import einsum_to_matmul
from fts_converters.lower.gather_to_slices import gather_to_slices
from fts_converters.lower.group_norm_to_reductions import group_norm_to_reductions
from fts_converters.lower.instance_norm_to_reductions import instance_norm_to_reductions
from fts_converters.lower.layer_norm_to_reductions import layer_norm_to_reductions
from fts_converters.lower.lp_norm_to_reductions import lp_norm_to_reductions
from fts_converters.lower.mean_variance_norm_to_reductions import mean_variance_norm_to_reductions
from fts_converters.lower.resize_nearest_to_gather import resize_nearest_to_gather
from fts_converters.lower.resize_to_matmul import resize_to_matmul
from fts_converters.lower.scatter_to_concat import scatter_to_concat
from fts_converters.lower.split_high_rank import split_high_rank
from fts_converters.model import Model
from fts_converters.passes.contract import Pass, Refusal

ALL_LOWERINGS: Mapping[str, Lowering] = {
    f.__name__: f
    for f in (
        batch_norm_to_scale,
        conv_transpose_to_conv,
        cum_sum_to_matmul,
        depth_to_space_to_transpose,
        einsum_to_matmul,
        gather_to_slices,
        group_norm_to_reductions,
        instance_norm_to_reductions,
        layer_norm_to_reductions,
        lp_norm_to_reductions,
        mean_variance_norm_to_reductions,
        scatter_to_concat,
        resize_nearest_to_gather,
        resize_to_matmul,
        split_high_rank,
    )
}
LOWERINGS: Mapping[str, tuple[tuple[str, Pass], ...]] = {
    # onnxruntime has no integer ConvTranspose on CPU, but an integer Conv.
    "cpu-int8": (("conv_transpose_to_conv", conv_transpose_to_conv),),
}


def lower(model: Model, target: str) -> tuple[tuple[str, Refusal], ...]:
    """Apply a target's lowerings in place; returns (lowering, refusal) of what was left as it is."""
    return tuple((name, refusal) for name, run in LOWERINGS.get(target, ()) for refusal in run(model).refusals)

"""Exact replacements for what an engine lacks or runs badly, by target. Each is a pass; the mapping is written out here."""

from __future__ import annotations

from collections.abc import Mapping

from fts_converters.lower.conv_transpose_to_conv import conv_transpose_to_conv
from fts_converters.lower.group_norm_to_instance_norm import group_norm_to_instance_norm
from fts_converters.model import Model
from fts_converters.passes.contract import Pass, Refusal

LOWERINGS: Mapping[str, tuple[tuple[str, Pass], ...]] = {
    # onnxruntime has no integer ConvTranspose on CPU, but an integer Conv.
    "cpu-int8": (
        ("conv_transpose_to_conv", conv_transpose_to_conv),
        # nor a kernel for GroupNormalization, but one for InstanceNormalization.
        ("group_norm_to_instance_norm", group_norm_to_instance_norm),
    ),
}


def lower(model: Model, target: str) -> tuple[tuple[str, Refusal], ...]:
    """Apply a target's lowerings in place; returns (lowering, refusal) of what was left as it is."""
    return tuple((name, refusal) for name, run in LOWERINGS.get(target, ()) for refusal in run(model).refusals)

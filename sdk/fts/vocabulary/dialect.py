"""What quantization looks like in the file an engine reads. Values live in `fts_devices`; this is the form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fts.vocabulary.quantization import Scheme


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The QDQ form of one engine on one instruction set.

    Attributes:
        name: Name in reports, such as "onnxruntime-x86-vnni".
        isa: Instruction sets that the form needs to compute right; empty for any.
        activation: Grid of activations.
        weight: Grid of weights.
        bias_bits: Integer bias of scale s_in * s_w, or None for a float bias.
        quantizes_outputs: True when a unit is DQ -> op -> Q, False when outputs stay float.
        pair_sum_limit: Greatest magnitude of the sum of two neighbouring weights of a dot product, or None. Within it weights
            may use all 8 bits; where it is met by their size alone they would have `weight.bits`.
        mac_costs: Time of a multiply-accumulate, float as 1, by form: "int8" the usual one, "sums", "full_weights" of 8 bits.
        has_sum_kernels: The engine also has kernels that give their 32-bit sums (ConvInteger, MatMulInteger).
    """

    name: str
    isa: tuple[str, ...]
    activation: Scheme
    weight: Scheme
    bias_bits: int | None
    quantizes_outputs: bool
    mac_costs: Mapping[str, float]
    has_sum_kernels: bool = False
    pair_sum_limit: int | None = None

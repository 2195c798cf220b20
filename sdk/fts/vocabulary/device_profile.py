"""What a target is: its engine, its dialects, and which operators its integer kernels take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fts.vocabulary.dialect import Dialect

IntegerRole = Literal["mac", "bridge", "passthrough", "activation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRule:
    """How an engine's integer kernels treat one operator type.

    Attributes:
        role: mac: multiplies and sums, always worth it; bridge: has an integer kernel, used between integer
            neighbours; passthrough: moves values, input and output share one grid; activation: folded into the
            unit in front of it.
        source: Where this was seen.
    """

    role: IntegerRole
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """One target, as data.

    Attributes:
        target: Name on the command line, "cpu-int8".
        device: Device part of the name, "cpu".
        engine: Engine kind in a bundle, "onnxruntime-cpu".
        precision: Integer precision of the target, "int8".
        summary: One line for `fts targets`.
        verified: What was verified where, one line for `fts targets`.
        dialects: By name of the instruction-set choice: "vnni", "any".
        integer_ops: Operators that have an integer kernel; any other stays float.
        float_reasons: Why an operator that people expect in INT8 stays float here, by operator.
    """

    target: str
    device: str
    engine: str
    precision: str
    summary: str
    verified: str
    dialects: Mapping[str, Dialect]
    integer_ops: Mapping[str, OpRule]
    float_reasons: Mapping[str, str]

"""Does this machine add u8*s8 products exactly? Measured, not read from a list of CPU features.

x86 before VNNI multiplies with vpmaddubsw, which adds two neighbouring products in 16 bits with saturation:
255*127 + 255*127 = 64770 becomes 32767. A net whose weights use all 8 bits then computes something else, without a
word. One small product through onnxruntime's own kernels tells, on any architecture and build.

Source: Intel SDM, PMADDUBSW; onnxruntime docs, "Quantize ONNX models", section on U8S8 and saturation.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from fts.engines.onnxruntime_session import open_session

VNNI = "vnni"

_ROWS, _TERMS, _COLUMNS = 8, 16, 16
_EXACT_SUM = _TERMS * 255 * 127

PROBE_MODEL = (
    b'\x08\x08:\xf6\x02\n"\n\x01a\n\x01b\n\x02za\n\x02zb\x12\x01y"\rMatMulInteger:\x00\x12\x01g*\t\x10\x02*\x01\x00'
    b"B\x02za*\t\x10\x03*\x01\x00B\x02zb*\x8c\x02\x08\x10\x08\x10\x10\x03*\x80\x02"
    + b"\x7f"
    * (_TERMS * _COLUMNS)
    + b"B\x01bZ\x13\n\x01a\x12\x0e\n\x0c\x08\x02\x12\x08\n\x02\x08\x08\n\x02\x08\x10"
    b"b\x13\n\x01y\x12\x0e\n\x0c\x08\x06\x12\x08\n\x02\x08\x08\n\x02\x08\x10B\x04\n\x00\x10\r"
)
"""y int32 (8, 16) = MatMulInteger(a uint8 (8, 16), b int8 (16, 16) = 127); a test rebuilds it with onnx."""


@cache
def is_u8s8_exact(*, exact_u8s8: bool = False) -> bool:
    """Whether u8*s8 sums come out exact here, without or with the engine's exact kernels.

    Args:
        exact_u8s8: Ask for the kernels that do not saturate, as `open_session` does.
    """
    session = open_session(PROBE_MODEL, threads=1, exact_u8s8=exact_u8s8, what="the u8*s8 probe")
    (sums,) = session.run({"a": np.full((_ROWS, _TERMS), 255, np.uint8)})
    return bool(np.all(sums == _EXACT_SUM))


def available_isa() -> frozenset[str]:
    """Instruction sets, as bundles name them in `requires.isa`, whose arithmetic this machine has."""
    return frozenset({VNNI}) if is_u8s8_exact() else frozenset()

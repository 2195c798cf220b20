"""What this machine offers to bundles."""

from __future__ import annotations

import platform
from dataclasses import dataclass

from fts.engines.isa import available_isa, is_u8s8_exact
from fts.engines.onnxruntime_session import onnxruntime_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """This machine, in the words of a manifest.

    Attributes:
        device: Device part of the targets it is: "cpu".
        machine: Architecture, such as "x86_64".
        isa: Names for `requires.isa` that hold here.
        onnxruntime: Version installed.
        simulates_exactly: Whether the engine has kernels here that add u8*s8 without saturation, at least slow ones.
    """

    device: str
    machine: str
    isa: frozenset[str]
    onnxruntime: str
    simulates_exactly: bool

    def __str__(self) -> str:
        return f"{self.device} ({self.machine})"


def this_host() -> Host:
    """Look at this machine; the arithmetic is measured once a process."""
    return Host(
        device="cpu",
        machine=platform.machine() or "unknown machine",
        isa=available_isa(),
        onnxruntime=onnxruntime_version(),
        simulates_exactly=is_u8s8_exact() or is_u8s8_exact(exact_u8s8=True),
    )

"""manifest.json of a bundle, as typed values. Reading and writing it is in `fts.bundle`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fts.vocabulary.evidence import Evidence
from fts.vocabulary.plan import Plan
from fts.vocabulary.preprocessing import Preprocessing
from fts.vocabulary.tensor_spec import Dimension, TensorKind, TensorSpec

FORMAT_VERSION = 1
MANIFEST_MEMBER = "manifest.json"
PORTABLE_MEMBER = "model/portable.onnx"
GOLDEN_MEMBER = "golden.npz"
REPORT_MEMBER = "report/report.json"

EngineState = Literal["built", "build-on-device"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEntry:
    """One file of the bundle (all but manifest.json itself)."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputEntry:
    """One input of the net.

    Attributes:
        spec: Name, type, shape.
        kind: "image" is fed from a frame through `preprocessing`; "tensor" is given by the app.
        preprocessing: For images only.
        default: Nested list of the run-time value of a tensor input, or None: then it is required at every call.
    """

    spec: TensorSpec
    kind: TensorKind
    preprocessing: Preprocessing | None = None
    default: Any = None

    @property
    def name(self) -> str:
        """Tensor name."""
        return self.spec.name

    @property
    def dtype(self) -> str:
        """numpy dtype name."""
        return self.spec.dtype

    @property
    def shape(self) -> tuple[Dimension, ...]:
        """One entry an axis."""
        return self.spec.shape


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputEntry:
    """One output of the net.

    Attributes:
        spec: Name, type, shape.
        kind: "image" becomes `out.image`; "tensor" only stands in `out.tensors`.
        range: (low, high) that map to 0 and 255, for images only.
    """

    spec: TensorSpec
    kind: TensorKind
    range: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        """Tensor name."""
        return self.spec.name

    @property
    def dtype(self) -> str:
        """numpy dtype name."""
        return self.spec.dtype

    @property
    def shape(self) -> tuple[Dimension, ...]:
        """One entry an axis."""
        return self.spec.shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What a bundle or an engine needs; empty means nothing in particular.

    Attributes:
        isa: Instruction sets: "vnni" = u8*s8 sums without 16-bit saturation.
        onnxruntime: Least version as "1.19", or "" for none.
    """

    isa: tuple[str, ...] = ()
    onnxruntime: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEntry:
    """One engine, in fallback order.

    Attributes:
        kind: "onnxruntime-cpu", ...
        member: Path of the file it loads.
        state: built, or finished on the device.
        precision: "int8" or "fp32".
        requires: What it needs here.
        evidence: How its numerics were established, or None for the FP32 fallback.
    """

    kind: str
    member: str
    state: EngineState
    precision: str
    requires: Requirements = field(default_factory=Requirements)
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RungEntry:
    """One resolution of the net."""

    id: str
    height_px: int
    width_px: int
    member: str
    quality: Mapping[str, Any] = field(default_factory=dict)
    compensator: str | None = None


def encoded_member(target: str) -> str:
    """Path of the encoded graph of a target: the build source of its engine, and what a simulation runs."""
    return f"engines/{target}.onnx"


def device_from_target(target: str) -> str:
    """Device part of a target's name `<device>-<precision>`: "orin-dla" of "orin-dla-int8"."""
    return target.rpartition("-")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything that a runtime has to know before it opens an engine.

    Attributes:
        format_version: Version of this layout.
        target: Target name, "cpu-int8".
        requires: What the bundle's first engine needs.
        members: Every other file, sorted by path.
        inputs: In the net's order.
        outputs: In the net's order.
        rungs: Resolutions; one until several are built.
        engines: In fallback order; the last is the portable FP32 net.
        plan: Decision and reason per node.
        quality: {"budget": str, "met": bool, "split": str, "metrics": [...], "integer_mac_share": float, ...}.
        golden: {"samples": int, "limits": {output: float}} right-hand sides of the golden check.
        provenance: {"model_sha256": str, "calibration_sha256": str, "tools": {name: version}, "options": {...}}.
    """

    format_version: int
    target: str
    requires: Requirements
    members: tuple[MemberEntry, ...]
    inputs: tuple[InputEntry, ...]
    outputs: tuple[OutputEntry, ...]
    rungs: tuple[RungEntry, ...]
    engines: tuple[EngineEntry, ...]
    plan: Plan
    quality: Mapping[str, Any]
    golden: Mapping[str, Any]
    provenance: Mapping[str, Any]

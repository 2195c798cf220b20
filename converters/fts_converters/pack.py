"""Put a conversion's results into a bundle: the encoded engine, the portable FP32 net, golden tensors, report, manifest."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from fts.bundle.tensors_npz import npz_bytes
from fts.bundle.write import write_bundle
from fts.bundle.zip_layout import MAX_ARCHIVE_BYTES
from fts.engines.onnxruntime_session import OrtSession
from fts.errors import ModelError
from fts.vocabulary.device_profile import DeviceProfile
from fts.vocabulary.dialect import Dialect
from fts.vocabulary.evidence import Evidence
from fts.vocabulary.manifest import (
    FORMAT_VERSION,
    GOLDEN_MEMBER,
    PORTABLE_MEMBER,
    REPORT_MEMBER,
    EngineEntry,
    InputEntry,
    Manifest,
    OutputEntry,
    Requirements,
    RungEntry,
    encoded_member,
)
from fts.vocabulary.plan import Plan
from fts_converters.golden import GoldenSample, golden_limits
from fts_converters.light_proto import LightProto, serialized

# Tools whose version can change the bytes of a bundle.
TOOLS = ("numpy", "onnx", "onnx-graphsurgeon", "onnxruntime", "opencv-python")
# First onnxruntime whose CPU provider loads a default-domain opset (its own compatibility table, "ONNX opset" column).
ONNXRUNTIME_FOR_OPSET: Mapping[int, str] = {22: "1.21", 23: "1.23", 24: "1.24"}
OLDEST_ONNXRUNTIME = "1.19"

Feed = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """Golden tensors and the limits that hold them together.

    Attributes:
        data: golden.npz.
        info: The manifest's `golden`.
    """

    data: bytes
    info: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """All that goes into a bundle but the findings of its verification."""

    profile: DeviceProfile
    dialect: Dialect
    inputs: tuple[InputEntry, ...]
    outputs: tuple[OutputEntry, ...]
    portable: LightProto
    encoded: onnx.ModelProto
    golden: Golden
    provenance: Mapping[str, Any]


def make_golden(samples: Sequence[GoldenSample], fp32: OrtSession, engine: OrtSession, source: str) -> Golden:
    """Run both nets on the golden inputs."""
    feeds = [s.feed for s in samples]
    references = [dict(zip(fp32.output_names, fp32.run(f), strict=True)) for f in feeds]
    results = [dict(zip(engine.output_names, engine.run(f), strict=True)) for f in feeds]
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    frames = [s.frames for s in samples]
    for kind, parts in (("frame", frames), ("in", feeds), ("fp32", references), ("engine", results)):
        for number, part in enumerate(parts):
            arrays.update({f"{kind}/{number}/{name}": np.asarray(value) for name, value in part.items()})
    limits = golden_limits(references, results, fp32.output_names)
    info = {"samples": len(feeds), "limits": limits, "source": source}
    return Golden(data=npz_bytes(arrays), info=info)


def refuse_larger_than_bundle(net: LightProto, source: str) -> None:
    """Before anything is measured: a bundle carries the FP32 net beside the INT8 one, which takes a byte a weight or more.

    Raises:
        ModelError: The two cannot fit.
    """
    least = net.size_bytes + net.proto.ByteSize() + sum(w.size for w in net.weights.values())
    if least > MAX_ARCHIVE_BYTES:
        raise ModelError(
            f"model {source!r}: {net.size_bytes} bytes in FP32, which a bundle carries beside the INT8 net: {least} bytes "
            f"together or more, and a bundle holds at most {MAX_ARCHIVE_BYTES}. Convert a smaller net, or one in parts; "
            "fts inspect takes nets of any size"
        )


def tool_versions() -> dict[str, str]:
    """Versions of fts and of TOOLS; a tool that came under another distribution name is left out."""
    versions = {}
    for name in ("fts-edge", *TOOLS):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def pack(
    path: Path, contents: Contents, *, plan: Plan, quality: Mapping[str, Any], evidence: Evidence | None, report: str
) -> Manifest:
    """Write the bundle; it appears under its name whole or not at all.

    Args:
        path: Final name.
        contents: Files and contracts.
        plan: Decisions as they turned out.
        quality: The manifest's `quality`; its "met" decides whether `fts.load` takes the bundle.
        evidence: How the engine was executed during verification, None before it.
        report: report.json.
    """
    member = encoded_member(contents.profile.target)
    oldest = _oldest_onnxruntime(contents.portable.proto)
    needs = Requirements(isa=contents.dialect.isa, onnxruntime=oldest)
    engines = (
        EngineEntry(
            kind=contents.profile.engine,
            member=member,
            state="built",
            precision=contents.profile.precision,
            requires=needs,
            evidence=evidence,
        ),
        EngineEntry(
            kind="onnxruntime-cpu",
            member=PORTABLE_MEMBER,
            state="built",
            precision="fp32",
            requires=Requirements(onnxruntime=oldest),
        ),
    )
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        target=contents.profile.target,
        requires=needs,
        members=(),
        inputs=contents.inputs,
        outputs=contents.outputs,
        rungs=_rungs(contents.inputs, member, quality),
        engines=engines,
        plan=plan,
        quality=quality,
        golden=contents.golden.info,
        provenance=contents.provenance,
    )
    members = {
        member: serialized(contents.encoded, "the encoded graph"),
        PORTABLE_MEMBER: serialized(contents.portable.whole("the FP32 net"), "the FP32 net"),
        GOLDEN_MEMBER: contents.golden.data,
        REPORT_MEMBER: report.encode("utf-8"),
    }
    return write_bundle(path, manifest, members)


def _rungs(inputs: Sequence[InputEntry], member: str, quality: Mapping[str, Any]) -> tuple[RungEntry, ...]:
    """One rung, the net's own size; none for a net without an image input."""
    image = next((i for i in inputs if i.preprocessing is not None), None)
    if image is None or image.preprocessing is None:
        return ()
    shape = image.spec.static_shape
    height, width = shape[2:] if image.preprocessing.layout == "nchw" else shape[1:3]
    metrics = {"metrics": quality.get("metrics", [])}
    return (RungEntry(id=f"{height}x{width}", height_px=height, width_px=width, member=member, quality=metrics),)


def _oldest_onnxruntime(model: onnx.ModelProto) -> str:
    opset = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    known = ONNXRUNTIME_FOR_OPSET.get(opset)
    return known or (OLDEST_ONNXRUNTIME if opset <= 21 else ONNXRUNTIME_FOR_OPSET[24])

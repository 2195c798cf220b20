"""Which engine of a bundle runs here. Chooses only; `fts.load` acts on the answer.

The target's engine runs where it can. Where it cannot, the portable FP32 net runs and the text of a warning names
both; `strict` rules that out. `simulate` runs the target's encoded graph instead, with the target's arithmetic.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fts.engines.host import Host
from fts.engines.isa import VNNI
from fts.errors import EngineUnavailableError
from fts.vocabulary.evidence import Evidence, EvidenceTag
from fts.vocabulary.manifest import (
    PORTABLE_MEMBER,
    EngineEntry,
    Manifest,
    Requirements,
    device_from_target,
    encoded_member,
)

ONNXRUNTIME_CPU = "onnxruntime-cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """What to load, and what to say about it.

    Attributes:
        member: The file to load.
        exact_u8s8: Whether the engine must be told to add u8*s8 without saturation.
        text: What runs, for people.
        evidence: What results of this engine are worth as evidence about the target.
        fallback: Text of the warning when this is not the target's engine, else "".
    """

    member: str
    exact_u8s8: bool
    text: str
    evidence: Evidence
    fallback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Obstacle:
    """Why an engine cannot run here, and what to do about it."""

    reason: str
    fix: str


def choose_engine(manifest: Manifest, host: Host, name: str, *, strict: bool, simulate: bool) -> EngineChoice:
    """Walk the engines in fallback order.

    Args:
        manifest: Of the bundle.
        host: This machine.
        name: The bundle's file name, for messages.
        strict: Refuse a fallback.
        simulate: Where the target's engine cannot run, run its numerics here.

    Raises:
        EngineUnavailableError: Nothing may run here; the text says why and what to do.
    """
    first = manifest.engines[0]
    obstacle = _device_obstacle(manifest, host) or _obstacle(first, manifest.requires, host)
    if obstacle is None:
        return EngineChoice(
            member=first.member,
            exact_u8s8=False,
            text=f"{first.kind} {first.precision} on {host}",
            evidence=_evidence(host, "measured", f"the engine of {manifest.target} itself"),
            fallback="",
        )
    wanted = f"{name}: the engine of target {manifest.target} ({_described(first)}) cannot run on {host}: "
    if simulate:
        return _simulation(manifest, host, wanted + obstacle.reason)
    if strict:
        raise EngineUnavailableError(f"{wanted}{obstacle.reason}. strict=True rules out a fallback. {obstacle.fix}")
    return _fallback(manifest, host, wanted + obstacle.reason, obstacle.fix)


def _fallback(manifest: Manifest, host: Host, wanted: str, fix: str) -> EngineChoice:
    own_device = device_from_target(manifest.target) == host.device
    candidates = [e for e in manifest.engines if own_device or e.member == PORTABLE_MEMBER]
    refusals = [(e, _obstacle(e, Requirements(), host)) for e in candidates]
    entry = next((e for e, obstacle in refusals if obstacle is None), None)
    if entry is None:
        others = "; ".join(f"{e.member}: {obstacle.reason}" for e, obstacle in refusals if obstacle)
        raise EngineUnavailableError(f"{wanted}, and nothing in the bundle can run instead ({others}). {fix}")
    net = "portable FP32 net" if entry.member == PORTABLE_MEMBER else f"engine {entry.member}"
    text = f"{entry.kind} {entry.precision} on {host}"
    return EngineChoice(
        member=entry.member,
        exact_u8s8=False,
        text=text,
        evidence=_evidence(host, "measured", f"the {net} in place of {manifest.target}"),
        fallback=f"[fallback] {wanted}. The {net} runs instead ({text}): not the target's numerics. {fix}",
    )


def _simulation(manifest: Manifest, host: Host, wanted: str) -> EngineChoice:
    member = encoded_member(manifest.target)
    if member not in {m.path for m in manifest.members}:
        raise EngineUnavailableError(
            f"{wanted}; it cannot be simulated either: the bundle has no {member}. "
            "Run the bundle on its device, or convert again."
        )
    requires = next((e.requires for e in manifest.engines if e.member == member), manifest.requires)
    if not _holds_version(requires, host):
        raise EngineUnavailableError(
            f"{wanted}; its simulation needs onnxruntime >= {requires.onnxruntime}, found {host.onnxruntime}. "
            f"{_upgrade(requires)}"
        )
    if not host.simulates_exactly:
        raise EngineUnavailableError(
            f"{wanted}; it cannot be simulated either: onnxruntime {host.onnxruntime} has no kernels on {host} that "
            "add u8*s8 products exactly. Load it on a machine with VNNI, or convert again with --isa any."
        )
    return EngineChoice(
        member=member,
        exact_u8s8=VNNI not in host.isa,
        text=f"{ONNXRUNTIME_CPU} on {host}, simulating {manifest.target}",
        evidence=_evidence(host, "simulated", f"stands in for {manifest.target}; u8*s8 sums exact"),
        fallback="",
    )


def _device_obstacle(manifest: Manifest, host: Host) -> _Obstacle | None:
    device = device_from_target(manifest.target)
    if device == host.device:
        return None
    return _Obstacle(
        reason=f"the bundle is for {device}, this machine is {host}",
        fix=f"Run it on {device}, convert again with --target {host.device}-int8, "
        "or load with simulate=True for the target's numerics.",
    )


def _obstacle(entry: EngineEntry, also: Requirements, host: Host) -> _Obstacle | None:
    """Why an engine cannot run on a machine of the right device; `also` is what the bundle itself requires."""
    if entry.kind != ONNXRUNTIME_CPU or entry.state != "built":
        return _Obstacle(
            reason=f"this version of fts runs built {ONNXRUNTIME_CPU} engines, found {entry.kind}, {entry.state}",
            fix="Install a version of fts that has this engine, or convert again.",
        )
    missing = sorted((set(entry.requires.isa) | set(also.isa)) - host.isa)
    if missing:
        lack = "sums of u8*s8 saturate at 16 bits" if missing == [VNNI] else "this machine lacks it"
        return _Obstacle(
            reason=f"it needs {', '.join(missing)}, but here {lack}",
            fix="Convert again with --isa any for an INT8 net that is right on this machine.",
        )
    for requires in (entry.requires, also):
        if not _holds_version(requires, host):
            return _Obstacle(
                reason=f"it needs onnxruntime >= {requires.onnxruntime}, found {host.onnxruntime}",
                fix=_upgrade(requires),
            )
    return None


def _described(entry: EngineEntry) -> str:
    needs = [*entry.requires.isa] + ([f"onnxruntime >= {v}"] if (v := entry.requires.onnxruntime) else [])
    return f"{entry.kind} {entry.precision}" + (f", requires {', '.join(needs)}" if needs else "")


def _holds_version(requires: Requirements, host: Host) -> bool:
    return _version(host.onnxruntime) >= _version(requires.onnxruntime)


def _version(text: str) -> tuple[int, ...]:
    """Leading numbers of a version: (1, 19) of "1.19", () of ""; "1.20.0rc1" counts as (1, 20, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(n) for n in match.group().split(".")) if match else ()


def _upgrade(requires: Requirements) -> str:
    return f"Install it: pip install 'onnxruntime>={requires.onnxruntime}'"


def _evidence(host: Host, tag: EvidenceTag, detail: str) -> Evidence:
    return Evidence(
        tag=tag,
        by=f"onnxruntime {host.onnxruntime} CPUExecutionProvider",
        detail=detail,
    )

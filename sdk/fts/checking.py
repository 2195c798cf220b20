"""Is a bundle whole, and does it compute here what it computed where it was made?

Three checks, each an answer with a number: every member's size and hash (by opening it), golden tensors, preprocessing.

Golden tensors hold when per output, over all samples, rms(here - fp32) <= limit, where the limit stands in the manifest:
1.5 * rms(engine - fp32) + 1e-4 * range(fp32), engine and fp32 as they were at conversion.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fts.bundle.archive import Bundle, open_bundle
from fts.bundle.tensors_npz import arrays_from_npz
from fts.engines.onnxruntime_session import open_session
from fts.imaging.preprocess import tensor_from_frame
from fts.loading import load
from fts.vocabulary.manifest import GOLDEN_MEMBER, PORTABLE_MEMBER

Status = Literal["ok", "failed", "not checked"]
# Of the FP32 output's range: onnxruntime's float kernels differ by machine and thread count by a few parts in a million.
PORTABLE_TOLERANCE = 1e-4

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check and what came of it.

    Attributes:
        check: "members", "golden", "portable" or "preprocessing".
        subject: What was checked: an output's or input's name, or "".
        status: ok, failed, or not checked.
        detail: Figures, or the reason.
    """

    check: str
    subject: str
    status: Status
    detail: str


def check_bundle(path: str | os.PathLike[str], *, simulate: bool = False) -> tuple[Finding, ...]:
    """Check a bundle on this machine.

    Args:
        path: The bundle.
        simulate: Where the target's engine cannot run here, run its numerics, as `fts.load` does; otherwise the golden
            tensors of the engine are "not checked" there.

    Raises:
        BundleError: The bundle is missing, damaged, unsafe or of another version.
        EngineError: The engine refuses the net.
    """
    bundle = open_bundle(path)
    members = bundle.manifest.members
    total = sum(m.bytes for m in members)
    findings = [
        Finding(check="members", subject="", status="ok", detail=f"{len(members)} files, {total} bytes, sha256 equal")
    ]
    if GOLDEN_MEMBER not in {m.path for m in members}:
        return (
            *findings,
            Finding(check="golden", subject="", status="not checked", detail="the bundle has no golden tensors"),
        )
    golden = arrays_from_npz(bundle.read(GOLDEN_MEMBER), GOLDEN_MEMBER)
    findings += _check_engine(bundle, golden, simulate)
    findings += _check_portable(bundle, golden)
    findings += _check_preprocessing(bundle, golden)
    return tuple(findings)


def _samples(golden: Mapping[str, npt.NDArray[Any]], kind: str) -> list[Arrays]:
    """Arrays named kind/<i>/<name>, as one dict a sample."""
    samples: dict[int, Arrays] = {}
    for key, array in golden.items():
        prefix, _, rest = key.partition("/")
        number, _, name = rest.partition("/")
        if prefix == kind:
            samples.setdefault(int(number), {})[name] = array
    return [samples[i] for i in sorted(samples)]


def _rms(here: list[Arrays], there: list[Arrays], name: str) -> float:
    squares = [float(np.mean((a[name].astype(np.float64) - b[name]) ** 2)) for a, b in zip(here, there, strict=True)]
    return float(np.sqrt(np.mean(squares)))


def _check_engine(bundle: Bundle, golden: Arrays, simulate: bool) -> list[Finding]:
    limits: Mapping[str, float] = bundle.manifest.golden.get("limits", {})
    with load(bundle.path, strict=not simulate, simulate=simulate, allow_below_budget=True) as model:
        results = [model.infer(feed) for feed in _samples(golden, "in")]
        tag = f"{model.evidence.tag}, {model.engine}"
    fp32 = _samples(golden, "fp32")
    findings = []
    for name, limit in limits.items():
        rms = _rms(results, fp32, name)
        status: Status = "ok" if rms <= limit else "failed"
        findings.append(
            Finding(check="golden", subject=name, status=status, detail=f"rms {rms:.3g}, limit {limit:.3g} ({tag})")
        )
    return findings


def _check_portable(bundle: Bundle, golden: Arrays) -> list[Finding]:
    session = open_session(bundle.read(PORTABLE_MEMBER), what=PORTABLE_MEMBER)
    fp32 = _samples(golden, "fp32")
    results = [dict(zip(session.output_names, session.run(f), strict=True)) for f in _samples(golden, "in")]
    findings = []
    for name in session.output_names:
        values = np.concatenate([s[name].astype(np.float64).ravel() for s in fp32])
        limit = PORTABLE_TOLERANCE * (float(values.max() - values.min()) if values.size else 0.0)
        rms = _rms(results, fp32, name)
        status: Status = "ok" if rms <= limit or rms == 0.0 else "failed"
        findings.append(
            Finding(check="portable", subject=name, status=status, detail=f"rms {rms:.3g}, limit {limit:.3g} (FP32)")
        )
    return findings


def _check_preprocessing(bundle: Bundle, golden: Arrays) -> list[Finding]:
    """Golden frames, run through this machine's preprocessing, give the golden input tensors bit for bit."""
    frames, feeds = _samples(golden, "frame"), _samples(golden, "in")
    findings = []
    for entry in bundle.manifest.inputs:
        if entry.preprocessing is None:
            continue
        pairs = [(f[entry.name], t[entry.name]) for f, t in zip(frames, feeds, strict=False) if entry.name in f]
        if not pairs:
            detail = "the golden tensors came without frames"
            findings.append(Finding(check="preprocessing", subject=entry.name, status="not checked", detail=detail))
            continue
        made = [tensor_from_frame(frame, entry.spec, entry.preprocessing)[0] for frame, _ in pairs]
        equal = all(np.array_equal(m, tensor) for m, (_, tensor) in zip(made, pairs, strict=True))
        status: Status = "ok" if equal else "failed"
        worst = max(float(np.abs(m.astype(np.float64) - t).max()) for m, (_, t) in zip(made, pairs, strict=True))
        detail = f"{len(pairs)} frames, greatest difference {worst:.3g}"
        findings.append(Finding(check="preprocessing", subject=entry.name, status=status, detail=detail))
    return findings

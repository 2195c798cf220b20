"""Verify a packed bundle in a fresh process that reads nothing but the bundle and the verify split.

The parent (`verify_bundle`) writes the split's feeds into a temporary folder and starts `python -m fts_converters.verify`.
The child loads the bundle with the runtime, runs its engine and its portable FP32 net, and reports scores.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fts.bundle.archive import open_bundle
from fts.bundle.tensors_npz import arrays_from_npz, npz_bytes
from fts.engines.onnxruntime_session import open_session
from fts.errors import UsageError
from fts.loading import load
from fts.vocabulary.evidence import Evidence
from fts.vocabulary.manifest import PORTABLE_MEMBER
from fts_calibration.metrics.budget import Budget, Score, budget_from_json
from fts_calibration.metrics.evaluate import evaluate
from fts_calibration.metrics.reference_outputs import ReferenceOutputs
from fts_converters.side_by_side import write_side_by_side
from fts_converters.speed import Speed, compare_speed, why_not_faster
from fts_devices.onnxruntime_cpu.integer_kernels import KernelReport, integer_kernels

# Pictures beside the report; enough to look at, few enough to find the bad one.
PICTURES = 4

Feed = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What the child found.

    Attributes:
        scores: One a budgeted output; empty when there was nothing to score on.
        kernels: What ONNX Runtime really runs in integers.
        evidence: How the engine was executed.
        speed: Against FP32; None where the engine is only simulated here, or there was no sample.
    """

    scores: tuple[Score, ...]
    kernels: KernelReport
    evidence: Evidence
    speed: Speed | None = None


class VerifyProcessError(RuntimeError):
    """The child ended without a result: a defect of fts, or the machine ran out of memory."""


def verify_bundle(
    bundle: Path, feeds: Iterable[Feed], budgets: Mapping[str, Budget], pictures: Path | None = None
) -> Verification:
    """Run the verification.

    Args:
        bundle: A packed bundle.
        feeds: The verify split.
        budgets: Output name to its budget; empty scores nothing.
        pictures: Folder for side-by-side pictures of the first samples, or None.

    Raises:
        UsageError: A metric does not fit an output of a sample, or the user's metric fails.
        VerifyProcessError: The child died; the message holds the end of what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="fts-verify-") as folder:
        for number, feed in enumerate(feeds):
            (Path(folder) / f"{number:06d}.npz").write_bytes(npz_bytes(feed))
        request = {
            "bundle": str(bundle.resolve()),
            "feeds": folder,
            "budgets": {name: b.to_json() for name, b in budgets.items()},
            "pictures": None if pictures is None else str(pictures.resolve()),
        }
        child = subprocess.run(
            [sys.executable, "-m", "fts_converters.verify"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=False,
        )
    if child.returncode != 0:
        raise VerifyProcessError(f"verification ended with status {child.returncode}:\n{child.stderr[-2000:]}")
    found = json.loads(child.stdout.splitlines()[-1])
    if "refused" in found:
        raise UsageError(found["refused"])
    return _verification_from_json(found, budgets)


def _verification_from_json(data: Mapping[str, Any], budgets: Mapping[str, Budget]) -> Verification:
    scores = tuple(Score(output=n, budget=b, values=tuple(data["scores"][n])) for n, b in budgets.items())
    found = data["kernels"]
    kernels = KernelReport(
        integer_nodes=tuple(found["integer_nodes"]),
        float_nodes=tuple(found["float_nodes"]),
        unmatched=tuple(found["unmatched"]),
        kernels=found["kernels"],
        integer_mac_share=found["integer_mac_share"],
    )
    speed = None if data["speed"] is None else Speed(**data["speed"])
    return Verification(scores=scores, kernels=kernels, evidence=Evidence(**data["evidence"]), speed=speed)


def _feeds(folder: Path) -> Iterator[Feed]:
    for file in sorted(folder.glob("*.npz")):
        yield arrays_from_npz(file.read_bytes(), file.name)


def _child(request: Mapping[str, Any]) -> dict[str, Any]:
    folder = Path(request["feeds"])
    budgets = {name: budget_from_json(b) for name, b in request["budgets"].items()}
    bundle = open_bundle(request["bundle"])
    with load(request["bundle"], simulate=True, allow_below_budget=True) as model:
        manifest = model.manifest
        encoded = bundle.read(manifest.engines[0].member)
        macs = {n.name: n.macs for n in manifest.plan.nodes if n.macs}
        kernels = integer_kernels(encoded, macs)
        scores: tuple[Score, ...] = ()
        speed = None
        if budgets and any(folder.glob("*.npz")):
            portable = open_session(bundle.read(PORTABLE_MEMBER), what=PORTABLE_MEMBER)
            with ReferenceOutputs(portable, _feeds(folder)) as references:
                scores = evaluate(model.infer, _feeds(folder), references, budgets)
                if request["pictures"]:
                    samples = zip(_feeds(folder), references, range(PICTURES), strict=False)
                    for feed, reference, number in samples:
                        target = Path(request["pictures"]) / f"verify_{number}.png"
                        write_side_by_side(target, manifest, feed, reference, model.infer(feed))
            first = next(_feeds(folder))
            if model.evidence.tag == "measured":
                speed = compare_speed(lambda: model.infer(first), lambda: portable.run(first))
                if not speed.is_faster:
                    speed = replace(speed, why=why_not_faster(encoded, first))
        evidence = model.evidence
    return {
        "scores": {s.output: list(s.values) for s in scores},
        "kernels": {f: getattr(kernels, f) for f in KernelReport.__dataclass_fields__},
        "evidence": {f: getattr(evidence, f) for f in Evidence.__dataclass_fields__},
        "speed": None if speed is None else speed.to_json(),
    }


def main() -> int:
    """Entry of the child: request on stdin, result on stdout."""
    try:
        found = _child(json.load(sys.stdin))
    except UsageError as error:
        found = {"refused": str(error)}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

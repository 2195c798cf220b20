"""`fts.load`: from a bundle's path to a model that runs here, or an error that says what to do."""

from __future__ import annotations

import os
import warnings
from typing import Literal, get_args

from fts.bundle.archive import open_bundle
from fts.engines.choose import choose_engine
from fts.engines.engine import Engine
from fts.engines.host import this_host
from fts.engines.onnxruntime_session import open_session
from fts.errors import BelowBudgetError, BundleManifestError, FallbackWarning, UsageError
from fts.model import Model
from fts.vocabulary.manifest import Manifest

BuildMode = Literal["serve", "block", "never"]


def load(
    path: str | os.PathLike[str],
    *,
    strict: bool = False,
    simulate: bool = False,
    build: BuildMode = "serve",
    budget_ms: float | None = None,
    period_ms: float | None = None,
    allow_below_budget: bool = False,
    threads: int | None = None,
) -> Model:
    """Open a bundle and load the engine that runs on this machine.

    Args:
        path: The bundle, a `.fts` file.
        strict: Raise where the target's engine cannot run here, instead of running the portable FP32 net.
        simulate: Where the target's engine cannot run here, run the target's own numerics here; `model.evidence`
            says so.
        build: How to finish an engine that is built on the device; no target of this version has one.
        budget_ms: Not in this version.
        period_ms: Not in this version.
        allow_below_budget: Load a bundle that did not meet its accuracy budget.
        threads: Threads of one inference; None for the CPUs this process may use.

    Raises:
        ValueError: An argument is not one of its values.
        UsageError: A latency budget was asked for.
        BundleError: The bundle is missing, damaged, unsafe, of another version, or below its accuracy budget.
        EngineUnavailableError: Nothing in the bundle may run here.
        EngineError: The engine refuses the net.
    """
    if build not in get_args(BuildMode):
        raise ValueError(f"fts.load: build is {build!r}, expected {', '.join(map(repr, get_args(BuildMode)))}")
    if threads is not None and (type(threads) is not int or threads < 1):
        raise ValueError(f"fts.load: threads is {threads!r}, expected a whole number >= 1, or None")
    for name, value in (("budget_ms", budget_ms), ("period_ms", period_ms)):
        if value is not None:
            raise UsageError(
                f"fts.load: {name}={value!r}: latency budgets are not in this version. Leave {name} out; the net then "
                "runs at its one resolution, however long that takes."
            )
    bundle = open_bundle(path)
    manifest = bundle.manifest
    if manifest.quality["met"] is False and not allow_below_budget:
        raise BelowBudgetError(_below_budget_text(manifest, bundle.path.name))
    choice = choose_engine(manifest, this_host(), bundle.path.name, strict=strict, simulate=simulate)
    engine = open_session(
        bundle.read(choice.member),
        threads=threads,
        exact_u8s8=choice.exact_u8s8,
        what=f"{bundle.path.name}: {choice.member}",
    )
    _check_declared(manifest, engine, f"{bundle.path.name}: {choice.member}")
    if choice.fallback:
        warnings.warn(choice.fallback, FallbackWarning, stacklevel=2)
    return Model(path=bundle.path, manifest=manifest, engine=engine, engine_text=choice.text, evidence=choice.evidence)


def _below_budget_text(manifest: Manifest, name: str) -> str:
    metrics = manifest.quality.get("metrics")
    reached = "; ".join(str(m) for m in metrics) if isinstance(metrics, list) and metrics else "see report/report.json"
    return (
        f"{name}: the bundle missed its accuracy budget {manifest.quality['budget']!r} ({reached:.400}). Convert again "
        "with more calibration data, --pin or a lower --budget; or accept it: allow_below_budget=True "
        "(fts run --allow-below-budget)."
    )


def _check_declared(manifest: Manifest, engine: Engine, what: str) -> None:
    for kind, declared, found in (
        ("inputs", [i.name for i in manifest.inputs], engine.input_names),
        ("outputs", [o.name for o in manifest.outputs], engine.output_names),
    ):
        if sorted(declared) != sorted(found):
            raise BundleManifestError(
                f"{what}: the net has the {kind} {', '.join(found)}, the manifest lists {', '.join(declared)}. "
                "Convert again."
            )

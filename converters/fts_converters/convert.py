"""The flow of a conversion, from a source file to a verified bundle. Read this first.

    prepare (load -> decide inputs -> open data -> freeze -> clean -> lower -> statistics -> decide outputs)
         -> choose ranges and equalization -> recover -> search a plan under the budget -> recover it -> ranges of all photos
         -> encode -> pack a draft -> verify it in a fresh process -> judge -> pack

Decisions are values (`InputDecisions`, `Plan`, `SearchResult`); only `Model` changes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from fts.engines.isa import available_isa
from fts.engines.onnxruntime_session import open_session
from fts.vocabulary.device_profile import DeviceProfile
from fts.vocabulary.dialect import Dialect
from fts.vocabulary.plan import Plan
from fts_calibration.dataset.calibration_set import Split
from fts_calibration.metrics.budget import Budget, worst
from fts_converters.all_photos import with_all_photos
from fts_converters.audit_data import findings_after_encoding, warn_of_findings
from fts_converters.cache import StageCache, cache_folder
from fts_converters.calibration_histograms import calibration_histograms
from fts_converters.decide_budgets import budgets_text
from fts_converters.equalized import equalized
from fts_converters.given_grids.take_over import encoded_given, plan_given
from fts_converters.golden import GoldenSample, synthetic_samples
from fts_converters.judge import as_it_runs, missed_conditions, warn_about
from fts_converters.light_proto import serialized
from fts_converters.pack import Contents, Golden, make_golden, pack, tool_versions
from fts_converters.prepare import Prepared, feeds_digest, prepare
from fts_converters.progress import Progress
from fts_converters.quantize.choose_calibrator import choose_calibrator
from fts_converters.quantize.choose_headroom import choose_headroom
from fts_converters.quantize.encode_qdq import Encoded, encode_qdq
from fts_converters.quantize.measure_units import units_measure
from fts_converters.quantize.plan_nodes import plan_nodes
from fts_converters.quantize.search_budget import SearchResult, TriedPlan, UnitLoss, search_budget
from fts_converters.quantize.trials import Trials, open_trials
from fts_converters.recovered import recovered, recovered_again
from fts_converters.report import metrics_json, report_json
from fts_converters.report_folder import below_budget_name, report_folder, require_free_place
from fts_converters.report_html.write import write_report_html
from fts_converters.request import ConvertRequest
from fts_converters.speed import Speed
from fts_converters.verify import verify_bundle
from fts_converters.warnings_log import WarningLog
from fts_devices.profiles import load_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What came of it.

    Attributes:
        bundle: Path of the bundle written, the below-budget one when `failures` is not empty.
        failures: Conditions that were not met, as sentences.
        metrics: Entries of the report.
        integer_mac_share: As ONNX Runtime runs it, 0..1.
        losses: Units measured alone, worst first; empty when all INT8 met the budget.
        front: Whole plans tried that no other one beats in both cost and metric, cheapest first.
        warnings: (id, text).
        speed: Against FP32 on this machine, where it could be measured.
    """

    bundle: Path
    failures: tuple[str, ...]
    metrics: tuple[dict[str, Any], ...]
    integer_mac_share: float
    losses: tuple[UnitLoss, ...]
    front: tuple[TriedPlan, ...]
    warnings: tuple[tuple[str, str], ...]
    speed: Speed | None = None


def convert(request: ConvertRequest, progress: Progress) -> Conversion:
    """Convert a net.

    Raises:
        FtsError: Wrong input, or a missing part of the environment; nothing was written.

    Returns:
        The conversion; when the accuracy budget or the least INT8 share was missed, `failures` says so and the best
        attempt lies beside the final name as `<name>.below-budget.fts`.
    """
    warnings = WarningLog()
    profile = load_profile(request.target)
    dialect = profile.dialects[_isa(request)]
    require_free_place(request.output)
    cache = StageCache(cache_folder() if request.use_cache else None)
    prepared = prepare(request, profile, cache, warnings, progress)
    budgets = prepared.budgets
    exact = not set(dialect.isa) <= available_isa()
    prepared, found = _search(request, prepared, profile, dialect, budgets, exact, cache, warnings, progress)
    encoded = _encode(prepared, found, profile, dialect)
    for node, text in encoded.notes:
        warnings.add("weight-scale-enlarged", f"{node!r}: {text}")
    moved = findings_after_encoding(
        request,
        prepared.index.model,
        encoded.model,
        prepared.statistics.ranges,
        prepared.data,
        exact_u8s8=exact,
    )
    warn_of_findings(moved, warnings)
    prepared = replace(prepared, findings=prepared.findings + moved)
    contents = Contents(
        profile=profile,
        dialect=dialect,
        inputs=tuple(i.to_entry() for i in prepared.inputs),
        outputs=prepared.outputs,
        portable=prepared.net,
        encoded=encoded.model,
        golden=_golden(prepared, encoded.model, exact),
        provenance=_provenance(request, prepared, dialect),
    )
    histograms = calibration_histograms(
        prepared.statistics.histograms, encoded.grids, prepared.candidates, found.losses
    )
    return _verify_and_pack(request, prepared, contents, found, budgets, histograms, warnings, progress)


def _encode(prepared: Prepared, found: SearchResult, profile: DeviceProfile, dialect: Dialect) -> Encoded:
    if prepared.given is not None:
        return Encoded(model=encoded_given(prepared.given, profile, dialect), notes=())
    return encode_qdq(prepared.index, prepared.candidates, found.plan, prepared.statistics, dialect, prepared.update)


def _isa(request: ConvertRequest) -> str:
    if request.isa != "auto":
        return request.isa
    return "vnni" if "vnni" in available_isa() else "any"


def _search(
    request: ConvertRequest,
    prepared: Prepared,
    profile: DeviceProfile,
    dialect: Dialect,
    budgets: Mapping[str, Budget],
    exact: bool,
    cache: StageCache,
    warnings: WarningLog,
    progress: Progress,
) -> tuple[Prepared, SearchResult]:
    """The plan, and the net that it is for: as lowered, or with its channels equalized where that scores better."""
    given = prepared.given
    if given is not None and request.is_budget_none:
        plan = plan_given(given, profile, dialect)
        return prepared, SearchResult(plan=plan, scores=(), is_met=True, losses=(), tried=0)
    if request.is_budget_none:
        plan = plan_nodes(prepared.index, prepared.candidates, profile, dialect, kept_float={})
        return prepared, SearchResult(plan=plan, scores=(), is_met=True, losses=(), tried=0)
    progress.stage("search", f"{budgets_text(request.budgets, budgets)} on {prepared.data.count('select')} files")

    def trials_of(net: Prepared) -> Trials:
        return Trials(
            index=net.index,
            candidates=net.candidates,
            statistics=net.statistics,
            dialect=dialect,
            feeds=lambda: net.data.feeds("select"),
            split_digest=feeds_digest(net.data, net.inputs),
            budgets=budgets,
            exact_u8s8=exact,
            cache=cache,
            update=net.update,
        )

    if given is not None:  # nothing to search: what is integer was decided by whoever quantized the net
        with open_trials(trials_of(prepared)) as trials:
            scores = trials.scores_of(encoded_given(given, profile, dialect))
        is_met = all(s.margin >= 0 for s in scores)
        plan = plan_given(given, profile, dialect)
        return prepared, SearchResult(plan=plan, scores=scores, is_met=is_met, losses=(), tried=1)
    fine = _needs_finer_forms(prepared, profile, dialect, trials_of(prepared))
    prepared = _with_best_ranges(prepared, profile, dialect, trials_of, progress, fine=fine)
    other = equalized(replace(prepared, statistics=prepared.seen or prepared.statistics), profile, dialect)
    if other is not None:
        progress.step("the same with channels equalized:")
        other = _with_best_ranges(other, profile, dialect, trials_of, progress, fine=fine)
        margins = [_margin(net, profile, dialect, trials_of(net), fine=fine) for net in (prepared, other)]
        is_better = margins[1] > margins[0]
        prepared = other if is_better else prepared
        progress.step(f"channels equalized: {'kept' if is_better else 'not kept'}, {margins[1] - margins[0]:+.3g}")
    planned = _whole(prepared, profile, dialect, fine=False)
    prepared = recovered(request, prepared, planned, dialect, trials_of(prepared), warnings, progress)
    with open_trials(trials_of(prepared)) as trials:
        found = search_budget(
            prepared.index,
            prepared.candidates,
            profile,
            dialect,
            trials,
            measure=units_measure(
                request.sensitivity, prepared.index, prepared.candidates, profile, dialect, trials, progress.step
            ),
            min_int8=request.min_int8,
            on_step=progress.step,
        )
    prepared, found = recovered_again(request, prepared, planned, found, dialect, trials_of(prepared), progress)
    return with_all_photos(prepared, found, dialect, trials_of, progress)


def _with_best_ranges(
    net: Prepared,
    profile: DeviceProfile,
    dialect: Dialect,
    trials_of: Callable[[Prepared], Trials],
    progress: Progress,
    *,
    fine: bool,
) -> Prepared:
    """The ranges under which the net scores best: of whole tensors in the forms that it will need, then of channels."""
    plan = _whole(net, profile, dialect, fine=fine)
    if not any(n.precision == "int8" for n in plan.nodes):
        return net
    with open_trials(trials_of(net)) as trials:
        name, statistics = choose_calibrator(
            net.statistics,
            dialect.activation,
            lambda candidate: worst(trials.scores(plan, candidate)),
            progress.step,
        )
        rounded = _whole(net, profile, dialect, fine=False)
        headroom, statistics = choose_headroom(
            statistics, lambda candidate: worst(trials.scores(rounded, candidate)), progress.step
        )
    return replace(net, statistics=statistics, seen=net.statistics, calibrator=name, headroom=headroom)


def _needs_finer_forms(net: Prepared, profile: DeviceProfile, dialect: Dialect, trials: Trials) -> bool:
    """Everything in the usual INT8 form misses the budget: the plan will hold finer forms too."""
    return _margin(net, profile, dialect, trials, fine=False) < 0


def _margin(net: Prepared, profile: DeviceProfile, dialect: Dialect, trials: Trials, *, fine: bool) -> float:
    """How far the worst output is from its budget with everything in INT8; below 0 when it misses it."""
    with open_trials(trials):
        return worst(trials.scores(_whole(net, profile, dialect, fine=fine))).margin


def _whole(net: Prepared, profile: DeviceProfile, dialect: Dialect, *, fine: bool) -> Plan:
    """Everything in INT8, in the usual form or in the finest."""
    finer = {name: "the finest form" for name in net.candidates.units} if fine else {}
    return plan_nodes(net.index, net.candidates, profile, dialect, kept_float={}, fine=finer)


def _golden(prepared: Prepared, encoded: onnx.ModelProto, exact: bool) -> Golden:
    if prepared.golden is not None:
        samples = tuple(GoldenSample(feed=f, frames={}) for f in prepared.golden.feeds("calibrate"))
        source = "given"
    else:
        first = next(iter(prepared.data.feeds("calibrate")))
        samples, source = synthetic_samples(prepared.inputs, prepared.moments, first), "synthetic"
    fp32 = open_session(prepared.net.proto.SerializeToString(), weights=prepared.net.weights, what="the cleaned net")
    engine = open_session(serialized(encoded, "the encoded graph"), exact_u8s8=exact, what="the encoded graph")
    return make_golden(samples, fp32, engine, source)


def _provenance(request: ConvertRequest, prepared: Prepared, dialect: Dialect) -> dict[str, Any]:
    return {
        "source": prepared.model.source,
        "model_sha256": prepared.model.source_sha256,
        "calibration_sha256": prepared.data.digest,
        "calibrator": prepared.calibrator if prepared.given is None else "none: the scales came with the net",
        "tools": tool_versions(),
        "options": {
            "budget": request.budgets.text or "default",
            **_user_metric(prepared.budgets),
            "dialect": dialect.name,
            "equalized": prepared.is_equalized,
            "channel_headroom": "tensor" if prepared.headroom == float("inf") else prepared.headroom,
            "min_int8": request.min_int8,
            "recover": request.recover,
            **({"minutes": request.minutes} if request.recover == "blocks" else {}),
            "shapes": {n: list(s) for n, s in request.shapes.items()},
        },
    }


def _user_metric(budgets: Mapping[str, Budget]) -> dict[str, Any]:
    """Under "metric", the user's function and the digest of its file, where there is one."""
    user = next((b.user for b in budgets.values() if b.user is not None), None)
    return {} if user is None else {"metric": user.to_json()}


def _verify_and_pack(
    request: ConvertRequest,
    prepared: Prepared,
    contents: Contents,
    found: SearchResult,
    budgets: Mapping[str, Budget],
    histograms: Sequence[Mapping[str, Any]],
    warnings: WarningLog,
    progress: Progress,
) -> Conversion:
    split: Split = "verify" if prepared.data.count("verify") else "calibrate"
    progress.stage("verify", f"{prepared.data.count(split)} files of the {split} split, in a fresh process")
    with tempfile.TemporaryDirectory(prefix="fts-convert-") as folder:
        draft = Path(folder) / f"draft.{request.target}.fts"
        pictures = Path(folder) / "pictures"
        pictures.mkdir()
        quality: dict[str, Any] = {"budget": budgets_text(request.budgets, budgets), "met": False, "metrics": []}
        pack(draft, contents, plan=found.plan, quality=quality, evidence=None, report="{}\n")
        verification = verify_bundle(draft, prepared.data.feeds(split), budgets, pictures)
        plan = as_it_runs(found.plan, verification.kernels)
        failures = missed_conditions(request, found, verification)
        bundle = request.output if not failures else below_budget_name(request.output)
        metrics = metrics_json(found.scores, "select", verification.evidence.tag)
        metrics += metrics_json(verification.scores, split, verification.evidence.tag)
        warn_about(request, plan, found, verification, split, warnings)
        quality = {
            "budget": quality["budget"],
            "met": not failures,
            "failures": list(failures),
            "metrics": metrics,
            "integer_mac_share": round(verification.kernels.integer_mac_share, 6),
        }
        report = report_json(
            target=request.target,
            dialect=contents.dialect.name,
            files=prepared.data.files,
            findings=prepared.findings,
            ranges=prepared.statistics.ranges,
            plan=plan,
            metrics=metrics,
            budget={"text": quality["budget"], "met": not failures, "items": [{"failure": f} for f in failures]},
            integer_mac_share=verification.kernels.integer_mac_share,
            kernels=dict(verification.kernels.kernels),
            losses=found.losses,
            front=found.front,
            histograms=histograms,
            rungs=prepared.rungs,
            sensitivity=found.sensitivity,
            warnings=warnings.lasting_entries,
            given_scales=None if prepared.given is None else prepared.given.count.to_json(),
        )
        progress.stage("pack", bundle.name)
        timings_s = progress.timings_s()
        write = partial(
            pack, contents=contents, plan=plan, quality=quality, evidence=verification.evidence, report=report
        )
        write(draft)  # the page tells of the bundle, and is there before it: the bundle is what comes last
        speed = verification.speed
        with report_folder(bundle, pictures, report=report, timings_s=timings_s, speed=speed) as beside:
            write_report_html(
                beside,
                bundle=draft,
                title=bundle.name,
                arguments=request.arguments,
                timings_s=timings_s,
                warnings=warnings,
            )
            write(bundle)
    return Conversion(
        bundle=bundle,
        failures=failures,
        metrics=tuple(metrics),
        integer_mac_share=verification.kernels.integer_mac_share,
        losses=found.losses,
        front=found.front,
        warnings=warnings.entries,
        speed=speed,
    )

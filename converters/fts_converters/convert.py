"""The flow of a conversion, from a source file to a verified bundle. Read this first.

    load -> decide inputs -> freeze -> clean -> calibration data -> statistics -> decide outputs
         -> search a plan under the budget -> pack a draft -> verify it in a fresh process -> pack

Decisions are values (`InputDecisions`, `Plan`, `SearchResult`); only `Model` changes.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from fts.engines.isa import available_isa
from fts.engines.onnxruntime_session import onnxruntime_version, open_session
from fts.vocabulary.device_profile import DeviceProfile
from fts.vocabulary.dialect import Dialect
from fts.vocabulary.manifest import OutputEntry
from fts.vocabulary.plan import NodePlan, Plan
from fts_calibration.dataset.calibration_set import CalibrationSet, Split
from fts_calibration.dataset.source import open_calibration
from fts_calibration.dataset.splits import deal_splits
from fts_calibration.metrics.budget import Budget, default_budget
from fts_calibration.statistics.input_moments import InputMoments
from fts_calibration.statistics.min_max import collect_min_max
from fts_calibration.statistics.statistics import Statistics, json_from_statistics, statistics_from_json
from fts_converters.cache import StageCache, cache_folder
from fts_converters.card import Card, read_card
from fts_converters.check_equivalent import check_equivalent
from fts_converters.contract import InputContract, InputDecisions, decide_inputs, decide_outputs
from fts_converters.freeze import freeze
from fts_converters.golden import GoldenSample, synthetic_samples
from fts_converters.load import load_model
from fts_converters.lower import lower
from fts_converters.macs import MAC_OPS
from fts_converters.model import Model, model_from_proto, tensor_specs
from fts_converters.pack import Contents, Golden, make_golden, pack, tool_versions
from fts_converters.passes import clean
from fts_converters.passes.name_nodes import name_nodes
from fts_converters.progress import Progress
from fts_converters.quantize.encode_qdq import encode_qdq
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.plan_nodes import channel_tensors, plan_nodes, tensors_to_calibrate
from fts_converters.quantize.search_budget import SearchResult, UnitLoss, search_budget
from fts_converters.quantize.trials import Trials, open_trials
from fts_converters.quantize.units import Candidates, find_candidates, macs_by_node
from fts_converters.report import metrics_json, report_json
from fts_converters.report_folder import below_budget_name, report_folder, require_free_place
from fts_converters.report_html.write import write_report_html
from fts_converters.request import ConvertRequest
from fts_converters.verify import Verification, verify_bundle
from fts_converters.warnings_log import WarningLog
from fts_devices.onnxruntime_cpu.integer_kernels import KernelReport
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
        warnings: (id, text).
    """

    bundle: Path
    failures: tuple[str, ...]
    metrics: tuple[dict[str, Any], ...]
    integer_mac_share: float
    losses: tuple[UnitLoss, ...]
    warnings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Prepared:
    """A cleaned net with its data, statistics and contracts."""

    model: Model
    net: onnx.ModelProto
    inputs: tuple[InputContract, ...]
    outputs: tuple[OutputEntry, ...]
    data: CalibrationSet
    golden: CalibrationSet | None
    index: GraphIndex
    candidates: Candidates
    statistics: Statistics
    moments: Mapping[str, Any]


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
    prepared = _prepare(request, profile, cache, warnings, progress)
    budgets = _budgets(request, prepared.outputs)
    exact = not set(dialect.isa) <= available_isa()
    found = _search(request, prepared, profile, dialect, budgets, exact, cache, progress)
    encoded = encode_qdq(prepared.index, prepared.candidates, found.plan, prepared.statistics, dialect)
    for node, text in encoded.notes:
        warnings.add("weight-scale-enlarged", f"{node!r}: {text}")
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
    return _verify_and_pack(request, prepared, contents, found, budgets, warnings, progress)


def _isa(request: ConvertRequest) -> str:
    if request.isa != "auto":
        return request.isa
    return "vnni" if "vnni" in available_isa() else "any"


def _prepare(
    request: ConvertRequest, profile: DeviceProfile, cache: StageCache, warnings: WarningLog, progress: Progress
) -> _Prepared:
    progress.stage("load", request.source)
    card = read_card(request.card) if request.card is not None else Card()
    model = load_model(request.source)
    specs = tensor_specs(model.to_proto().graph.input)
    decisions = decide_inputs(specs, card, request.preprocessing, request.shapes, warnings)
    data = _open_data(request, decisions.live, warnings)
    golden = _open_golden(request, decisions.live)
    progress.stage("clean", f"{len(model.graph.nodes)} nodes")
    freeze(model, decisions.shapes, decisions.frozen)
    name_nodes(model)  # before it is run: onnxruntime refuses two nodes of one name
    before = _as_it_came(model, decisions)
    clean(model)
    net = model.to_proto()
    sample = next(iter(data.feeds("calibrate")))
    check_equivalent(before, net, sample, what=model.source)
    index = GraphIndex(_lowered(net, request.target, model, warnings))
    check_equivalent(net, index.model, sample, what=f"{model.source}, lowered for {request.target}")
    # MACs are those of the net as cleaned: what a lowering adds to get there (taps of zeros) is nobody's work.
    candidates = replace(find_candidates(index, profile), macs=macs_by_node(GraphIndex(net)))
    progress.stage("calibrate", f"{data.count('calibrate')} files, {len(index.model.graph.node)} nodes")
    statistics, moments = _statistics(index, candidates, decisions.live, data, cache, progress)
    output_specs = tensor_specs(index.model.graph.output)
    outputs = decide_outputs(output_specs, card, decisions.live, statistics.ranges, warnings)
    return _Prepared(
        model=model,
        net=net,
        inputs=decisions.live,
        outputs=outputs,
        data=data,
        golden=golden,
        index=index,
        candidates=candidates,
        statistics=statistics,
        moments=moments,
    )


def _lowered(net: onnx.ModelProto, target: str, model: Model, warnings: WarningLog) -> onnx.ModelProto:
    """The cleaned net in the form that the target's engine takes best."""
    copy = model_from_proto(net, source=model.source, source_sha256=model.source_sha256)
    for name, refusal in lower(copy, target):
        warnings.add("not-lowered", f"{name}: {refusal.node!r} stays as it is: {refusal.reason}")
    return copy.to_proto()


def _as_it_came(model: Model, decisions: InputDecisions) -> onnx.ModelProto:
    """The frozen net in the opset of its file: what all later forms of it are compared with."""
    if model.original is None:
        return model.to_proto()
    original = model_from_proto(model.original, source=model.source, source_sha256=model.source_sha256)
    freeze(original, decisions.shapes, decisions.frozen)
    name_nodes(original)
    return original.to_proto()


def _open_data(request: ConvertRequest, inputs: Sequence[InputContract], warnings: WarningLog) -> CalibrationSet:
    requests = [i.to_request() for i in inputs]
    calibration = open_calibration(request.calib, requests)
    holdout = None if request.holdout is None else open_calibration(request.holdout, requests, flag="--holdout")
    data = deal_splits(calibration, holdout=holdout, all_calibrate=request.is_budget_none)
    for record in data.notable:
        warnings.add("calibration-file-skipped", f"{record.path}: {record.reason}")
    return data


def _open_golden(request: ConvertRequest, inputs: Sequence[InputContract]) -> CalibrationSet | None:
    if request.golden is None:
        return None
    opened = open_calibration(request.golden, [i.to_request() for i in inputs], flag="--golden")
    return deal_splits(opened, all_calibrate=True)


def _statistics(
    index: GraphIndex,
    candidates: Candidates,
    inputs: Sequence[InputContract],
    data: CalibrationSet,
    cache: StageCache,
    progress: Progress,
) -> tuple[Statistics, Mapping[str, Any]]:
    outputs = [o.name for o in index.model.graph.output if index.dtype(o.name) == "float32"]
    tensors = tensors_to_calibrate(candidates.units.values(), index, outputs)
    key = {
        "stage": "min-max, 3",
        "net": hashlib.sha256(index.model.SerializeToString(deterministic=True)).hexdigest(),
        "data": _feeds_digest(data, inputs),
        "tensors": list(tensors),
        "onnxruntime": onnxruntime_version(),
    }
    ranks = channel_tensors(candidates.units.values(), index)
    known = cache.get(key)
    if known is None:
        axes = {i.spec.name: 1 if i.preprocessing.layout == "nchw" else 3 for i in inputs if i.preprocessing}
        moments = InputMoments(axes)
        feeds = moments.tap(data.feeds("calibrate"))
        statistics = collect_min_max(index.model, feeds, tensors, ranks, on_sample=progress.sample)
        known = {"statistics": json_from_statistics(statistics), "moments": moments.to_json()}
        cache.put(key, known)
    return statistics_from_json(known["statistics"]), known["moments"]


def _feeds_digest(data: CalibrationSet, inputs: Sequence[InputContract]) -> str:
    """sha256 over all that feeds depend on: contents and splits, what is done to pictures, the libraries that do it."""
    parts = [data.digest, [repr(i.preprocessing) for i in inputs], tool_versions()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _budgets(request: ConvertRequest, outputs: Sequence[OutputEntry]) -> dict[str, Budget]:
    """The budget that each output is held against; with `--budget none` the defaults only choose the metric shown."""
    return {o.name: request.budget or default_budget(o.kind) for o in outputs}


def _search(
    request: ConvertRequest,
    prepared: _Prepared,
    profile: DeviceProfile,
    dialect: Dialect,
    budgets: Mapping[str, Budget],
    exact: bool,
    cache: StageCache,
    progress: Progress,
) -> SearchResult:
    if request.is_budget_none:
        plan = plan_nodes(prepared.index, prepared.candidates, profile, dialect, kept_float={})
        return SearchResult(plan=plan, scores=(), is_met=True, losses=(), tried=0)
    progress.stage("search", f"{_budget_text(request, budgets)} on {prepared.data.count('select')} files")
    trials = Trials(
        index=prepared.index,
        candidates=prepared.candidates,
        statistics=prepared.statistics,
        dialect=dialect,
        feeds=lambda: prepared.data.feeds("select"),
        split_digest=_feeds_digest(prepared.data, prepared.inputs),
        budgets=budgets,
        exact_u8s8=exact,
        cache=cache,
    )
    with open_trials(trials):
        return search_budget(
            prepared.index,
            prepared.candidates,
            profile,
            dialect,
            trials,
            min_int8=request.min_int8,
            on_step=progress.step,
        )


def _golden(prepared: _Prepared, encoded: onnx.ModelProto, exact: bool) -> Golden:
    if prepared.golden is not None:
        samples = tuple(GoldenSample(feed=f, frames={}) for f in prepared.golden.feeds("calibrate"))
        source = "given"
    else:
        first = next(iter(prepared.data.feeds("calibrate")))
        samples, source = synthetic_samples(prepared.inputs, prepared.moments, first), "synthetic"
    fp32 = open_session(prepared.net.SerializeToString(), what="the cleaned net")
    engine = open_session(encoded.SerializeToString(), exact_u8s8=exact, what="the encoded graph")
    return make_golden(samples, fp32, engine, source)


def _provenance(request: ConvertRequest, prepared: _Prepared, dialect: Dialect) -> dict[str, Any]:
    return {
        "source": prepared.model.source,
        "model_sha256": prepared.model.source_sha256,
        "calibration_sha256": prepared.data.digest,
        "calibrator": "min-max",
        "tools": tool_versions(),
        "options": {
            "budget": request.budget_text or "default",
            "dialect": dialect.name,
            "min_int8": request.min_int8,
            "shapes": {n: list(s) for n, s in request.shapes.items()},
        },
    }


def _verify_and_pack(
    request: ConvertRequest,
    prepared: _Prepared,
    contents: Contents,
    found: SearchResult,
    budgets: Mapping[str, Budget],
    warnings: WarningLog,
    progress: Progress,
) -> Conversion:
    split: Split = "verify" if prepared.data.count("verify") else "calibrate"
    progress.stage("verify", f"{prepared.data.count(split)} files of the {split} split, in a fresh process")
    with tempfile.TemporaryDirectory(prefix="fts-convert-") as folder:
        draft = Path(folder) / f"draft.{request.target}.fts"
        pictures = Path(folder) / "pictures"
        pictures.mkdir()
        quality: dict[str, Any] = {"budget": _budget_text(request, budgets), "met": False, "metrics": []}
        pack(draft, contents, plan=found.plan, quality=quality, evidence=None, report="{}\n")
        verification = verify_bundle(draft, prepared.data.feeds(split), budgets, pictures)
        plan = _as_it_runs(found.plan, verification.kernels)
        failures = _failures(request, found, verification)
        bundle = request.output if not failures else below_budget_name(request.output)
        metrics = metrics_json(found.scores, "select", verification.evidence.tag)
        metrics += metrics_json(verification.scores, split, verification.evidence.tag)
        _warn_about(request, plan, found, verification, split, warnings)
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
            ranges=prepared.statistics.ranges,
            plan=plan,
            metrics=metrics,
            budget={"text": quality["budget"], "met": not failures, "items": [{"failure": f} for f in failures]},
            integer_mac_share=verification.kernels.integer_mac_share,
            kernels=dict(verification.kernels.kernels),
            losses=found.losses,
            warnings=warnings.entries,
        )
        progress.stage("pack", bundle.name)
        timings_s = progress.timings_s()
        write = partial(
            pack, contents=contents, plan=plan, quality=quality, evidence=verification.evidence, report=report
        )
        write(draft)  # the page tells of the bundle, and is there before it: the bundle is what comes last
        with report_folder(bundle, pictures, report=report, timings_s=timings_s) as beside:
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
        warnings=warnings.entries,
    )


def _budget_text(request: ConvertRequest, budgets: Mapping[str, Budget]) -> str:
    if request.budget_text:
        return request.budget_text
    return ", ".join(sorted({f"{b} (default)" for b in budgets.values()}))


def _as_it_runs(plan: Plan, kernels: KernelReport) -> Plan:
    """The plan with every node that ONNX Runtime runs in float after all marked so."""
    not_taken = set(kernels.float_nodes)

    def as_run(node: NodePlan) -> NodePlan:
        if node.precision != "int8" or node.name not in not_taken:
            return node
        reason = "encoded for INT8, but onnxruntime makes no integer kernel of it: it runs in float"
        return replace(node, precision="fp32", reason=reason)

    return replace(plan, nodes=tuple(as_run(n) for n in plan.nodes))


def _failures(request: ConvertRequest, found: SearchResult, verification: Verification) -> tuple[str, ...]:
    failures = []
    if not request.is_budget_none:
        for split, scores in (("select", found.scores), ("verify", verification.scores)):
            failures += [
                f"output {s.output!r}: {s.budget} missed on the {split} split: {s.budget.figure(s.value)} (n = {len(s.values)})"
                for s in scores
                if s.margin < 0
            ]
    share = verification.kernels.integer_mac_share
    if share < request.min_int8 and not any(n.macs for n in found.plan.nodes):
        failures.append(
            f"the net has no {', '.join(sorted(MAC_OPS))} outside of If and Loop, so none of it runs in integer kernels, "
            f"{request.min_int8:.0%} of the MACs wanted (--min-int8 0 accepts that)"
        )
    elif share < request.min_int8:
        failures.append(f"{share:.1%} of the MACs run in integer kernels, {request.min_int8:.0%} wanted (--min-int8)")
    return tuple(failures)


def _warn_about(
    request: ConvertRequest,
    plan: Plan,
    found: SearchResult,
    verification: Verification,
    split: str,
    warnings: WarningLog,
) -> None:
    planned = {n.name for n in found.plan.nodes if n.precision == "int8"}
    lost = [n.name for n in plan.nodes if n.precision != "int8" and n.name in planned]
    if lost:
        warnings.add("not-int8-after-all", f"onnxruntime runs these in float although encoded: {', '.join(lost[:10])}")
    if not any(n.precision == "int8" for n in plan.nodes):
        warnings.add("nothing-int8", "no node of the net runs in INT8; the report says why for each")
    if split != "verify":
        warnings.add("not-verified", "no file was left to verify on: the metrics are those of the calibration files")
    if request.is_budget_none:
        low = [s for s in verification.scores if s.margin < 0]
        for s in low:
            warnings.add(
                "quality-low",
                f"output {s.output!r}: {s.budget.metric} {s.budget.figure(s.value)}, and --budget none lets it pass",
            )


__all__ = ["Conversion", "convert"]

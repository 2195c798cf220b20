"""First half of a conversion: from a source and its data to a cleaned net with statistics and contracts.

load -> decide inputs -> open data -> freeze -> clean -> lower -> statistics -> decide outputs and budgets
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx

from fts.engines.onnxruntime_session import onnxruntime_version
from fts.vocabulary.device_profile import DeviceProfile
from fts.vocabulary.manifest import OutputEntry
from fts_calibration.audit.finding import Finding
from fts_calibration.dataset.calibration_set import CalibrationSet
from fts_calibration.dataset.source import open_calibration
from fts_calibration.dataset.splits import deal_splits
from fts_calibration.metrics.budget import Budget
from fts_calibration.recovery.weight_update import WeightUpdate
from fts_calibration.statistics.collect import Collector
from fts_calibration.statistics.input_moments import InputMoments
from fts_calibration.statistics.statistics import Statistics, statistics_from_json
from fts_converters.audit_data import findings_with_net, open_audited, warn_of_findings
from fts_converters.cache import StageCache
from fts_converters.card import Card, read_card
from fts_converters.check_equivalent import check_equivalent
from fts_converters.check_widened import check_widened
from fts_converters.contract import InputContract, InputDecisions, decide_inputs, decide_outputs
from fts_converters.decide_budgets import decide_budgets, refuse_misfits, with_measured_best
from fts_converters.freeze import freeze
from fts_converters.given_grids.clean_given import cleaned_given, kept_text
from fts_converters.given_grids.take_over import GivenNet, holds_grids
from fts_converters.light_proto import LightProto, light_from_proto
from fts_converters.load import load_model
from fts_converters.lower import lower
from fts_converters.model import Model, model_from_light, tensor_specs
from fts_converters.pack import refuse_larger_than_bundle, tool_versions
from fts_converters.passes import check_pass_names, clean
from fts_converters.passes.name_nodes import name_nodes
from fts_converters.progress import Progress
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.plan_nodes import channel_tensors, tensors_to_calibrate
from fts_converters.quantize.units import Candidates, find_candidates, macs_by_node
from fts_converters.recover.ladder import Rung
from fts_converters.refuse_loops import refuse_loops
from fts_converters.request import ConvertRequest
from fts_converters.resumable_statistics import collect_resumable
from fts_converters.warnings_log import WarningLog

# More are the columns of a flattened picture, whose bounds one by one would fill the cache and say little.
MOST_CHANNELS = 16384


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A cleaned net with its data, statistics and contracts."""

    model: Model
    net: LightProto
    inputs: tuple[InputContract, ...]
    outputs: tuple[OutputEntry, ...]
    data: CalibrationSet
    golden: CalibrationSet | None
    index: GraphIndex
    candidates: Candidates
    statistics: Statistics
    moments: Mapping[str, Any]
    findings: tuple[Finding, ...]
    budgets: Mapping[str, Budget]
    given: GivenNet | None = None
    is_equalized: bool = False
    calibrator: str = "min-max"
    headroom: float = 1.0
    seen: Statistics | None = None
    update: WeightUpdate = WeightUpdate.NONE
    rungs: tuple[Rung, ...] = ()


def prepare(
    request: ConvertRequest, profile: DeviceProfile, cache: StageCache, warnings: WarningLog, progress: Progress
) -> Prepared:
    """Do all that a search for a plan needs.

    Args:
        request: What the user asked for.
        profile: Target.
        cache: Remembers statistics.
        warnings: Told of defaults, skipped files and what was left alone.
        progress: Told of the stages.

    Raises:
        FtsError: Wrong input; nothing was written.
        CleaningChangedTheNet: A defect of fts.
    """
    check_pass_names(request.skip_passes)
    progress.stage("load", request.source)
    card = read_card(request.card) if request.card is not None else Card()
    model = load_model(request.source)
    specs = tensor_specs(model.to_light().proto.graph.input)
    decisions = decide_inputs(specs, card, request.preprocessing, request.shapes, warnings)
    data, findings = _open_data(request, decisions.live, warnings)
    golden = _open_golden(request, decisions.live)
    progress.stage("clean", f"{len(model.graph.nodes)} nodes")
    freeze(model, decisions.shapes, decisions.frozen)
    name_nodes(model)  # before it is run: onnxruntime refuses two nodes of one name
    sample = next(iter(data.feeds("calibrate")))
    before = _as_loaded(model, decisions, sample, warnings)
    for name in sorted(set(request.skip_passes)):
        warnings.add("pass-skipped", f"{name}: left out by --skip-pass")
    if holds_grids(model):
        given = cleaned_given(model, before, sample, skip=request.skip_passes)
        portable = onnx.ModelProto()
        portable.CopyFrom(given.portable)
        net = light_from_proto(portable)
        refuse_larger_than_bundle(net, model.source)
        index = GraphIndex(net.proto, net.weights)
        warnings.add("given-scales-kept", kept_text(given))
    else:
        given = None
        cleaned = clean(model, skip=request.skip_passes)
        refuse_loops(model, cleaned, engine=profile.engine)
        net = model.to_light()
        refuse_larger_than_bundle(net, model.source)
        check_equivalent(before, net, sample, what=model.source)
        lowered = _lowered(net, request.target, model, warnings)
        index = GraphIndex(lowered.proto, lowered.weights)
        check_equivalent(net, index.net, sample, what=f"{model.source}, lowered for {request.target}")
    model.original = None
    # MACs are those of the net as cleaned: what a lowering adds to get there (taps of zeros) is nobody's work.
    found = find_candidates(index, profile) if given is None else Candidates(units={}, reasons={}, macs={})
    candidates = replace(found, macs=macs_by_node(GraphIndex(net.proto)))
    output_specs = tensor_specs(index.model.graph.output)
    refuse_misfits(request.budgets, card, output_specs)
    asked = with_measured_best(request.budgets, index.net, sample)
    progress.stage("calibrate", f"{data.count('calibrate')} files, {len(index.model.graph.node)} nodes")
    seen = _statistics(index, candidates, decisions.live, data, cache, progress)
    findings += findings_with_net(before.whole(model.source), decisions.live, data, seen.parts)
    del before  # it holds weights that the cleaned net no longer has
    warn_of_findings(findings, warnings)
    ranges = {**seen.statistics.ranges, **{o: seen.statistics.ranges[x] for o, x in _cast_outputs(index).items()}}
    outputs = decide_outputs(output_specs, card, decisions.live, ranges, warnings)
    return Prepared(
        model=model,
        net=net,
        inputs=decisions.live,
        outputs=outputs,
        data=data,
        golden=golden,
        index=index,
        candidates=candidates,
        statistics=seen.statistics,
        moments=seen.moments,
        findings=findings,
        budgets=decide_budgets(asked, card, outputs),
        given=given,
    )


def _lowered(net: LightProto, target: str, model: Model, warnings: WarningLog) -> LightProto:
    """The cleaned net in the form that the target's engine takes best."""
    copy = model_from_light(net, source=model.source, source_sha256=model.source_sha256)
    for name, refusal in lower(copy, target):
        warnings.add("not-lowered", f"{name}: {refusal.node!r} stays as it is: {refusal.reason}")
    return copy.to_light()


def _as_loaded(model: Model, decisions: InputDecisions, sample: Mapping[str, Any], warnings: WarningLog) -> LightProto:
    """What cleaning is compared with. Wider types round differently, so that they are a comparison of their own."""
    for reason in model.left_alone:
        warnings.add("not-widened", reason)
    before = _as_it_came(model, decisions)
    if not model.is_widened:
        return before
    widened = model.to_light()
    if model.original is not None:
        forms = before.whole(model.source), widened.whole(model.source)
        if reason := check_widened(*forms, sample, what=model.source):
            warnings.add("not-compared", reason)
    return widened


def _as_it_came(model: Model, decisions: InputDecisions) -> LightProto:
    """The frozen net in the opset of its file: what all later forms of it are compared with."""
    if model.original is None:
        return model.to_light()
    original = model_from_light(model.original, source=model.source, source_sha256=model.source_sha256)
    freeze(original, decisions.shapes, decisions.frozen)
    name_nodes(original)
    return original.to_light()


def _open_data(
    request: ConvertRequest, inputs: Sequence[InputContract], warnings: WarningLog
) -> tuple[CalibrationSet, tuple[Finding, ...]]:
    requests = [i.to_request() for i in inputs]
    audited = open_audited(request, inputs)
    holdout = None if request.holdout is None else open_calibration(request.holdout, requests, flag="--holdout")
    data = deal_splits(audited.data, holdout=holdout, all_calibrate=request.is_budget_none)
    for record in data.notable:
        warnings.add("calibration-file-skipped", f"{record.path}: {record.reason}")
    return data, audited.findings


def _open_golden(request: ConvertRequest, inputs: Sequence[InputContract]) -> CalibrationSet | None:
    if request.golden is None:
        return None
    opened = open_calibration(request.golden, [i.to_request() for i in inputs], flag="--golden")
    return deal_splits(opened, all_calibrate=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What one pass over the calibrate split gives."""

    statistics: Statistics
    moments: Mapping[str, Any]
    parts: Mapping[str, Any]


def _statistics(
    index: GraphIndex,
    candidates: Candidates,
    inputs: Sequence[InputContract],
    data: CalibrationSet,
    cache: StageCache,
    progress: Progress,
) -> _Seen:
    outputs = [o.name for o in index.model.graph.output if index.dtype(o.name) == "float32"]
    outputs += sorted(_cast_outputs(index).values())
    tensors = tensors_to_calibrate(candidates.units.values(), index, outputs)
    # By channel where an encoding may have one grid a channel, and where channels may be scaled.
    own_grids = frozenset(channel_tensors(candidates.units.values(), index))
    shapes = {name: index.shape(name) or () for name in tensors}
    by_channel = [n for n, s in shapes.items() if n in own_grids or (len(s) >= 2 and s[1] <= MOST_CHANNELS)]
    key = {
        "stage": "statistics, 6",
        "net": index.net.sha256(),
        "data": feeds_digest(data, inputs),
        "tensors": list(tensors),
        "by_channel": by_channel,
        "onnxruntime": onnxruntime_version(),
    }
    known = cache.get(key)
    if known is None:
        axes = {i.spec.name: 1 if i.preprocessing.layout == "nchw" else 3 for i in inputs if i.preprocessing}
        collector = Collector(index.model, tensors, by_channel, weights=index.weights)
        known = collect_resumable(collector, InputMoments(axes), data, cache, key, progress)
    return _Seen(statistics=statistics_from_json(known["statistics"]), moments=known["moments"], parts=known["parts"])


def _cast_outputs(index: GraphIndex) -> dict[str, str]:
    """Outputs of other float types, with the float32 tensor that is cast to them: its range is theirs."""
    found = {}
    for output in index.model.graph.output:
        node = index.producers.get(output.name)
        is_cast = node is not None and node.op_type == "Cast" and index.dtype(output.name) in ("float16", "float64")
        if (
            node is not None
            and is_cast
            and index.dtype(node.input[0]) == "float32"
            and not index.is_constant(node.input[0])
        ):
            found[output.name] = node.input[0]
    return found


def feeds_digest(data: CalibrationSet, inputs: Sequence[InputContract]) -> str:
    """sha256 over all that feeds depend on: contents and splits, what is done to pictures, the libraries that do it."""
    parts = [data.digest, [repr(i.preprocessing) for i in inputs], tool_versions()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

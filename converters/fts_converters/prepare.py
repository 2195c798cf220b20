"""First half of a conversion: from a source and its data to a cleaned net with statistics and contracts.

load -> decide inputs -> open data -> freeze -> clean -> lower -> statistics -> decide outputs
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
from fts_calibration.dataset.calibration_set import CalibrationSet
from fts_calibration.dataset.source import open_calibration
from fts_calibration.dataset.splits import deal_splits
from fts_calibration.statistics.input_moments import InputMoments
from fts_calibration.statistics.min_max import collect_min_max
from fts_calibration.statistics.statistics import Statistics, json_from_statistics, statistics_from_json
from fts_converters.cache import StageCache
from fts_converters.card import Card, read_card
from fts_converters.check_equivalent import check_equivalent
from fts_converters.contract import InputContract, InputDecisions, decide_inputs, decide_outputs
from fts_converters.freeze import freeze
from fts_converters.load import load_model
from fts_converters.lower import lower
from fts_converters.model import Model, model_from_proto, tensor_specs
from fts_converters.pack import tool_versions
from fts_converters.passes import check_pass_names, clean
from fts_converters.passes.name_nodes import name_nodes
from fts_converters.progress import Progress
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.plan_nodes import channel_tensors, tensors_to_calibrate
from fts_converters.quantize.units import Candidates, find_candidates, macs_by_node
from fts_converters.refuse_loops import refuse_loops
from fts_converters.request import ConvertRequest
from fts_converters.warnings_log import WarningLog


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
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
    specs = tensor_specs(model.to_proto().graph.input)
    decisions = decide_inputs(specs, card, request.preprocessing, request.shapes, warnings)
    data = _open_data(request, decisions.live, warnings)
    golden = _open_golden(request, decisions.live)
    progress.stage("clean", f"{len(model.graph.nodes)} nodes")
    freeze(model, decisions.shapes, decisions.frozen)
    name_nodes(model)  # before it is run: onnxruntime refuses two nodes of one name
    before = _as_it_came(model, decisions)
    cleaned = clean(model, skip=request.skip_passes)
    for name in sorted(set(request.skip_passes)):
        warnings.add("pass-skipped", f"{name}: left out by --skip-pass")
    refuse_loops(model, cleaned, engine=profile.engine)
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
    return Prepared(
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
        "data": feeds_digest(data, inputs),
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


def feeds_digest(data: CalibrationSet, inputs: Sequence[InputContract]) -> str:
    """sha256 over all that feeds depend on: contents and splits, what is done to pictures, the libraries that do it."""
    parts = [data.digest, [repr(i.preprocessing) for i in inputs], tool_versions()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

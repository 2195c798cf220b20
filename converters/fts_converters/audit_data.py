"""The audit of the calibration data inside a conversion: when each part of it runs, and where its findings go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import onnx

from fts_calibration.audit.activation_divergence import activation_divergences, check_activation_divergence
from fts_calibration.audit.audit_set import audit_set
from fts_calibration.audit.boxes_json import read_boxes
from fts_calibration.audit.contract import check_contract
from fts_calibration.audit.detect_faces import installed_detector
from fts_calibration.audit.finding import Finding
from fts_calibration.audit.select_covering import with_selection
from fts_calibration.audit.stable_ranges import check_stable_ranges
from fts_calibration.audit.watch import LookTaker
from fts_calibration.dataset.calibration_set import CalibrationSet
from fts_calibration.dataset.source import open_calibration
from fts_calibration.statistics.statistics import TensorRange
from fts_converters.contract import InputContract
from fts_converters.request import ConvertRequest
from fts_converters.warnings_log import WarningLog

_DIVERGENCE_SAMPLES = 16  # histograms of 128 bins are full after a few pictures


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Audited:
    """A calibration set before its splits are dealt, and what was found in it."""

    data: CalibrationSet
    findings: tuple[Finding, ...]


def open_audited(request: ConvertRequest, inputs: Sequence[InputContract]) -> Audited:
    """Open `--calib`, choose from it under `--select`, look at all of it once.

    Raises:
        CalibrationError: As `open_calibration`, `read_boxes` and `with_selection`.
        MissingDependencyError: `--faces detect` without its extra.
    """
    requests = [i.to_request() for i in inputs]
    boxes = None if request.faces is None else read_boxes(request.faces)
    taken = LookTaker(requests, boxes, installed_detector().faces if request.detects_faces else None)
    data = open_calibration(request.calib, requests, watcher=taken)
    selected: tuple[Finding, ...] = ()
    if request.select is not None:
        data, note = with_selection(data, taken, request.select)
        selected = (note,)
    return Audited(data=data, findings=(*selected, *audit_set(data, taken)))


def findings_with_net(
    before: onnx.ModelProto, inputs: Sequence[InputContract], data: CalibrationSet, parts: Mapping[str, Any]
) -> tuple[Finding, ...]:
    """What the net adds: whether its batch norms agree with the contract, and whether there are enough photos.

    Args:
        before: The net as it came, batch norms in place.
        inputs: Live inputs.
        data: The set, with its splits.
        parts: What `PartRanges` says of the calibrate split.
    """
    found: list[Finding] = []
    for image in inputs:
        if image.preprocessing is not None:
            found += check_contract(before, image.spec.name, image.preprocessing, data.feeds("calibrate"))
    return (*found, *check_stable_ranges(parts))


def findings_after_encoding(
    request: ConvertRequest,
    fp32: onnx.ModelProto,
    int8: onnx.ModelProto,
    ranges: Mapping[str, TensorRange],
    data: CalibrationSet,
    *,
    exact_u8s8: bool,
) -> tuple[Finding, ...]:
    """How far INT8 moves activations, for face nets."""
    if not request.is_face_net:
        return ()
    feeds = islice(data.feeds("calibrate"), _DIVERGENCE_SAMPLES)
    moved = activation_divergences(fp32, int8, ranges, feeds, exact_u8s8=exact_u8s8)
    return tuple(check_activation_divergence(moved))


def warn_of_findings(findings: Iterable[Finding], warnings: WarningLog) -> None:
    """Errors and warnings, one line each; notes stand in the report alone."""
    for finding in findings:
        if finding.severity != "note":
            warnings.add(finding.id, f"calibration data: {finding.message}. {finding.fix}")

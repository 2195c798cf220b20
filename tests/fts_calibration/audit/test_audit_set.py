"""The audit against the sets that were made before it: the right id on every bad one, none on a good one, no other."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import onnx
import pytest
from tests.generators.calibration_sets.bad_sets import BAD_SETS
from tests.generators.calibration_sets.case import Case
from tests.generators.calibration_sets.good_sets import GOOD_SETS
from tests.generators.calibration_sets.trained_net import trained_net

from fts.errors import CalibrationError
from fts.vocabulary.preprocessing import Preprocessing
from fts_calibration.audit.audit_set import audit_set
from fts_calibration.audit.boxes_json import read_boxes
from fts_calibration.audit.contract import check_contract
from fts_calibration.audit.finding import Finding
from fts_calibration.audit.stable_ranges import PartRanges, check_stable_ranges
from fts_calibration.audit.watch import LookTaker
from fts_calibration.dataset.calibration_set import CalibrationSet
from fts_calibration.dataset.source import open_calibration
from fts_calibration.dataset.splits import deal_splits
from fts_calibration.statistics.collect import collect_statistics

TENSORS = ("x", "a", "c", "d", "f", "y")  # of the trained net


@lru_cache
def net_for(pre: Preprocessing) -> onnx.ModelProto:
    return trained_net(pre)


def findings_of(case: Case, folder: Path) -> list[Finding]:
    path = case.write(folder)
    taken = LookTaker([case.request], read_boxes(folder / "boxes.json") if case.has_faces else None)
    data = open_calibration(str(path), [case.request], watcher=taken)
    found = list(audit_set(data, taken))
    return found if case.net is None else found + findings_with(net_for(case.net), case, data)


def findings_with(net: onnx.ModelProto, case: Case, data: CalibrationSet) -> list[Finding]:
    whole = deal_splits(data, all_calibrate=True)
    parts = PartRanges()
    collect_statistics(net, whole.feeds("calibrate"), TENSORS, on_bounds=parts.add)
    return [*check_contract(net, "x", case.declared, whole.feeds("calibrate")), *check_stable_ranges(parts.to_json())]


def warned(findings: list[Finding]) -> dict[str, str]:
    return {f.id: f.message for f in findings if f.severity != "note"}


@pytest.mark.parametrize("case", [c for c in BAD_SETS if not c.is_refused], ids=lambda case: case.name)
def test_a_bad_set_is_flagged_with_its_id_and_with_no_other(case: Case, tmp_path: Path) -> None:
    found = warned(findings_of(case, tmp_path))
    assert case.expected <= set(found), found
    assert not set(found) - case.expected - case.allowed, found


@pytest.mark.parametrize("case", [c for c in BAD_SETS if c.is_refused], ids=lambda case: case.name)
def test_a_set_that_cannot_be_used_is_refused_with_its_id(case: Case, tmp_path: Path) -> None:
    (finding_id,) = case.expected
    with pytest.raises(CalibrationError, match=rf"^\[{finding_id}\] f\d+\.npz, key 'x': found \d NaN or infinite"):
        findings_of(case, tmp_path)


@pytest.mark.parametrize("case", GOOD_SETS, ids=lambda case: case.name)
def test_a_good_set_is_not_flagged(case: Case, tmp_path: Path) -> None:
    assert warned(findings_of(case, tmp_path)) == {}


def test_a_net_that_was_trained_otherwise_is_the_only_difference_between_flagged_and_not(tmp_path: Path) -> None:
    case = next(c for c in BAD_SETS if c.name == "net wants BGR")
    taken = LookTaker([case.request])
    data = open_calibration(str(case.write(tmp_path)), [case.request], watcher=taken)
    assert warned(findings_with(net_for(case.declared), case, data)) == {}
    (message,) = warned(findings_with(net_for(case.net or case.declared), case, data)).values()
    assert "BGR" in message

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fts.errors import CalibrationError
from fts_calibration.dataset.calibration_set import CalibrationSet, FileRecord, Sample
from fts_calibration.dataset.source import open_calibration
from fts_calibration.dataset.splits import deal_splits


def set_of(count: int, prefix: str = "a") -> CalibrationSet:
    samples = [
        Sample(record=FileRecord(path=f"{prefix}{i}", status="used", sha256=f"{prefix}{i:04d}"), read=lambda: iter(()))
        for i in range(count)
    ]
    return CalibrationSet(path=f"{prefix}/", samples=tuple(samples), unused=())


def splits_of(dealt: CalibrationSet) -> list[str]:
    return [record.split for record in dealt.files]


def test_files_are_dealt_calibrate_calibrate_select_verify_in_turn():
    turn = ["calibrate", "calibrate", "select", "verify"]
    assert splits_of(deal_splits(set_of(10))) == turn + turn + turn[:2]


def test_beside_a_holdout_files_are_dealt_calibrate_calibrate_select():
    dealt = deal_splits(set_of(7), holdout=set_of(2, "h"))
    turn = ["calibrate", "calibrate", "select"]
    assert splits_of(dealt) == [*turn, *turn, "calibrate", "verify", "verify"]
    assert [record.path for record in dealt.files if record.split == "verify"] == ["h0", "h1"]


@given(count=st.integers(4, 80))
@settings(deadline=None)
def test_every_file_has_one_split_and_half_of_them_calibrate(count):
    dealt = deal_splits(set_of(count))
    counts = {split: dealt.count(split) for split in ("calibrate", "select", "verify")}
    assert sum(counts.values()) == count
    assert min(counts.values()) >= 1
    assert count / 2 <= counts["calibrate"] <= count / 2 + 1


@pytest.mark.parametrize(("count", "holdout", "least"), [(3, None, 4), (1, None, 4), (2, 2, 3)])
def test_too_few_files_are_counted_beside_what_is_needed(count, holdout, least):
    held = None if holdout is None else set_of(holdout, "h")
    with pytest.raises(CalibrationError) as caught:
        deal_splits(set_of(count), holdout=held)
    assert f"--calib a/: found {count} usable files of different content, expected at least {least}" in str(
        caught.value
    )
    assert "--budget none" in str(caught.value)
    assert caught.value.exit_code == 2


def test_the_least_numbers_are_enough():
    assert splits_of(deal_splits(set_of(4))) == ["calibrate", "calibrate", "select", "verify"]
    assert splits_of(deal_splits(set_of(3), holdout=set_of(1, "h")))[-1] == "verify"


@pytest.mark.parametrize("count", [1, 2, 9])
def test_under_budget_none_all_calibrate(count):
    assert splits_of(deal_splits(set_of(count), all_calibrate=True)) == ["calibrate"] * count


def test_a_duplicate_has_the_split_of_its_twin(sets, tmp_path):
    folder = sets.folder(tmp_path / "c", 4)
    for file in sorted(folder.iterdir()):
        (folder / f"z_{file.name}").write_bytes(file.read_bytes())
    dealt = deal_splits(open_calibration(str(folder), [sets.image()]))
    by_name = {record.path: record for record in dealt.files}
    assert {record.split for record in dealt.files} == {"calibrate", "select", "verify"}
    for name, record in by_name.items():
        if name.startswith("z_"):
            assert (record.status, record.split) == ("duplicate", by_name[name[2:]].split)


def test_duplicates_do_not_help_to_reach_the_least_number(sets, tmp_path):
    folder = sets.folder(tmp_path / "c", 3)
    (folder / "again.png").write_bytes((folder / "img_000.png").read_bytes())
    with pytest.raises(CalibrationError, match="found 3 usable files"):
        deal_splits(open_calibration(str(folder), [sets.image()]))


def test_a_holdout_file_that_is_in_the_calibration_set_too_is_named(sets, tmp_path):
    calib = sets.folder(tmp_path / "calib", 4)
    holdout = sets.folder(tmp_path / "holdout", 2, first_seed=100)
    (holdout / "leak.png").write_bytes((calib / "img_002.png").read_bytes())
    opened = [open_calibration(str(folder), [sets.image()]) for folder in (calib, holdout)]
    with pytest.raises(CalibrationError, match=re.escape("leak.png = img_002.png")) as caught:
        deal_splits(opened[0], holdout=opened[1])
    assert f"--holdout {holdout}" in str(caught.value)
    assert f"--calib {calib}" in str(caught.value)


def test_feeds_of_a_split_are_those_of_its_files(sets, tmp_path):
    dealt = deal_splits(open_calibration(str(sets.folder(tmp_path / "c", 8)), [sets.image()]))
    for split, count in (("calibrate", 4), ("select", 2), ("verify", 2)):
        assert dealt.count(split) == count
        assert len(list(dealt.feeds(split))) == count


def test_the_digest_follows_contents_splits_and_card_values(sets, tmp_path):
    folder = sets.folder(tmp_path / "c", 5)
    requests = [sets.image(), sets.tensor(values=[[1, 2, 3, 4]])]
    undealt = open_calibration(str(folder), requests)
    dealt = deal_splits(undealt)
    others = [
        undealt,
        deal_splits(undealt, all_calibrate=True),
        deal_splits(open_calibration(str(folder), [sets.image(), sets.tensor(values=[[1, 2, 3, 5]])])),
        deal_splits(open_calibration(str(sets.folder(tmp_path / "d", 6)), requests)),
    ]
    assert re.fullmatch("[0-9a-f]{64}", dealt.digest)
    assert deal_splits(open_calibration(str(folder), requests)).digest == dealt.digest
    assert len({dealt.digest, *(other.digest for other in others)}) == 5

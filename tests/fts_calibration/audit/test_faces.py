"""Faces: yaw from landmarks, and limits at which findings begin."""

from __future__ import annotations

import pytest
from tests.generators.calibration_sets.scenes import portrait, scene

from fts.vocabulary.preprocessing import Preprocessing
from fts_calibration.audit.boxes_json import Face
from fts_calibration.audit.faces import check_faces, yaw_deg
from fts_calibration.audit.look import Look, look_at_picture

BOX = (10.0, 10.0, 60.0, 80.0)


def look(faces: list[Face], seed: int = 1) -> Look:
    return look_at_picture(f"{seed}.png", scene(seed)[..., ::-1], Preprocessing(), (96, 96), faces)


def ids(looks: list[Look]) -> set[str]:
    return {f.id for f in check_faces(looks, "boxes.json")}


@pytest.mark.parametrize(("nose_x", "least", "most"), [(50, 0, 0.1), (53, 5, 12), (60, 25, 60), (35, 25, 60)])
def test_yaw_follows_from_where_the_nose_is(nose_x: float, least: float, most: float) -> None:
    points = ((30.0, 40.0), (70.0, 40.0), (nose_x, 55.0), (36.0, 70.0), (64.0, 70.0))
    yaw = yaw_deg(Face(box_xywh=BOX, landmarks_xy=points, visible=(True,) * 5))
    assert yaw is not None
    assert least <= yaw <= most


def test_a_declared_yaw_goes_before_the_landmarks_and_without_both_nothing_is_said() -> None:
    points = ((30.0, 40.0), (70.0, 40.0), (50.0, 55.0), (36.0, 70.0), (64.0, 70.0))
    assert yaw_deg(Face(box_xywh=BOX, landmarks_xy=points, visible=(True,) * 5, yaw_deg=40.0)) == 40.0
    assert yaw_deg(Face(box_xywh=BOX)) is None
    assert "faces-turned" not in ids([look([Face(box_xywh=BOX)])])


def test_three_frontal_faces_a_turned_one_are_enough() -> None:
    yaws = (0.0, 5.0, -20.0, 50.0)
    looks = [look([Face(box_xywh=BOX, yaw_deg=yaw)], i) for i, yaw in enumerate(yaws)]
    assert "faces-turned" not in ids(looks)
    assert "faces-turned" in ids([*looks, look([Face(box_xywh=BOX, yaw_deg=-45.0)], 9)])


def test_the_largest_face_of_a_picture_counts() -> None:
    small = Face(box_xywh=(0, 0, 10, 10))
    assert "faces-size" not in ids([look([small, Face(box_xywh=BOX)])])
    assert "faces-size" in ids([look([small])])


def test_boxes_outside_of_the_picture_are_measured_as_far_as_they_are_in_it() -> None:
    picture, _ = portrait(1)
    seen = look_at_picture("p.png", picture, Preprocessing(), (96, 96), [Face(box_xywh=(-500, -500, 20, 20))])
    assert seen.faces[0].std >= 0


def test_without_boxes_it_is_said_that_faces_were_not_checked() -> None:
    (finding,) = check_faces([look([])], "not known")
    assert (finding.id, finding.severity) == ("faces-not-checked", "note")


def test_boxes_for_other_files_are_a_warning() -> None:
    (finding,) = check_faces([look([])], "boxes.json")
    assert (finding.id, finding.severity) == ("faces-not-checked", "warning")


def test_of_found_faces_it_is_said_that_covers_were_not_checked() -> None:
    (note,) = check_faces([look([Face(box_xywh=BOX)])], "detector")
    assert (note.id, note.severity) == ("faces-covered-not-checked", "note")


def test_a_detector_that_finds_nothing_is_a_warning() -> None:
    (finding,) = check_faces([look([])], "detector")
    assert (finding.id, finding.severity) == ("faces-not-checked", "warning")
    assert "--faces detect" in finding.fix

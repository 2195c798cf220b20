"""boxes.json is read or refused with the place and the form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fts.errors import CalibrationError
from fts_calibration.audit.boxes_json import Face, read_boxes

POINTS = [[10, 20], [30, 20, 1], [20, 30, 0], [12, 40], [28, 40]]


def written(folder: Path, content: Any) -> Path:
    path = folder / "boxes.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_reads_boxes_landmarks_and_yaw(tmp_path: Path) -> None:
    content = {"a.jpg": [{"box": [1, 2, 30.5, 40], "landmarks": POINTS, "yaw_deg": -12}], "b.jpg": []}
    assert read_boxes(written(tmp_path, content)) == {
        "a.jpg": (
            Face(
                box_xywh=(1, 2, 30.5, 40),
                landmarks_xy=((10, 20), (30, 20), (20, 30), (12, 40), (28, 40)),
                visible=(True, True, False, True, True),
                yaw_deg=-12,
            ),
        ),
        "b.jpg": (),
    }


def test_a_box_alone_is_enough(tmp_path: Path) -> None:
    (face,) = read_boxes(written(tmp_path, {"a.jpg": [{"box": [0, 0, 5, 5]}]}))["a.jpg"]
    assert (face.landmarks_xy, face.visible, face.yaw_deg) == ((), (), None)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no JSON"),
        ([1], "found a list, expected an object"),
        ({"a.jpg": {"box": [0, 0, 1, 1]}}, "'a.jpg': found a dict, expected a list"),
        ({"a.jpg": [[0, 0, 1, 1]]}, "'a.jpg', face 0: expected an object with a box"),
        ({"a.jpg": [{"bbox": [0, 0, 1, 1]}]}, "expected an object with a box"),
        ({"a.jpg": [{"box": [0, 0, 1, 1], "age": 3}]}, r"unknown keys \['age'\]"),
        ({"a.jpg": [{"box": [0, 0, 1]}]}, "box: found .* expected 4 finite numbers"),
        ({"a.jpg": [{"box": [0, 0, 1, "1"]}]}, "expected 4 finite numbers"),
        ('{"a.jpg": [{"box": [0, 0, 1, NaN]}]}', "expected 4 finite numbers"),
        ({"a.jpg": [{"box": [0, 0, 0, 4]}]}, "width 0 and height 4, expected more than 0"),
        ({"a.jpg": [{"box": [0, 0, 1, 1], "landmarks": POINTS[:4]}]}, "landmarks: expected 5 points"),
        ({"a.jpg": [{"box": [0, 0, 1, 1], "landmarks": [*POINTS[:4], [1]]}]}, "landmark 4: .* expected 2 or 3"),
        ({"a.jpg": [{"box": [0, 0, 1, 1], "yaw_deg": "left"}]}, "yaw_deg: .* expected 1 finite"),
    ],
)
def test_says_what_is_wrong_and_where(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(CalibrationError, match=said) as refused:
        read_boxes(written(tmp_path, content))
    assert "boxes.json" in str(refused.value)


def test_a_missing_file_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="cannot be read"):
        read_boxes(tmp_path / "none.json")

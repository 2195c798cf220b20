"""`--faces boxes.json`: where the faces of the calibration pictures are.

    {"anna.jpg": [{"box": [x, y, w, h], "landmarks": [[x, y, v], ...], "yaw_deg": 12.5}], "street.jpg": []}

A key is a file's name as the report shows it. `box` is in pixels of the file, from its upper left corner. `landmarks` are
five points, left eye (as seen), right eye, nose, left and right corner of the mouth; v is 1 where the point can be seen, 0
where it is covered, and 1 where left out. `yaw_deg` is the turn of the head, 0 frontal. Landmarks and yaw may be left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fts.errors import CalibrationError

LANDMARKS = 5
_KEYS = ("box", "landmarks", "yaw_deg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """One face.

    Attributes:
        box_xywh: Pixels of the file.
        landmarks_xy: Five points, or none.
        visible: One for each landmark.
        yaw_deg: Turn of the head, or None where not said.
    """

    box_xywh: tuple[float, float, float, float]
    landmarks_xy: tuple[tuple[float, float], ...] = ()
    visible: tuple[bool, ...] = ()
    yaw_deg: float | None = None


def read_boxes(path: Path) -> dict[str, tuple[Face, ...]]:
    """Read and check the file.

    Raises:
        CalibrationError: It cannot be read, or something in it is not as described above.
    """
    where = f"--faces {path}"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as cause:
        raise CalibrationError(f"{where}: cannot be read ({cause.strerror}).") from cause
    except ValueError as cause:
        raise CalibrationError(f"{where}: is no JSON ({cause}). {_FORM}") from cause
    if not isinstance(found, dict):
        raise CalibrationError(f"{where}: found a {type(found).__name__}, expected an object. {_FORM}")
    faces: dict[str, tuple[Face, ...]] = {}
    for name, entries in found.items():
        if not isinstance(entries, list):
            raise CalibrationError(f"{where}, {name!r}: found a {type(entries).__name__}, expected a list. {_FORM}")
        faces[name] = tuple(_face(entry, f"{where}, {name!r}, face {i}") for i, entry in enumerate(entries))
    return faces


_FORM = 'Write {"file name": [{"box": [x, y, w, h], "landmarks": [[x, y, visible], ...], "yaw_deg": 0}]}.'


def _face(entry: Any, where: str) -> Face:
    if not isinstance(entry, dict) or "box" not in entry:
        raise CalibrationError(f"{where}: expected an object with a box. {_FORM}")
    unknown = sorted(set(entry) - set(_KEYS))
    if unknown:
        raise CalibrationError(f"{where}: unknown keys {unknown}, expected {list(_KEYS)}. {_FORM}")
    x, y, w, h = _numbers(entry["box"], (4,), f"{where}, box")
    if w <= 0 or h <= 0:
        raise CalibrationError(f"{where}, box: width {w:g} and height {h:g}, expected more than 0. {_FORM}")
    points = entry.get("landmarks", [])
    if not isinstance(points, list) or len(points) not in (0, LANDMARKS):
        raise CalibrationError(f"{where}, landmarks: expected {LANDMARKS} points. {_FORM}")
    rows = [_numbers(point, (2, 3), f"{where}, landmark {i}") for i, point in enumerate(points)]
    return Face(
        box_xywh=(x, y, w, h),
        landmarks_xy=tuple((row[0], row[1]) for row in rows),
        visible=tuple(len(row) == 2 or row[2] > 0 for row in rows),
        yaw_deg=None if entry.get("yaw_deg") is None else _numbers([entry["yaw_deg"]], (1,), f"{where}, yaw_deg")[0],
    )


def _numbers(value: Any, lengths: tuple[int, ...], where: str) -> list[float]:
    is_list = isinstance(value, list) and len(value) in lengths
    if not is_list or not all(isinstance(v, int | float) and math.isfinite(v) for v in value):
        expected = " or ".join(map(str, lengths))
        raise CalibrationError(f"{where}: found {json.dumps(value)[:60]}, expected {expected} finite numbers. {_FORM}")
    return [float(v) for v in value]


def files_without_boxes(faces: Mapping[str, tuple[Face, ...]], paths: frozenset[str]) -> tuple[str, ...]:
    """Names in boxes.json that are no file of the set."""
    return tuple(sorted(set(faces) - paths))

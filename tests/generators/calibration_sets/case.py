"""A calibration set that judges the audit: how it is written, what is declared of it, what has to be found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from tests.generators.calibration_sets.scenes import Face, Picture

from fts.vocabulary.preprocessing import Preprocessing
from fts.vocabulary.tensor_spec import TensorSpec
from fts_calibration.dataset.input_request import InputRequest

SIDE_PX = 96
IMAGENET = Preprocessing(scale=1 / 255, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
SIGNED = Preprocessing(scale=1 / 127.5, mean=(1.0, 1.0, 1.0))
BYTES = Preprocessing(scale=1.0)
UNIT = Preprocessing()
GRAY = Preprocessing(color="gray", mean=(0.0,), std=(1.0,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One set.

    Attributes:
        name: Of the test.
        write: Writes the set into an empty folder; what comes back is given as --calib.
        declared: The contract.
        expected: Ids that have to be found; empty for a good set.
        allowed: Ids that follow from what is wrong and may be found too.
        has_faces: The set comes with boxes.json in the empty folder.
        net: What the net was trained with, for findings that need one; None where the set alone tells.
        is_refused: Opening the set already ends with an error that carries the id.
    """

    name: str
    write: Callable[[Path], Path]
    declared: Preprocessing = field(default_factory=Preprocessing)
    expected: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()
    has_faces: bool = False
    net: Preprocessing | None = None
    is_refused: bool = False

    @property
    def request(self) -> InputRequest:
        """The one input of the net, SIDE_PX on each side."""
        pre = self.declared
        shape = (1, pre.channels, SIDE_PX, SIDE_PX)
        spec = TensorSpec(name="x", dtype="float32", shape=shape if pre.layout == "nchw" else (1, *shape[2:], shape[1]))
        return InputRequest(spec=spec, kind="image", preprocessing=pre)


def save_pictures(folder: Path, pictures: Iterable[Picture], *, suffix: str = ".jpg", name: str = "p") -> Path:
    """Write RGB pictures (or RGBA, as PNG) as files into folder/photos."""
    photos = folder / "photos"
    photos.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(pictures):
        order = cv2.COLOR_RGBA2BGRA if picture.shape[2] == 4 else cv2.COLOR_RGB2BGR
        options = [cv2.IMWRITE_JPEG_QUALITY, 92] if suffix == ".jpg" else []
        cv2.imwrite(str(photos / f"{name}{number:03d}{suffix}"), cv2.cvtColor(picture, order), options)
    return photos


def save_tensors(folder: Path, tensors: Sequence[npt.NDArray[np.generic]]) -> Path:
    """Write tensors of the input's full shape as folder/feeds/*.npz under the key x."""
    feeds = folder / "feeds"
    feeds.mkdir(parents=True, exist_ok=True)
    for number, tensor in enumerate(tensors):
        np.savez(feeds / f"f{number:03d}.npz", x=tensor)
    return feeds


def save_boxes(folder: Path, faces: Iterable[Face], *, visible: Callable[[int, int], bool] = lambda f, p: True) -> None:
    """Write folder/boxes.json for the portraits p000.jpg, p001.jpg, ...; visible(face, point) for each landmark."""
    boxes = {
        f"p{number:03d}.jpg": [
            {
                "box": [round(v, 1) for v in face.box_xywh],
                "landmarks": [
                    [round(x, 1), round(y, 1), int(visible(number, i))] for i, (x, y) in enumerate(face.landmarks_xy)
                ],
                "yaw_deg": face.yaw_deg,
            }
        ]
        for number, face in enumerate(faces)
    }
    (folder / "boxes.json").write_text(json.dumps(boxes), encoding="utf-8")


def tensor(picture: Picture, pre: Preprocessing, side_px: int = SIDE_PX) -> npt.NDArray[np.float32]:
    """What a user's own preprocessing makes of a picture: (1, 3, H, W), or (1, H, W, 3) under nhwc."""
    square = cv2.resize(picture, (side_px, side_px), interpolation=cv2.INTER_AREA)
    pixels = square[..., ::-1] if pre.color == "bgr" else square
    real = (pixels.astype(np.float32) * np.float32(pre.scale) - np.asarray(pre.mean, np.float32)) / np.asarray(
        pre.std, np.float32
    )
    return (real if pre.layout == "nhwc" else real.transpose(2, 0, 1))[None].astype(np.float32)

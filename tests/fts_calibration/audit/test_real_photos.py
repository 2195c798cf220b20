"""Photographs out of packages: what is made of them by hand is clean, and nets that remember their training agree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from fetch_assets import fetch

from fts.imaging.preprocess import tensor_from_frame
from fts.vocabulary.preprocessing import Preprocessing
from fts.vocabulary.tensor_spec import TensorSpec
from fts_calibration.audit.audit_set import audit_set
from fts_calibration.audit.contract import check_contract
from fts_calibration.audit.watch import LookTaker
from fts_calibration.dataset.input_request import InputRequest
from fts_calibration.dataset.source import open_calibration

ROOT = Path(__file__).parents[3]
CROPS = json.loads((ROOT / "samples" / "season_style" / "crops.json").read_text(encoding="utf-8"))
PHOTOS = sorted({crop["source"] for part in CROPS.values() for crop in part})
SIDE_PX = 256

pytestmark = pytest.mark.slow

# How PaddleOCR's own code prepares pictures: read by OpenCV in BGR; the detector's ImageNet numbers by place, not by colour.
TEXT_DIRECTION = Preprocessing(color="bgr", scale=1 / 127.5, mean=(1, 1, 1), fit="crop")
TEXT_DETECTION = Preprocessing(color="bgr", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), fit="crop")
NETS = [("ocr_cls", TEXT_DIRECTION, (1, 3, 48, 192)), ("ocr_det", TEXT_DETECTION, (1, 3, 256, 256))]


@pytest.fixture(scope="module")
def photos() -> dict[str, np.ndarray]:
    return {name: cv2.imread(str(path)) for name, path in fetch(PHOTOS).items()}


def request() -> InputRequest:
    spec = TensorSpec(name="x", dtype="float32", shape=(1, 3, SIDE_PX, SIDE_PX))
    return InputRequest(spec=spec, kind="image", preprocessing=Preprocessing())


def warned(folder: Path) -> list[str]:
    taken = LookTaker([request()])
    data = open_calibration(str(folder), [request()], watcher=taken)
    return [f"{f.id}: {f.message}" for f in audit_set(data, taken) if f.severity != "note"]


def test_the_crops_of_the_demo_are_clean(photos: dict[str, np.ndarray], tmp_path: Path) -> None:
    for number, crop in enumerate(CROPS["calib"]):
        x, y, size = crop["x"], crop["y"], crop["size"]
        square = photos[crop["source"]][y : y + size, x : x + size]
        cv2.imwrite(
            str(tmp_path / f"{number}.png"), cv2.resize(square, (SIDE_PX, SIDE_PX), interpolation=cv2.INTER_AREA)
        )
    assert warned(tmp_path) == []


@pytest.mark.parametrize("seed", range(5))
def test_random_crops_are_clean(photos: dict[str, np.ndarray], tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for name, photo in photos.items():
        height, width, _ = photo.shape
        for number in range(3):
            size = int(rng.integers(min(height, width) // 3, min(height, width)))
            x, y = int(rng.integers(0, width - size + 1)), int(rng.integers(0, height - size + 1))
            cv2.imwrite(str(tmp_path / f"{name}{number}.jpg"), photo[y : y + size, x : x + size])
    assert warned(tmp_path) == []


def feeds(photos: dict[str, np.ndarray], spec: TensorSpec, pre: Preprocessing) -> Iterator[dict[str, np.ndarray]]:
    for photo in photos.values():
        yield {spec.name: tensor_from_frame(photo, spec, pre)[0]}


def flagged(net: Path, photos: dict[str, np.ndarray], pre: Preprocessing, shape: tuple[int, ...]) -> list[str]:
    model = onnx.load(net)
    for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, shape, strict=True):
        dim.dim_value = size
    spec = TensorSpec(name=model.graph.input[0].name, dtype="float32", shape=shape)
    return [f.id for f in check_contract(model, spec.name, pre, feeds(photos, spec, pre))]


@pytest.mark.parametrize(("name", "right", "shape"), NETS, ids=[n[0] for n in NETS])
def test_a_trained_net_agrees_with_its_contract_and_with_no_other_range(
    name: str, right: Preprocessing, shape: tuple[int, ...], photos: dict[str, np.ndarray]
) -> None:
    net = fetch([name])[name]
    assert flagged(net, photos, right, shape) == []
    for wrong in (Preprocessing(), Preprocessing(scale=1.0)):
        assert flagged(net, photos, replace(wrong, fit="crop"), shape) == ["contract"]

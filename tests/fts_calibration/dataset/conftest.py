"""Small calibration folders."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from fts.vocabulary.preprocessing import Preprocessing
from fts.vocabulary.tensor_spec import TensorSpec
from fts_calibration.dataset.input_request import InputRequest


class Sets:
    """Makers of inputs and folders; RGB in, files out."""

    @staticmethod
    def image(name: str = "x", side: int = 8, dtype: str = "float32", **preprocessing: object) -> InputRequest:
        spec = TensorSpec(name=name, dtype=dtype, shape=(1, 3, side, side))
        return InputRequest(spec=spec, kind="image", preprocessing=Preprocessing(**preprocessing))

    @staticmethod
    def tensor(name: str = "age", shape: tuple[int, ...] = (1, 4), values: object = None) -> InputRequest:
        return InputRequest(spec=TensorSpec(name=name, dtype="float32", shape=shape), kind="tensor", values=values)

    @staticmethod
    def picture(seed: int, height: int = 8, width: int = 8) -> np.ndarray:
        return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)

    @staticmethod
    def png(rgb: np.ndarray) -> bytes:
        return cv2.imencode(".png", np.ascontiguousarray(rgb[..., ::-1]))[1].tobytes()

    def folder(self, path: Path, count: int, first_seed: int = 0) -> Path:
        path.mkdir(exist_ok=True)
        for index in range(count):
            (path / f"img_{index:03d}.png").write_bytes(self.png(self.picture(first_seed + index)))
        return path

    @staticmethod
    def sample(seed: int, shape: tuple[int, ...] = (1, 3, 8, 8)) -> np.ndarray:
        return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.fixture(scope="session")
def sets() -> Sets:
    return Sets()

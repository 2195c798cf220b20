"""Who wants to see the samples while they are opened: they are then not read again for that."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from fts_calibration.dataset.input_request import Feed


class Watcher(Protocol):
    """Told of every usable sample, files with equal content included. Arrays are not to be kept."""

    def picture(self, name: str, frame_bgr: npt.NDArray[np.uint8]) -> None:
        """A decoded picture, uint8 (H, W, 3), before it is fitted to the net."""

    def feed(self, name: str, feed: Feed) -> None:
        """A raw sample: the arrays that it holds, in the inputs' types and shapes."""


class _Nobody:
    def picture(self, name: str, frame_bgr: npt.NDArray[np.uint8]) -> None:
        pass

    def feed(self, name: str, feed: Feed) -> None:
        pass


NOBODY: Watcher = _Nobody()

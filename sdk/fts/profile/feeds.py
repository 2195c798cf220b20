"""What the net is fed with while it is measured: frames and input values, in one file for all processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fts.commands.run_source import VideoReader, source_from_text
from fts.errors import UsageError
from fts.imaging.decode import read_bgr
from fts.imaging.opencv import cv2
from fts.imaging.preprocess import net_size
from fts.model import Model, tensor_from_value
from fts.profile.measured_net import FRAME_KEY, INPUT_KEY

Frame = npt.NDArray[np.uint8]

# Enough for frames to differ in content and too few to fill the memory of a small device.
MOST_FRAMES = 16
_BLOCKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeds:
    """What was written.

    Attributes:
        path: npz file for `NetSpec.feeds`.
        text: Where the frames come from, for people.
        frames: How many there are; 0 for a net without image input.
    """

    path: Path
    text: str
    frames: int


def write_feeds(path: Path, model: Model, inputs: Mapping[str, Any], frames_from: str | None) -> Feeds:
    """Write the frames and input values.

    Args:
        path: Where to.
        model: The net.
        inputs: Values of tensor inputs by name.
        frames_from: A picture, a folder, a video or a camera's index; None for synthetic frames of the net's own size.

    Raises:
        UsageError: Frames were given to a net that takes none.
        SourceError: They cannot be read.
    """
    images = [e for e in model.inputs if e.kind == "image"]
    if frames_from is not None and not images:
        raise UsageError(f"--frames {frames_from}: {model.path.name} takes no frame: none of its inputs is an image.")
    arrays = {f"{INPUT_KEY}{e.name}": tensor_from_value(inputs[e.name], e) for e in model.inputs if e.name in inputs}
    frames: list[Frame] = []
    text = "no frames: tensor inputs alone"
    if images:
        frames = _read(frames_from) if frames_from is not None else _synthetic(model)
        height_px, width_px = frames[0].shape[:2]
        origin = Path(frames_from).name if frames_from is not None else "synthetic"
        text = f"{len(frames)} frames, {origin}, the first {width_px}x{height_px}"
        arrays |= {f"{FRAME_KEY}{i}": frame for i, frame in enumerate(frames)}
        arrays |= {f"{INPUT_KEY}{e.name}": frames[0] for e in images[1:]}
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return Feeds(path=path, text=text, frames=len(frames))


def _read(text: str) -> list[Frame]:
    source = source_from_text(text)
    if source.kind in ("picture", "folder"):
        return [read_bgr(picture) for picture in source.pictures[:MOST_FRAMES]]
    reader = VideoReader(source)
    try:
        return list(islice(reader, MOST_FRAMES))
    finally:
        reader.close()


def _synthetic(model: Model) -> list[Frame]:
    """Soft coloured blocks with grain, BGR uint8 (H, W, 3) of the net's own size: no resizing is measured."""
    entry = next(e for e in model.inputs if e.preprocessing is not None)
    if entry.preprocessing is None:
        raise ValueError("an image input without preprocessing")
    height_px, width_px = net_size(entry.spec, entry.preprocessing)
    rng = np.random.default_rng(0)
    frames = []
    for _ in range(4):
        blocks = rng.integers(30, 226, (_BLOCKS, _BLOCKS, 3), dtype=np.uint8)
        soft = cv2.resize(blocks, (width_px, height_px), interpolation=cv2.INTER_LINEAR)
        frames.append(soft + rng.integers(0, 30, soft.shape, dtype=np.uint8))
    return frames

"""Where results of `fts run` go: a picture, an npz of tensors, or a video."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fts.atomic_file import replaced_file
from fts.bundle.tensors_npz import npz_bytes
from fts.engines.engine import Tensor
from fts.errors import SourceError, UsageError
from fts.imaging.decode import write_image
from fts.imaging.opencv import cv2, quiet_opencv
from fts.result import Result

# Codecs that every opencv-python wheel writes without further libraries.
_CODEC_BY_SUFFIX = {".mp4": "mp4v", ".avi": "MJPG"}


def write_result(path: Path, result: Result) -> None:
    """Write one frame's result: the picture, or all tensors where the suffix is .npz.

    Raises:
        UsageError: The suffix is none that can be written.
        SourceError: The file cannot be written.
    """
    if path.suffix.lower() != ".npz":
        write_image(path, result.image)
        return
    with _reported(path), replaced_file(path) as part:
        part.write_bytes(npz_bytes(result.tensors))


class FrameSink(Protocol):
    """Takes the results of a video or camera, in order."""

    def write(self, result: Result) -> None:
        """Append one frame's result."""


class _VideoSink:
    """Image outputs to a video file; frames have the size of the first one."""

    def __init__(self, part: Path, final: Path, fps: float) -> None:
        self._part = part
        self._final = final
        self._fps = fps
        self._writer: Any = None
        self._size_wh: tuple[int, int] | None = None

    def write(self, result: Result) -> None:
        image = result.image
        size_wh = (image.shape[1], image.shape[0])
        if self._writer is None:
            code = cv2.VideoWriter_fourcc(*_CODEC_BY_SUFFIX[self._final.suffix.lower()])
            with quiet_opencv():
                self._writer = cv2.VideoWriter(str(self._part), code, self._fps, size_wh)
            if not self._writer.isOpened():
                raise SourceError(f"{self._final}: this OpenCV cannot write such a video of {size_wh[0]}x{size_wh[1]}.")
            self._size_wh = size_wh
        if size_wh != self._size_wh:
            raise SourceError(f"{self._final}: found a frame of {size_wh}, expected {self._size_wh} as the first one.")
        self._writer.write(image)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.release()


class _TensorSink:
    """All outputs of all frames, one axis for the frames in front, to one npz."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Tensor]] = []

    def write(self, result: Result) -> None:
        self.rows.append(result.tensors)

    def stacked(self) -> dict[str, Tensor]:
        return {name: np.stack([row[name] for row in self.rows]) for name in self.rows[0]}


@contextmanager
def frame_sink(path: Path, fps: float) -> Iterator[FrameSink]:
    """A video, or an npz of tensors, that appears under its name when the block ends well, and not at all otherwise.

    Args:
        path: Final name; the suffix says what is written, as `check_frames_name` has allowed it.
        fps: Frames a second of a video.

    Raises:
        SourceError: The file cannot be written.
    """
    with _reported(path), replaced_file(path) as part:
        if path.suffix.lower() == ".npz":
            tensors = _TensorSink()
            yield tensors
            part.write_bytes(npz_bytes(tensors.stacked()))
            return
        video = _VideoSink(part, path, fps)
        try:
            yield video
        finally:
            video.close()


def check_frames_name(path: Path, *, has_image: bool) -> None:
    """Raise UsageError unless a video or camera can be written under this name."""
    suffix = path.suffix.lower()
    if not has_image and suffix != ".npz":
        raise UsageError(f"-o {path}: this net has no image output; expected a .npz file for its tensors.")
    if suffix not in (*_CODEC_BY_SUFFIX, ".npz"):
        raise UsageError(f"-o {path}: found {suffix!r}, expected .mp4, .avi or .npz for a video or camera.")


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise SourceError(f"{path}: cannot be written: {cause.strerror or cause}") from cause

"""What SOURCE of `fts run` is: a picture, a folder of pictures, a video file, or a camera."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fts.errors import SourceError
from fts.imaging.decode import is_picture_name
from fts.imaging.opencv import cv2, quiet_opencv

Frame = npt.NDArray[np.uint8]

# A camera or a container without a rate: what most webcams give.
DEFAULT_FPS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSource:
    """SOURCE, understood.

    Attributes:
        kind: What it is.
        text: As typed.
        pictures: The pictures of a folder, sorted by name; the picture itself; empty for video and camera.
        skipped: Files of a folder whose names are not those of pictures.
        stem: What the output is called after.
    """

    kind: Literal["picture", "folder", "video", "camera"]
    text: str
    pictures: tuple[Path, ...]
    skipped: tuple[Path, ...]
    stem: str


def source_from_text(text: str) -> RunSource:
    """Understand SOURCE.

    Raises:
        SourceError: There is no such file or folder, or no picture in the folder.
    """
    path = Path(text)
    if text.isascii() and text.isdigit():
        return RunSource(kind="camera", text=text, pictures=(), skipped=(), stem=f"camera{int(text)}")
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
        pictures = tuple(p for p in files if is_picture_name(p.name))
        if not pictures:
            raise SourceError(
                f"{text}: no picture in this folder ({len(files)} other files). Its subfolders count not."
            )
        skipped = tuple(p for p in files if not is_picture_name(p.name))
        return RunSource(kind="folder", text=text, pictures=pictures, skipped=skipped, stem=path.resolve().name)
    if not path.is_file():
        raise SourceError(
            f"{text}: no such file or folder. SOURCE is a picture, a folder, a video or a camera's index."
        )
    if is_picture_name(path.name):
        return RunSource(kind="picture", text=text, pictures=(path,), skipped=(), stem=path.stem)
    return RunSource(kind="video", text=text, pictures=(), skipped=(), stem=path.stem)


class VideoReader:
    """The frames of a video file or a camera, in order. Use as an iterator, then close."""

    def __init__(self, source: RunSource) -> None:
        target = int(source.text) if source.kind == "camera" else source.text
        with quiet_opencv():
            self._capture: Any = cv2.VideoCapture(target)
        if not self._capture.isOpened():
            what = f"camera {source.text}" if source.kind == "camera" else source.text
            hint = (
                "Is it plugged in, free, and may this user read it?"
                if source.kind == "camera"
                else "It is neither a picture nor a video that OpenCV reads here."
            )
            raise SourceError(f"{what}: cannot be opened. {hint}")
        fps = float(self._capture.get(cv2.CAP_PROP_FPS))
        self.fps = fps if 0 < fps < 1000 else DEFAULT_FPS
        declared = int(self._capture.get(cv2.CAP_PROP_FRAME_COUNT)) if source.kind == "video" else 0
        self.frames = declared if declared > 0 else None
        self._text = source.text

    def __iter__(self) -> Iterator[Frame]:
        count = 0
        while True:
            ok, frame = self._capture.read()
            if not ok:
                break
            count += 1
            yield frame
        if not count:
            raise SourceError(f"{self._text}: opened, but not a single frame could be read.")

    def close(self) -> None:
        """Free the file or camera."""
        self._capture.release()

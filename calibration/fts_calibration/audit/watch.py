"""Takes a look at every sample while the data is opened, so that nothing is read or decoded a second time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from fts.imaging.preprocess import net_size
from fts_calibration.audit.boxes_json import Face
from fts_calibration.audit.faces import FaceSource
from fts_calibration.audit.look import Look, look_at_picture, look_at_tensor, picture_from_tensor
from fts_calibration.dataset.input_request import Feed, InputRequest

FindFaces = Callable[[npt.NDArray[np.uint8]], Sequence[Face]]


class LookTaker:
    """Remembers one `Look` a sample and image input.

    Attributes:
        images: The image inputs.
        faces: File name to faces, or None when no boxes were given.
    """

    def __init__(
        self,
        inputs: Sequence[InputRequest],
        faces: Mapping[str, tuple[Face, ...]] | None = None,
        find_faces: FindFaces | None = None,
    ) -> None:
        """Remember nothing yet.

        Args:
            inputs: What the net asks for.
            faces: File name to faces, where boxes were given.
            find_faces: Finds them in a picture uint8 (H, W, 3) in BGR order, where no boxes were given.
        """
        self.images = tuple(r for r in inputs if r.kind == "image" and r.preprocessing is not None)
        self.faces = faces
        self._find_faces = find_faces
        self._looks: dict[tuple[str, str], Look] = {}  # (input, sample)

    @property
    def face_source(self) -> FaceSource:
        """Where faces come from."""
        if self.faces is not None:
            return "boxes.json"
        return "not known" if self._find_faces is None else "detector"

    def picture(self, name: str, frame_bgr: npt.NDArray[np.uint8]) -> None:
        """A decoded picture, as it came out of its file."""
        faces = self._faces_of(name, lambda: frame_bgr)
        for request in self.images:
            if (pre := request.preprocessing) is not None:
                height_px, width_px = net_size(request.spec, pre)
                look = look_at_picture(name, frame_bgr, pre, (width_px, height_px), faces)
                self._looks[request.spec.name, name] = look

    def feed(self, name: str, feed: Feed) -> None:
        """A raw sample, as it goes into the net."""
        for request in self.images:
            if request.spec.name in feed and (pre := request.preprocessing) is not None:
                tensor = feed[request.spec.name]
                faces = self._faces_of(name, partial(picture_from_tensor, tensor, pre))
                look = look_at_tensor(name, tensor, pre, faces)
                self._looks[request.spec.name, name] = look

    def looks(self, input_name: str, names: Sequence[str]) -> tuple[Look, ...]:
        """Looks at one input of the samples named, in that order; a sample that does not feed it is left out."""
        return tuple(self._looks[input_name, name] for name in names if (input_name, name) in self._looks)

    def _faces_of(self, name: str, frame_bgr: Callable[[], npt.NDArray[np.uint8]]) -> Sequence[Face]:
        if self.faces is not None:
            return self.faces.get(name, ())
        return () if self._find_faces is None else self._find_faces(frame_bgr())

"""Takes a look at every sample while the data is opened, so that nothing is read or decoded a second time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fts.imaging.preprocess import net_size
from fts_calibration.audit.boxes_json import Face
from fts_calibration.audit.look import Look, look_at_picture, look_at_tensor
from fts_calibration.dataset.input_request import Feed, InputRequest


class LookTaker:
    """Remembers one `Look` a sample and image input.

    Attributes:
        images: The image inputs.
        faces: File name to faces, or None when no boxes were given.
    """

    def __init__(self, inputs: Sequence[InputRequest], faces: Mapping[str, tuple[Face, ...]] | None = None) -> None:
        self.images = tuple(r for r in inputs if r.kind == "image" and r.preprocessing is not None)
        self.faces = faces
        self._looks: dict[tuple[str, str], Look] = {}  # (input, sample)

    def picture(self, name: str, frame_bgr: npt.NDArray[np.uint8]) -> None:
        """A decoded picture, as it came out of its file."""
        for request in self.images:
            if (pre := request.preprocessing) is not None:
                height_px, width_px = net_size(request.spec, pre)
                look = look_at_picture(name, frame_bgr, pre, (width_px, height_px), self._faces_of(name))
                self._looks[request.spec.name, name] = look

    def feed(self, name: str, feed: Feed) -> None:
        """A raw sample, as it goes into the net."""
        for request in self.images:
            if request.spec.name in feed and (pre := request.preprocessing) is not None:
                look = look_at_tensor(name, feed[request.spec.name], pre, self._faces_of(name))
                self._looks[request.spec.name, name] = look

    def looks(self, input_name: str, names: Sequence[str]) -> tuple[Look, ...]:
        """Looks at one input of the samples named, in that order; a sample that does not feed it is left out."""
        return tuple(self._looks[input_name, name] for name in names if (input_name, name) in self._looks)

    def _faces_of(self, name: str) -> tuple[Face, ...]:
        return () if self.faces is None else self.faces.get(name, ())

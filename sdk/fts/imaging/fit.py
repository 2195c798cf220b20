"""Bring a frame to the net's height and width, and bring the net's picture and boxes back.

All four ways are one idea: a rectangle of the frame is resized onto a rectangle of the net's picture.

    fit        rectangle of the frame      rectangle of the net
    exact      all                         all (same size)
    stretch    all                         all
    letterbox  all                         the largest centred one of the frame's aspect
    crop       the largest centred one     all
               of the net's aspect
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fts.errors import FrameError
from fts.imaging.opencv import cv2
from fts.vocabulary.preprocessing import Fit

Box = tuple[int, int, int, int]  # x0, y0, x1, y1 in pixels, x1 and y1 exclusive


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitTransform:
    """What a fit did, so that it can be undone.

    Attributes:
        frame_height_px: Height of the frame.
        frame_width_px: Width of the frame.
        net_height_px: Height of the net's input picture.
        net_width_px: Width of the net's input picture.
        frame_box: Rectangle of the frame that went in, xyxy.
        net_box: Rectangle of the net's picture that it became, xyxy.
        surround: A read-only copy of the frame where a crop left part of it out, else None: `undo` has to show that
            part, and the caller may reuse the frame's memory meanwhile.
    """

    frame_height_px: int
    frame_width_px: int
    net_height_px: int
    net_width_px: int
    frame_box: Box
    net_box: Box
    surround: npt.NDArray[np.uint8] | None = None

    def undo(self, image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Bring the net's output picture back to the frame.

        Args:
            image: uint8 (net height * s, net width * t, 3), s and t whole numbers that are deduced here.

        Returns:
            uint8 (frame height * s, frame width * t, 3), never sharing memory with `image` or the frame.

        Raises:
            FrameError: The picture's size is not a whole multiple of the net's.
        """
        scale_y, rest_y = divmod(image.shape[0], self.net_height_px)
        scale_x, rest_x = divmod(image.shape[1], self.net_width_px)
        if rest_y or rest_x or not scale_y or not scale_x:
            raise FrameError(
                f"output picture: has {image.shape[1]}x{image.shape[0]} (width x height), expected a whole multiple of "
                f'the net\'s input {self.net_width_px}x{self.net_height_px}. Declare this output as kind = "tensor".'
            )
        x0, y0, x1, y1 = _scaled(self.net_box, scale_x, scale_y)
        part = np.ascontiguousarray(image[y0:y1, x0:x1])
        x0, y0, x1, y1 = _scaled(self.frame_box, scale_x, scale_y)
        part = resize(part, y1 - y0, x1 - x0)
        if self.surround is None:
            return part.copy() if np.shares_memory(part, image) else part
        whole = resize(self.surround, self.frame_height_px * scale_y, self.frame_width_px * scale_x)
        if whole is self.surround:
            whole = whole.copy()
        whole[y0:y1, x0:x1] = part
        return whole

    def boxes_to_net(self, boxes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Map boxes from frame pixels to net pixels.

        Args:
            boxes: xyxy, float (N, 4), pixel edges: a whole frame is (0, 0, width, height).

        Returns:
            xyxy float64 (N, 4), not clipped.
        """
        scale, shift = self._affine()
        return np.asarray(np.asarray(boxes, np.float64).reshape(-1, 4) * scale + shift)

    def boxes_to_frame(self, boxes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Map boxes from net pixels back to frame pixels; the inverse of `boxes_to_net`."""
        scale, shift = self._affine()
        return np.asarray((np.asarray(boxes, np.float64).reshape(-1, 4) - shift) / scale)

    def _affine(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """net = frame * scale + shift, for x, y, x, y."""
        fx0, fy0, fx1, fy1 = self.frame_box
        nx0, ny0, nx1, ny1 = self.net_box
        sx, sy = (nx1 - nx0) / (fx1 - fx0), (ny1 - ny0) / (fy1 - fy0)
        return np.array([sx, sy, sx, sy]), np.array([nx0 - fx0 * sx, ny0 - fy0 * sy] * 2)


def fit_frame(
    frame: npt.NDArray[np.uint8], height_px: int, width_px: int, fit: Fit, pad_value: int
) -> tuple[npt.NDArray[np.uint8], FitTransform]:
    """Bring a frame to the net's size.

    Args:
        frame: uint8 (H, W, 3), any strides; not modified.
        height_px: The net's height.
        width_px: The net's width.
        fit: exact, stretch, letterbox or crop.
        pad_value: 0..255, fill beside a letterboxed picture.

    Returns:
        uint8 (height_px, width_px, 3), C-contiguous (the frame itself where nothing had to be done), and the
        transform that undoes it.

    Raises:
        FrameError: The frame is empty, or `exact` and its size is another one.
    """
    frame_height, frame_width = frame.shape[:2]
    if not frame_height or not frame_width:
        raise FrameError(f"frame: has shape {frame.shape}, expected at least 1 pixel in height and width.")
    same_size = (frame_height, frame_width) == (height_px, width_px)
    if fit == "exact" and not same_size:
        raise FrameError(
            f"frame: has {frame_width}x{frame_height} (width x height), expected the net's {width_px}x{height_px}, "
            "because of --fit exact. Resize the frame, or convert with --fit letterbox."
        )
    frame_box, net_box = (0, 0, frame_width, frame_height), (0, 0, width_px, height_px)
    if fit == "letterbox":
        net_box = _largest_centred(frame_width, frame_height, width_px, height_px)
    elif fit == "crop":
        frame_box = _largest_centred(width_px, height_px, frame_width, frame_height)
    x0, y0, x1, y1 = frame_box
    part = np.ascontiguousarray(frame[y0:y1, x0:x1])
    nx0, ny0, nx1, ny1 = net_box
    fitted = resize(part, ny1 - ny0, nx1 - nx0)
    if net_box != (0, 0, width_px, height_px):
        padded = np.full((height_px, width_px, 3), pad_value, np.uint8)
        padded[ny0:ny1, nx0:nx1] = fitted
        fitted = padded
    surround = None
    if frame_box != (0, 0, frame_width, frame_height):
        surround = frame.copy(order="C")
        surround.flags.writeable = False
    return fitted, FitTransform(
        frame_height_px=frame_height,
        frame_width_px=frame_width,
        net_height_px=height_px,
        net_width_px=width_px,
        frame_box=frame_box,
        net_box=net_box,
        surround=surround,
    )


def resize(image: npt.NDArray[np.uint8], height_px: int, width_px: int) -> npt.NDArray[np.uint8]:
    """Resize; the image itself when it has the size already.

    An axis that shrinks is averaged over pixel areas (INTER_AREA: no aliasing, whatever the factor); an axis that
    grows is interpolated with the cubic kernel, which keeps edges that a linear one blurs (Keys 1981, IEEE TASSP
    29(6)), and enlarging is what happens to the net's result. Shrinking comes first, when one axis does each.

    Args:
        image: uint8 (H, W, 3), C-contiguous.
        height_px: New height, at least 1.
        width_px: New width, at least 1.

    Returns:
        uint8 (height_px, width_px, 3).
    """
    smaller = min(image.shape[0], height_px), min(image.shape[1], width_px)
    if smaller != image.shape[:2]:
        image = cv2.resize(image, smaller[::-1], interpolation=cv2.INTER_AREA)
    if (height_px, width_px) != image.shape[:2]:
        image = cv2.resize(image, (width_px, height_px), interpolation=cv2.INTER_CUBIC)
    return image


def _largest_centred(aspect_width: int, aspect_height: int, width: int, height: int) -> Box:
    """The largest rectangle of the aspect inside width x height, in whole pixels, at least 1 on each side."""
    factor = min(width / aspect_width, height / aspect_height)
    inner_width = min(max(round(aspect_width * factor), 1), width)
    inner_height = min(max(round(aspect_height * factor), 1), height)
    x0, y0 = (width - inner_width) // 2, (height - inner_height) // 2
    return x0, y0, x0 + inner_width, y0 + inner_height


def _scaled(box: Box, scale_x: int, scale_y: int) -> Box:
    x0, y0, x1, y1 = box
    return x0 * scale_x, y0 * scale_y, x1 * scale_x, y1 * scale_y

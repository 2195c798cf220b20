"""The net's output tensor becomes a picture of the frame: values to 0..255, channels to BGR, fit undone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fts.errors import FrameError
from fts.imaging.fit import FitTransform
from fts.imaging.opencv import cv2
from fts.vocabulary.preprocessing import ColorOrder, Layout


def frame_from_tensor(
    tensor: npt.NDArray[np.generic],
    layout: Layout,
    color: ColorOrder,
    value_range: tuple[float, float],
    transform: FitTransform,
) -> npt.NDArray[np.uint8]:
    """Turn an output tensor into a BGR picture of the frame's size times the net's scale.

    pixel = (value - low) / (high - low) * 255, rounded, clipped to 0..255

    Args:
        tensor: (1, C, H, W) or (1, H, W, C) as `layout` says, C = 1 or 3, any real type; not modified.
        layout: Axis order of the tensor.
        color: Channel order of three channels; "gray" counts as "rgb" there. One channel is grey in any case.
        value_range: (low, high) that become 0 and 255; high > low.
        transform: What the fit of the input did.

    Returns:
        BGR uint8 (H, W, 3); NaN becomes 0, so that one bad value does not become a bright pixel.

    Raises:
        FrameError: The tensor is no picture, or its size is not a whole multiple of the net's input.
    """
    low, high = value_range
    if not high > low:
        raise ValueError(f"value_range must rise, got ({low}, {high})")
    channel_axis = 1 if layout == "nchw" else 3
    if tensor.ndim != 4 or tensor.shape[0] != 1 or tensor.shape[channel_axis] not in (1, 3):
        form = "(1, C, H, W)" if layout == "nchw" else "(1, H, W, C)"
        raise FrameError(
            f"output picture: the tensor has shape {tensor.shape}, expected {form} with C = 1 or 3. "
            'Declare this output as kind = "tensor".'
        )
    pixels = _pixels(tensor[0], low, high)
    planes = list(pixels) if layout == "nchw" else list(np.moveaxis(pixels, 2, 0))  # C planes (H, W)
    if len(planes) == 1:
        planes *= 3
    elif color != "bgr":
        planes.reverse()  # RGB -> BGR
    return transform.undo(cv2.merge([np.ascontiguousarray(plane) for plane in planes]))


def _pixels(values: npt.NDArray[np.generic], low: float, high: float) -> npt.NDArray[np.uint8]:
    """uint8 of the same shape."""
    if values.dtype == np.uint8 and (low, high) == (0, 255):
        return values.view(np.uint8)
    # float32 holds every pixel value exactly; wider input keeps its own precision until the range is taken off.
    real = values.astype(np.float64 if values.dtype.itemsize > 4 else np.float32)
    with np.errstate(over="ignore"):  # what overflows to infinity is clipped below
        real -= low
        real *= 255 / (high - low)
    np.rint(real, out=real)
    np.fmax(real, 0, out=real)  # fmax, unlike maximum, prefers the number to a NaN
    np.fmin(real, 255, out=real)
    return real.astype(np.uint8)

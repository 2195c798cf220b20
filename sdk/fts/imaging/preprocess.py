"""A frame becomes the input tensor: the one implementation that calibration, verification and the app share.

    x = (pixel * scale - mean) / std     in float32, after the colour order is applied

A pixel has 256 values, so the whole formula, the rounding to the tensor's type included, is a table of 256 entries a
channel, and a tensor costs one look-up pass: no float copy of the frame exists at any time.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fts.errors import FrameError, ShapeError
from fts.imaging.fit import FitTransform, fit_frame
from fts.imaging.opencv import cv2
from fts.vocabulary.preprocessing import Preprocessing
from fts.vocabulary.tensor_spec import TensorSpec

# cv2.LUT moves elements without looking at them, but knows few types: each is carried as one of the same width.
_CARRIER_BY_ITEMSIZE = {1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.float64}


def tensor_from_frame(
    frame_bgr: npt.NDArray[np.uint8], spec: TensorSpec, pre: Preprocessing
) -> tuple[npt.NDArray[np.generic], FitTransform]:
    """Fit a frame, order its colours, normalise it.

    Args:
        frame_bgr: uint8 (H, W, 3) in BGR order, any size and strides, also read-only; not modified.
        spec: The input, with static shape (1, C, H, W) or (1, H, W, C) as `pre.layout` says.
        pre: How.

    Returns:
        The tensor of the spec's type and shape, never sharing memory with the frame, and the transform that brings
        the net's answer back to the frame.

    Raises:
        FrameError: The frame has another type, rank or channel count, is empty, or has another size under `exact`.
        ShapeError: The input is not one that a picture can feed under `pre`.
    """
    height_px, width_px = net_size(spec, pre)
    require_frame(frame_bgr)
    fitted, transform = fit_frame(frame_bgr, height_px, width_px, pre.fit, pre.pad_value)
    if pre.color == "gray":
        fitted = cv2.cvtColor(fitted, cv2.COLOR_BGR2GRAY)[..., None]  # (H, W, 3) -> (H, W, 1)
    source_channels = (2, 1, 0) if pre.color == "rgb" else tuple(range(pre.channels))
    table = _table(pre, np.dtype(spec.dtype))  # (C, 256)
    tensor = np.empty(spec.static_shape, table.dtype)
    carried = tensor.view(_CARRIER_BY_ITEMSIZE[tensor.dtype.itemsize])
    lookup = table.view(carried.dtype)
    for channel, source in enumerate(source_channels):
        plane = cv2.extractChannel(fitted, source)
        if table.dtype != np.uint8 or not _is_identity(table[channel]):
            plane = cv2.LUT(plane, lookup[channel])
        if pre.layout == "nchw":
            carried[0, channel] = plane
        else:
            carried[0, :, :, channel] = plane
    return tensor, transform


def net_size(spec: TensorSpec, pre: Preprocessing) -> tuple[int, int]:
    """Height and width of an image input.

    Args:
        spec: The input, with static shape.
        pre: Its preprocessing, which says where the channels stand.

    Returns:
        (height_px, width_px).

    Raises:
        ShapeError: The shape is not one picture of the channel count that `pre.color` gives.
    """
    shape = spec.static_shape
    form = "(1, C, H, W)" if pre.layout == "nchw" else "(1, H, W, C)"
    channels = shape[1 if pre.layout == "nchw" else 3] if len(shape) == 4 else 0
    if len(shape) != 4 or shape[0] != 1 or channels != pre.channels:
        raise ShapeError(
            f"input {spec.name!r}: has shape {shape}, expected {form} with C = {pre.channels} for a picture with color "
            f'"{pre.color}" and layout "{pre.layout}". Correct --color or --layout, or declare kind = "tensor".'
        )
    return (shape[2], shape[3]) if pre.layout == "nchw" else (shape[1], shape[2])


def require_frame(frame_bgr: npt.NDArray[np.uint8]) -> None:
    """Raise FrameError unless the frame is a uint8 array (H, W, 3) with at least one pixel."""
    if not isinstance(frame_bgr, np.ndarray):
        raise FrameError(
            f"frame: is a {type(frame_bgr).__name__}, expected a numpy array uint8 (H, W, 3) in BGR order. "
            "Pass what cv2 returns, or np.asarray(picture)[..., ::-1]."
        )
    if frame_bgr.dtype != np.uint8:
        raise FrameError(
            f"frame: has dtype {frame_bgr.dtype}, expected uint8 with values 0..255. "
            "Convert it, or pass a ready tensor to model.infer."
        )
    if frame_bgr.ndim == 2:
        raise FrameError(
            f"frame: is grey with shape {frame_bgr.shape}, expected (H, W, 3) in BGR order. "
            "Use cv2.cvtColor(frame, cv2.COLOR_GRAY2BGR)."
        )
    if frame_bgr.ndim != 3 or frame_bgr.shape[2] != 3:
        raise FrameError(
            f"frame: has shape {frame_bgr.shape}, expected (H, W, 3) in BGR order: channels last, no alpha. "
            "Use frame[..., :3] to drop alpha, frame[0] to drop a batch axis."
        )
    if not frame_bgr.size:
        raise FrameError(f"frame: has shape {frame_bgr.shape}, expected at least 1 pixel in height and width.")


@lru_cache(maxsize=32)
def _table(pre: Preprocessing, dtype: np.dtype[np.generic]) -> npt.NDArray[np.generic]:
    """Tensor value of each pixel value: `dtype` (C, 256), channels in the tensor's order, read-only."""
    mean, std = (_per_channel(values, pre.channels) for values in (pre.mean, pre.std))
    pixels = np.arange(256, dtype=np.float32)
    table: npt.NDArray[np.generic]
    real = (pixels * np.float32(pre.scale) - mean) / std
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)  # type: ignore[type-var]
        table = np.rint(real.astype(np.float64)).clip(limits.min, limits.max).astype(dtype)
    elif np.issubdtype(dtype, np.floating) and dtype.itemsize in _CARRIER_BY_ITEMSIZE:
        table = real.astype(dtype)
    else:
        raise ShapeError(f"a picture cannot feed an input of type {dtype}: it takes float16/32/64 or an integer type")
    table.flags.writeable = False
    return table


def _per_channel(values: tuple[float, ...], channels: int) -> npt.NDArray[np.float32]:
    """float32 (C, 1)."""
    return np.broadcast_to(np.asarray(values, np.float32), (channels,))[:, None]


def _is_identity(row: npt.NDArray[np.generic]) -> bool:
    return bool(np.array_equal(row, np.arange(256)))

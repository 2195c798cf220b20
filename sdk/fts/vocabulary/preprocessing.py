"""How a picture becomes the input tensor: the contract that calibration and the app share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

ColorOrder = Literal["rgb", "bgr", "gray"]
Layout = Literal["nchw", "nhwc"]
Fit = Literal["exact", "stretch", "letterbox", "crop"]

COLOR_ORDERS: tuple[str, ...] = get_args(ColorOrder)
LAYOUTS: tuple[str, ...] = get_args(Layout)
FITS: tuple[str, ...] = get_args(Fit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocessing:
    """x = (pixel * scale - mean) / std, channel by channel, after the colour order is applied.

    Attributes:
        color: Channel order of the tensor; "gray" gives one channel (ITU-R BT.601 luma, as OpenCV computes it).
        scale: Factor on the 0..255 pixel.
        mean: Subtracted after scaling; 1 value (gray) or 3 in the tensor's channel order.
        std: Divisor, same length as mean; no zero.
        layout: Axis order of the tensor.
        fit: How a frame of another size is brought to the net's height and width.
            exact: it must have them already; stretch: resized, aspect lost;
            letterbox: resized to fit inside, the rest filled; crop: resized to cover, the centre kept.
        pad_value: Pixel value 0..255 of the letterbox fill; 114 is the convention of the YOLO family.
    """

    color: ColorOrder = "rgb"
    scale: float = 1.0 / 255.0
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    layout: Layout = "nchw"
    fit: Fit = "letterbox"
    pad_value: int = 114

    @property
    def channels(self) -> int:
        """Channel count of the tensor: 1 for gray, else 3."""
        return 1 if self.color == "gray" else 3

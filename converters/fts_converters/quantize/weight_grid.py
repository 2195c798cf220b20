"""The grid of a constant weight, and its integers.

x86 without VNNI multiplies u8 by s8 and adds two neighbours of a dot product in 16 bits, which saturate: 255 * (127 + 127)
does not fit. Weights of 7 bits always fit, but only few pairs need that. What has to hold is |q_a + q_b| <= 128 for each pair,
so a channel's scale is as fine as its greatest weight on 8 bits and its greatest pair allow: some 4 dB finer than 7 bits
on trained weights. A pair that rounding takes over the limit gives one step back.

Which weights are neighbours depends on the order in which an engine walks a window: channels within a position, or
positions within a channel. Both are kept.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fts.vocabulary.quantization import QuantParams, Scheme
from fts_converters.quantize.ranges import quantize, weight_params

Integers = npt.NDArray[np.int64]
# The grid of weights whose pairs are bounded: all of 8 bits.
PAIRED = Scheme(bits=8, signed=True, symmetric=True, per_channel=True)


def weight_grid(
    weight: npt.NDArray[np.float32], scheme: Scheme, axis: int | None, pair_sum_limit: int | None
) -> QuantParams:
    """Scale and zero point of a weight.

    Args:
        weight: (O, I, *kernel) of a convolution with axis 0, or a matrix.
        scheme: The dialect's; not used where pairs are bounded.
        axis: Of the output channels; None for one scale.
        pair_sum_limit: Greatest magnitude of the sum of two neighbours, or None.

    Raises:
        NonFiniteValueError: A weight is NaN or infinite.
    """
    if pair_sum_limit is None:
        return weight_params(weight, scheme, axis)
    grid = weight_params(weight, PAIRED, axis)
    flat = weight.astype(np.float64).reshape(-1)
    pair = np.zeros(grid.scale.shape)
    for channels, left, right in _pairs(weight.shape, axis):
        np.maximum.at(pair, channels, np.abs(flat[left] + flat[right]))
    scale = np.maximum(grid.scale.astype(np.float64), pair / pair_sum_limit).astype(np.float32)
    return QuantParams(scale=scale, zero_point=grid.zero_point, scheme=PAIRED, axis=axis)


def weight_integers(
    weight: npt.NDArray[np.float32], grid: QuantParams, pair_sum_limit: int | None
) -> npt.NDArray[np.generic]:
    """The weight on its grid, with no pair over the limit."""
    integers = quantize(weight, grid)
    return integers if pair_sum_limit is None else within_pairs(integers, grid.axis, pair_sum_limit)


def within_pairs(integers: npt.NDArray[np.generic], axis: int | None, pair_sum_limit: int) -> npt.NDArray[np.generic]:
    """Integers with those steps given back that take a pair over the limit; the same shape and type."""
    flat = integers.astype(np.int64).reshape(-1)
    pairs = _pairs(integers.shape, axis)
    while True:
        over = False
        for _, left, right in pairs:
            excess = flat[left] + flat[right]
            bad = np.abs(excess) > pair_sum_limit
            if bad.any():
                over = True
                left_bad, right_bad = left[bad], right[bad]
                is_left = np.abs(flat[left_bad]) >= np.abs(flat[right_bad])
                flat[np.where(is_left, left_bad, right_bad)] -= excess[bad] - np.sign(excess[bad]) * pair_sum_limit
        if not over:
            return flat.reshape(integers.shape).astype(integers.dtype)


def _pairs(shape: tuple[int, ...], axis: int | None) -> list[tuple[Integers, Integers, Integers]]:
    """(channel, place of one, place of the other) of all neighbours, for each order of a window; places count flat."""
    places: Integers = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    if axis is None:
        rows = np.moveaxis(places, -2, -1).reshape(-1, shape[-2]) if len(shape) > 1 else places.reshape(1, -1)
        return [_neighbours(rows, np.zeros(len(rows), np.int64))]
    rows = np.moveaxis(places, axis, 0)
    channels = np.arange(len(rows), dtype=np.int64)
    orders = [rows.reshape(len(rows), -1)]
    if rows.ndim > 2 and rows.shape[1] > 1:
        orders.append(np.moveaxis(rows, 1, -1).reshape(len(rows), -1))
    return [_neighbours(order, channels) for order in orders]


def _neighbours(rows: Integers, channels: Integers) -> tuple[Integers, Integers, Integers]:
    count = rows.shape[1] // 2
    left, right = rows[:, 0 : 2 * count : 2], rows[:, 1 : 2 * count : 2]
    return np.repeat(channels, count), left.reshape(-1), right.reshape(-1)

"""A hash that pictures share when people would call them the same.

Source: the DCT hash of Zauner, "Implementation and Benchmarking of Perceptual Image Hash Functions", 2010, section 3.2.1:
the lowest 8x8 frequencies of the grey picture at 32x32 pixels, each a bit: above their median or not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fts.imaging.opencv import cv2

_SIDE_PX, _KEPT = 32, 8


def perceptual_hash(gray: npt.NDArray[np.float32]) -> int:
    """64 bits of a grey picture (H, W), any size and value range."""
    small = cv2.resize(gray, (_SIDE_PX, _SIDE_PX), interpolation=cv2.INTER_AREA)
    frequencies = cv2.dct(np.ascontiguousarray(small, np.float32))[:_KEPT, :_KEPT].ravel()
    above = frequencies > np.median(frequencies[1:])  # without the mean, which says nothing of the content
    return int.from_bytes(np.packbits(above).tobytes(), "big")


def distances(hashes: npt.NDArray[np.uint64], one: int) -> npt.NDArray[np.int64]:
    """Number of bits, (n,), in which each of the hashes (n,) differs from one."""
    differing = hashes ^ np.uint64(one)
    bits = np.unpackbits(differing.view(np.uint8).reshape(len(hashes), 8), axis=1)
    return np.asarray(bits.sum(axis=1), np.int64)

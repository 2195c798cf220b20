"""A weighted operator as matrix products: what it reads at one output position is a row, the output one product with it.

    y[p, g*M + m] = sum_k weight[g, m, k] * rows[g, p, k] + bias[g*M + m]

Conv has G groups, and K runs over the kernel's places and within each over the group's input channels; Gemm and MatMul with
a constant right matrix have one group. ConvTranspose is not such a product: each input is spread over several outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


class LinearLayer(Protocol):
    """Sizes: G groups of M output channels and K products."""

    def positions(self, x_shape: tuple[int, ...]) -> int:
        """Number of output positions for an input of this shape."""

    def rows(self, x: FloatArray, chosen: IntArray) -> FloatArray:
        """What is read at chosen positions (flat indices): float32 (G, P, K)."""

    def outputs(self, y: FloatArray, chosen: IntArray) -> FloatArray:
        """The output at those positions: float32 (G, P, M)."""

    def matrix_from_weight(self, weight: FloatArray) -> FloatArray:
        """The weight tensor as (G, M, K)."""

    def weight_from_matrix(self, matrix: FloatArray) -> FloatArray:
        """Its inverse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvLayer:
    """Conv of any number of spatial axes.

    Attributes:
        weight_shape: (O, C / G, *kernel).
        groups: G.
        strides: One number a spatial axis, as the next two.
        dilations: Distance of the kernel's places.
        pads_begin: Zeros in front.
        pads_end: Zeros behind.
    """

    weight_shape: tuple[int, ...]
    groups: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]

    def positions(self, x_shape: tuple[int, ...]) -> int:
        return x_shape[0] * prod(self._output_sizes(x_shape))

    def rows(self, x: FloatArray, chosen: IntArray) -> FloatArray:
        sizes = self._output_sizes(x.shape)
        n, *places = np.unravel_index(chosen, (x.shape[0], *sizes))
        pads = [(0, 0), *zip(self.pads_begin, self.pads_end, strict=True), (0, 0)]
        padded = np.pad(np.moveaxis(x, 1, -1), pads)  # NC... -> N...C: the channels of a place lie together
        firsts = [p * s for p, s in zip(places, self.strides, strict=True)]
        kernel = self.weight_shape[2:]
        reads = []
        for offset in product(*map(range, kernel)):
            place = [f + k * d for f, k, d in zip(firsts, offset, self.dilations, strict=True)]
            reads.append(padded[tuple([n, *place])])
        together = np.stack(reads, axis=1).reshape(len(chosen), len(reads), self.groups, -1)
        grouped = together.transpose(2, 0, 1, 3)  # P, place, G, C/G -> G, P, place, C/G
        return np.ascontiguousarray(grouped).reshape(self.groups, len(chosen), -1)

    def outputs(self, y: FloatArray, chosen: IntArray) -> FloatArray:
        n, *places = np.unravel_index(chosen, (y.shape[0], *y.shape[2:]))
        found = np.moveaxis(y, 1, -1)[tuple([n, *places])]
        return np.ascontiguousarray(found.reshape(len(chosen), self.groups, -1).transpose(1, 0, 2))

    def matrix_from_weight(self, weight: FloatArray) -> FloatArray:
        last = np.moveaxis(weight, 1, -1)  # O, C/G, kernel -> O, kernel, C/G
        return np.ascontiguousarray(last).reshape(self.groups, self.weight_shape[0] // self.groups, -1)

    def weight_from_matrix(self, matrix: FloatArray) -> FloatArray:
        channels, inner, *kernel = self.weight_shape
        return np.ascontiguousarray(np.moveaxis(matrix.reshape(channels, *kernel, inner), -1, 1))

    def _output_sizes(self, x_shape: tuple[int, ...]) -> tuple[int, ...]:
        reach = [(k - 1) * d + 1 for k, d in zip(self.weight_shape[2:], self.dilations, strict=True)]
        padded = [s + a + b for s, a, b in zip(x_shape[2:], self.pads_begin, self.pads_end, strict=True)]
        return tuple((p - r) // s + 1 for p, r, s in zip(padded, reach, self.strides, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixLayer:
    """Gemm, and MatMul with a constant right matrix: the last axis of the input is summed over.

    Attributes:
        is_transposed: The weight is (M, K), else (K, M).
    """

    is_transposed: bool

    def positions(self, x_shape: tuple[int, ...]) -> int:
        return prod(x_shape[:-1])

    def rows(self, x: FloatArray, chosen: IntArray) -> FloatArray:
        return np.ascontiguousarray(x.reshape(-1, x.shape[-1])[None, chosen])

    def outputs(self, y: FloatArray, chosen: IntArray) -> FloatArray:
        return np.ascontiguousarray(y.reshape(-1, y.shape[-1])[None, chosen])

    def matrix_from_weight(self, weight: FloatArray) -> FloatArray:
        return np.ascontiguousarray(weight if self.is_transposed else weight.T)[None]

    def weight_from_matrix(self, matrix: FloatArray) -> FloatArray:
        return np.ascontiguousarray(matrix[0] if self.is_transposed else matrix[0].T)

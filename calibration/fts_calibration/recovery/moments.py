"""Second moments of what a layer reads in the quantized net, and of what it should give: all that fitting its weights needs.

With x the rows read in the quantized net and y the layer's output in the float net, any weights W and bias b are off by

    E |y - W x - b|^2 = tr(W H W^T) - 2 tr(W C^T) + ...,    H = E[x x^T],  C = E[y x^T]

so that no sample is needed again once H, C and the means are known. y being that of the float net, errors that came in with
x are part of it, and fitting makes up for them where it can.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """Of one layer; G groups, M output channels and K products a group.

    Attributes:
        count: Rows seen.
        x_mean: (G, K).
        y_mean: (G, M).
        xx: E[x x^T], (G, K, K); None where only means were asked for.
        yx: E[y x^T], (G, M, K); likewise.
    """

    count: int
    x_mean: Float64Array
    y_mean: Float64Array
    xx: Float64Array | None = None
    yx: Float64Array | None = None

    def centred(self) -> tuple[Float64Array, Float64Array]:
        """Covariances (H - E[x] E[x]^T, C - E[y] E[x]^T): the moments that count where a bias takes the means."""
        assert self.xx is not None
        assert self.yx is not None
        x, y = self.x_mean[:, None, :], self.y_mean[:, :, None]
        return self.xx - x.transpose(0, 2, 1) * x, self.yx - y * x


class MomentsSum:
    """Adds rows up, in double precision over the samples."""

    def __init__(self, *, with_products: bool) -> None:
        self._with_products = with_products
        self._count = 0
        self._x: Float64Array | None = None
        self._y: Float64Array | None = None
        self._xx: Float64Array | None = None
        self._yx: Float64Array | None = None

    def add(self, x: FloatArray, y: FloatArray) -> None:
        """Count rows in: x (G, P, K) and y (G, P, M)."""
        self._count += x.shape[1]
        self._x = _plus(self._x, x.sum(axis=1, dtype=np.float64))
        self._y = _plus(self._y, y.sum(axis=1, dtype=np.float64))
        if self._with_products:
            self._xx = _plus(self._xx, x.transpose(0, 2, 1) @ x)
            self._yx = _plus(self._yx, y.transpose(0, 2, 1) @ x)

    def moments(self) -> Moments:
        """Of all rows so far, at least one."""
        assert self._x is not None
        assert self._y is not None
        n = self._count
        return Moments(
            count=n,
            x_mean=self._x / n,
            y_mean=self._y / n,
            xx=None if self._xx is None else self._xx / n,
            yx=None if self._yx is None else self._yx / n,
        )


def _plus(total: Float64Array | None, part: npt.NDArray[np.floating]) -> Float64Array:
    if total is None:
        return part.astype(np.float64)
    total += part
    return total

"""From observed bounds to scale and zero point.

real = scale * (q - zero_point),  qmin <= q <= qmax
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fts.errors import NonFiniteValueError
from fts.vocabulary.quantization import QuantParams, Scheme

# The least range a grid is given. A product of two such scales, (1e-12 / 255)**2 = 1.5e-29, is still a normal float32
# (least 1.2e-38) with room for a division by an output scale; nets with weights or activations of 1e-8 keep all levels.
LEAST_RANGE = 1e-12


def params_from_range(
    low: npt.NDArray[np.float32], high: npt.NDArray[np.float32], scheme: Scheme, axis: int | None = None
) -> QuantParams:
    """Choose scale and zero point so that [low, high] and 0 are representable.

    Args:
        low: Observed lower bounds, float32 (C,), in the tensor's own unit; C = 1 per tensor.
        high: Observed upper bounds, same shape and unit.
        scheme: Bit width and symmetry; symmetric forces zero_point = 0.
        axis: Axis that C runs along, None per tensor.

    Returns:
        scale float32 (C,) > 0 and zero_point int32 (C,) within [qmin, qmax].

    Raises:
        NonFiniteValueError: A bound is NaN or infinite.

    Source:
        Jacob et al. 2018, arXiv:1712.05877, eq. (1); 0 is kept exact so that padding is.
    """
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise NonFiniteValueError("range: a bound is NaN or infinite, expected finite bounds; no grid can cover it")
    low64, high64 = np.minimum(low.astype(np.float64), 0.0), np.maximum(high.astype(np.float64), 0.0)
    if scheme.symmetric:
        reach = np.maximum(np.maximum(-low64, high64), LEAST_RANGE)
        scale = (reach / scheme.qmax).astype(np.float32)
        return QuantParams(scale=scale, zero_point=np.zeros(scale.shape, np.int32), scheme=scheme, axis=axis)
    high64 = np.where(high64 - low64 < LEAST_RANGE, low64 + LEAST_RANGE, high64)
    scale = ((high64 - low64) / (scheme.qmax - scheme.qmin)).astype(np.float32)
    zero_point = np.clip(np.rint(scheme.qmin - low64 / scale), scheme.qmin, scheme.qmax).astype(np.int32)
    return QuantParams(scale=scale, zero_point=zero_point, scheme=scheme, axis=axis)


def weight_params(weight: npt.NDArray[np.float32], scheme: Scheme, axis: int | None) -> QuantParams:
    """Grid of a constant weight, by its greatest magnitude: per channel along `axis`, or one for all when None.

    It has as many steps on either side of 0; an unsigned scheme has 0 in its middle.
    """
    if axis is None:
        reach = np.abs(weight).max(initial=0.0).reshape(1)
    else:
        others = tuple(i for i in range(weight.ndim) if i != axis)
        reach = np.abs(weight).max(axis=others, initial=0.0)
    if not np.isfinite(reach).all():
        raise NonFiniteValueError("range: a weight is NaN or infinite, expected finite weights; no grid can cover it")
    middle = 0 if scheme.signed else 1 << (scheme.bits - 1)
    scale = (np.maximum(reach.astype(np.float64), LEAST_RANGE) / (scheme.qmax - middle)).astype(np.float32)
    return QuantParams(scale=scale, zero_point=np.full(scale.shape, middle, np.int32), scheme=scheme, axis=axis)


def quantize(values: npt.NDArray[np.float32], params: QuantParams) -> npt.NDArray[np.generic]:
    """Round to the grid, ties to even, and clip to its ends."""
    scale, zero_point = params.scale.astype(np.float64), params.zero_point
    if params.axis is not None:
        shape = [1] * values.ndim
        shape[params.axis] = -1
        scale, zero_point = scale.reshape(shape), zero_point.reshape(shape)
    q = np.clip(np.rint(values.astype(np.float64) / scale) + zero_point, params.scheme.qmin, params.scheme.qmax)
    return np.asarray(q, dtype=params.scheme.storage)

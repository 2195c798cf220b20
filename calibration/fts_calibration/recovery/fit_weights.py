"""Integer weights that bring a layer's output in the quantized net nearest to its output in the float net.

Minimises, for each output channel, the exact quadratic objective of `moments` over the integers q and the scale s,

    |target - s q|_H^2 = (target - s q) H (target - s q)^T

1. The target is the float weight moved by ridge regression towards what the rows of the quantized net ask for.
2. The scale is the one, of some below the greatest magnitude, under which plain rounding errs least.
3. From plain rounding, coordinate descent: each integer in turn takes its best value with all others fixed, until a sweep
   gains little. (On made-up rows of 2304 products GPTQ, arXiv:2210.17323, came to 0.72 of plain rounding's error, descent
   to 0.64 from either start.)

Source: scales by output error: SeqMSE of AIMET. Objective and layer-wise order: Nagel et al. 2020, AdaRound,
arXiv:2004.10568, eq. (13), (20), here with the quantized net's inputs and solved over all integers, not the two nearest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]
FloatArray = npt.NDArray[np.floating]

# Added to the diagonal of H, as a share of its mean: for the target, of what keeps it near the float weights (on an upscaling
# net 0.1 gave 46.4 dB on select, 0.01 46.0, no move at all 45.5); for rounding, so that no direction is free.
RIDGE, DAMPING = 0.1, 0.01
# Scales tried, as shares of the one that reaches the greatest magnitude.
# Those above 1 are for engines that cannot take all integers.
SHARES = tuple(float(s) for s in np.linspace(1.9, 0.5, 29))
# Sweeps of coordinate descent; it stops when a sweep gains less than this share of the objective.
MOST_SWEEPS, LEAST_SWEEP_GAIN = 8, 5e-3
# A channel of zeros has a grid all the same (`quantize/ranges.py` has the same bound).
LEAST_RANGE = 1e-12
# Columns whose pushes are gathered before they reach the rest of the matrix.
BLOCK = 128


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """Weights on their grid, for G groups of M channels and K products.

    Attributes:
        integers: float64 (G, M, K) of whole numbers.
        scales: float32 (G, M), > 0.
        error: Objective at these weights, (G, M).
        nearest_error: Objective of plain rounding by the greatest magnitude, (G, M).
    """

    integers: Float64Array
    scales: npt.NDArray[np.float32]
    error: Float64Array
    nearest_error: Float64Array


def shrunk(xx: Float64Array, rows: int) -> tuple[Float64Array, float]:
    """H with its off-diagonal part times n / (n + K), and that factor.

    Of K independent products n rows still see correlations of about 1 / sqrt(n); K of them add up to K / n beside the 1 of
    the diagonal. Fitted to those, weights fit the photos and not the net: late layers of a small classifier have 99 rows for
    2304 products over 11 photos, and without this came out worse than by plain rounding.

    Args:
        xx: H, (G, K, K).
        rows: n that it was measured over.
    """
    k = xx.shape[1]
    trust = rows / (rows + k)
    return np.asarray(xx * np.where(np.eye(k, dtype=bool), 1.0, trust)), trust


def target_weights(
    weight: Float64Array, xx: Float64Array, yx: Float64Array, rows: int, ridge: float = RIDGE
) -> Float64Array:
    """W + t (C - W H)(H_t + r I)^-1: the weights (G, M, K) that give y from the rows of the quantized net.

    Args:
        weight: Float weights, (G, M, K).
        xx: H, (G, K, K), centred where a bias takes the means.
        yx: C, (G, M, K), likewise.
        rows: n that both were measured over; t and H_t are `shrunk`'s.
        ridge: r as a share of H's mean diagonal; the greater, the nearer to `weight`.

    Source:
        Normal equation of E |y - W x|^2 + r |W - weight|^2.
    """
    h, trust = shrunk(xx, rows)
    missing = trust * (yx - weight @ xx)
    moved: Float64Array = np.linalg.solve(_damped(h, ridge), missing.transpose(0, 2, 1)).transpose(0, 2, 1)
    return np.asarray(weight + moved)


def fit_weights(
    target: Float64Array,
    xx: Float64Array,
    rows: int,
    qmax: int,
    project: Callable[[Float64Array], Float64Array] = lambda q: q,
) -> Fitted:
    """Scales and integers for a target, as described at the top of this file.

    Args:
        target: (G, M, K).
        xx: H, (G, K, K).
        rows: n that it was measured over.
        qmax: Greatest integer; the least is its negative.
        project: Integers (G, M, K) to near ones that the engine can take; the same where it takes all.
    """
    h = _damped(shrunk(xx, rows)[0], DAMPING)
    plain = (_reach(target) / qmax).astype(np.float32).astype(np.float64)
    nearest = _objective(project(_round(target, plain, qmax)) * plain[..., None] - target, h)
    scales = _best_scales(target, h, qmax, project)
    rounded = project(_round(target, scales, qmax))
    integers = project(_descended(rounded, target, h, scales, qmax))
    error, before = (_objective(q * scales[..., None] - target, h) for q in (integers, rounded))
    integers = np.where((error <= before)[..., None], integers, rounded)
    error = np.minimum(error, before)
    return Fitted(integers=integers, scales=scales.astype(np.float32), error=error, nearest_error=nearest)


def _best_scales(
    target: Float64Array, h: Float64Array, qmax: int, project: Callable[[Float64Array], Float64Array]
) -> Float64Array:
    """(G, M), exactly representable in float32. Candidates are compared in single precision: twice as fast."""
    h32 = h.astype(np.float32)
    full = _reach(target) / qmax
    best = full.astype(np.float32).astype(np.float64)
    least = np.full(full.shape, np.inf)
    for share in SHARES:
        scale = (full * share).astype(np.float32).astype(np.float64)
        difference = project(_round(target, scale, qmax)) * scale[..., None] - target
        error = _objective(difference.astype(np.float32), h32)
        best, least = np.where(error < least, scale, best), np.minimum(error, least)
    return best


def _descended(
    integers: Float64Array, target: Float64Array, h: Float64Array, scales: Float64Array, qmax: int
) -> Float64Array:
    """Coordinate descent from given integers.

    The slope (s q - target) H is kept up to date by blocks of columns, so that a sweep costs one product with H.
    """
    q = integers.copy()
    k = q.shape[2]
    diagonal = np.diagonal(h, axis1=1, axis2=2)
    slope = (q * scales[..., None] - target) @ h
    error = _dot(slope, q * scales[..., None] - target)
    for _ in range(MOST_SWEEPS):
        for start in range(0, k, BLOCK):
            stop = min(start + BLOCK, k)
            moves = np.empty((*q.shape[:2], stop - start))
            inner = slope[:, :, start:stop].copy()
            for j in range(start, stop):
                wanted = q[:, :, j] - inner[:, :, j - start] / (diagonal[:, j, None] * scales)
                moved = np.clip(np.rint(wanted), -qmax, qmax)
                move = (moved - q[:, :, j]) * scales
                q[:, :, j] = moved
                inner[:, :, j - start :] += move[..., None] * h[:, None, j, j:stop]
                moves[:, :, j - start] = move
            slope += moves @ h[:, start:stop]
        now = _dot(slope, q * scales[..., None] - target)
        is_done = now.sum() > (1 - LEAST_SWEEP_GAIN) * error.sum()
        error = now
        if is_done:
            break
    return np.asarray(q)


def _round(values: Float64Array, scales: Float64Array, qmax: int) -> Float64Array:
    rounded: Float64Array = np.clip(np.rint(values / scales[..., None]), -qmax, qmax)
    return rounded


def _objective(difference: FloatArray, h: FloatArray) -> Float64Array:
    return _dot(difference @ h, difference)


def _dot(a: FloatArray, b: FloatArray) -> Float64Array:
    value: Float64Array = np.einsum("gmk,gmk->gm", a, b, dtype=np.float64)
    return value


def _damped(xx: Float64Array, ridge: float) -> Float64Array:
    k = xx.shape[1]
    mean = np.trace(xx, axis1=1, axis2=2) / k
    return np.asarray(xx + (ridge * np.maximum(mean, np.finfo(np.float32).tiny))[:, None, None] * np.eye(k))


def _reach(weight: Float64Array) -> Float64Array:
    """Greatest magnitude of each channel, (G, M), above 0."""
    return np.asarray(np.maximum(np.abs(weight).max(axis=2), LEAST_RANGE))

"""Resize: each axis on its own, a weighted sum of one (nearest), two (linear) or four (cubic) elements.

Coordinates are float32, as in ONNX Runtime: which element is nearest may hang on the last bit.

Does *not* do antialiasing, cropping (`tf_crop_and_resize`) or aspect ratio policies.

Source: ONNX specification, Resize-10, -11, -13, -18, -19; cubic weights: R. Keys, "Cubic convolution interpolation for
digital image processing", IEEE Trans. ASSP 29 (1981), with a of the attribute `cubic_coeff_a`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fts_calibration.train.operators.node import Node, Run

MODES = ("nearest", "linear", "cubic")
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
# What opset 10 does, which has no attribute for it: the element before where it enlarges, behind where it shrinks.
BEFORE_OR_BEHIND = "before_or_behind"
Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Attributes of a Resize."""

    mode: str
    coordinates: str
    nearest: str
    cubic_a: float
    is_outside_excluded: bool


def _resize(node: Node) -> Run:
    mode = node.choice("mode", "nearest", MODES)
    if node.opset < 11:
        old = _Rule(
            mode=mode, coordinates="asymmetric", nearest=BEFORE_OR_BEHIND, cubic_a=0.0, is_outside_excluded=False
        )
        return lambda x, scales: _resized(x, _sizes_from_scales(x, range(x.dim()), scales.tolist()), old)
    rule = _Rule(
        mode=mode,
        coordinates=node.choice("coordinate_transformation_mode", "half_pixel", COORDINATES),
        nearest=node.choice("nearest_mode", "round_prefer_floor", NEAREST_MODES),
        cubic_a=node.number("cubic_coeff_a", -0.75),
        is_outside_excluded=bool(node.integer("exclude_outside", 0)),
    )
    node.only("antialias", 0)
    node.choice("keep_aspect_ratio_policy", "stretch", ("stretch",))
    node.ignore("extrapolation_value")  # of tf_crop_and_resize alone
    axes = node.integers("axes")

    def run(x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None) -> Tensor:
        chosen = range(x.dim()) if axes is None else [a % x.dim() for a in axes]
        if sizes is not None and sizes.numel():
            wanted = {a: (int(s), float(s) / x.shape[a]) for a, s in zip(chosen, sizes.tolist(), strict=True)}
        elif scales is not None:
            wanted = _sizes_from_scales(x, chosen, scales.tolist())
        else:
            raise node.refusal("neither sizes nor scales", "one of them")
        return _resized(x, wanted, rule)

    return run


def _sizes_from_scales(x: Tensor, axes: Sequence[int], scales: Sequence[float]) -> dict[int, tuple[int, float]]:
    """Axis to (output size, scale)."""
    return {a: (int(np.floor(np.float32(x.shape[a]) * np.float32(s))), s) for a, s in zip(axes, scales, strict=True)}


def _resized(x: Tensor, wanted: dict[int, tuple[int, float]], rule: _Rule) -> Tensor:
    for axis, (size, scale) in wanted.items():
        if size == x.shape[axis] and scale == 1.0:
            continue
        indices, weights = _taps(x.shape[axis], size, np.float32(scale), rule)
        y: Tensor | None = None
        for index, weight in zip(indices, weights, strict=True):
            part = x.index_select(axis, torch.from_numpy(index).to(x.device))
            if rule.mode != "nearest":
                factor = torch.from_numpy(weight).to(x.device, x.dtype)
                part = part * factor.reshape(-1, *[1] * (x.dim() - 1 - axis))
            y = part if y is None else y + part
        assert y is not None
        x = y
    return x


def _taps(old: int, new: int, scale: np.float32, rule: _Rule) -> tuple[Integers, Floats]:
    """Indices and weights, both (taps, new)."""
    place = _coordinates(old, new, scale, rule.coordinates)
    if rule.mode == "nearest":
        index = np.clip(_nearest(place, scale, rule.nearest), 0, old - 1).astype(np.int64)
        return index[None], np.ones((1, new), np.float32)
    before = np.floor(place)
    offset = place - before
    if rule.mode == "linear":
        index = before + np.array([[0], [1]])
        weights = np.stack([1 - offset, offset])
    else:
        index = before + np.array([[-1], [0], [1], [2]])
        weights = _cubic(np.abs(place - index), rule.cubic_a)
    if rule.is_outside_excluded:
        weights = np.where((index >= 0) & (index < old), weights, 0)
        weights = weights / weights.sum(axis=0)
    return np.clip(index, 0, old - 1).astype(np.int64), weights.astype(np.float32)


def _coordinates(old: int, new: int, scale: np.float32, mode: str) -> Floats:
    """Place in the input of each element of the output."""
    x = np.arange(new, dtype=np.float32)
    half = np.float32(0.5)
    if mode == "asymmetric":
        return np.asarray(x / scale, np.float32)
    if mode == "align_corners":
        return np.asarray(x * np.float32(old - 1) / np.float32(max(new - 1, 1)), np.float32)
    if mode == "pytorch_half_pixel" and new == 1:
        return np.zeros_like(x)
    centred: Floats = (x + half) / scale - half
    if mode == "half_pixel_symmetric":
        adjustment = np.float32(new) / (scale * np.float32(old))
        return np.asarray(centred + np.float32(old) / 2 * (1 - adjustment), np.float32)
    return centred


def _nearest(place: Floats, scale: np.float32, mode: str) -> Floats:
    if mode == BEFORE_OR_BEHIND:
        mode = "ceil" if scale < 1 else "floor"
    if mode == "floor":
        nearest = np.floor(place)
    elif mode == "ceil":
        nearest = np.ceil(place)
    elif mode == "round_prefer_floor":
        nearest = np.ceil(place - np.float32(0.5))
    else:
        nearest = np.floor(place + np.float32(0.5))
    return np.asarray(nearest, np.float32)


def _cubic(distance: Floats, a: float) -> npt.NDArray[np.floating]:
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


OPERATORS = {"Resize": _resize}

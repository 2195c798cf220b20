"""Resize in every mode, coordinate transformation and rounding; GridSample by constant and by computed grids."""

from __future__ import annotations

import math

import numpy as np
from tests.generators.builder import F32, I64, Builder, Emitter, Value

FACTORS = (1.0, 2.0, 3.0, 4.0, 0.5, 1.5, 0.75, 1.3, 2.7, 0.4)


def resize_case(b: Builder) -> Value:
    spatial = b.choose((1, 2, 2, 2, 3))
    mode = b.choose(("nearest", "nearest", "linear", "linear", "cubic"))
    if mode == "cubic":
        spatial = 2
    x = b.input((1, b.integer(1, 3), *(b.integer(3, 7) for _ in range(spatial))))
    modes = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    if b.opset >= 19:
        modes.append("half_pixel_symmetric")
    coordinates = b.choose((None, *modes, "tf_crop_and_resize"))
    antialias = (
        b.opset >= 18 and mode != "nearest" and spatial == 2 and coordinates != "tf_crop_and_resize" and b.chance(0.25)
    )
    cut = coordinates == "tf_crop_and_resize"
    roi = None
    if cut:
        begin = [0.0, 0.0, *(float(b.rng.uniform(-0.1, 0.3)) for _ in range(spatial))]
        end = [1.0, 1.0, *(float(b.rng.uniform(0.6, 1.1)) for _ in range(spatial))]
        roi = b.const(np.array(begin + end), F32)
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        "nearest_mode": b.choose((None, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
        if mode == "nearest"
        else None,
        "cubic_coeff_a": b.choose((None, -0.5)) if mode == "cubic" else None,
        "exclude_outside": b.choose((None, 1)) if mode == "cubic" and not cut else None,
        "extrapolation_value": b.choose((None, 0.5)) if cut else None,
        "antialias": 1 if antialias else None,
    }
    if cut or b.chance(0.4):
        sizes = [*x.shape[:2], *(b.integer(1, 12) for _ in range(spatial))]
        if b.opset >= 18 and b.chance(0.3):
            attributes["axes"] = list(range(2, x.rank))
            if roi is not None:
                roi = b.const(np.array(begin[2:] + end[2:]), F32)
            return b.node("Resize", [x, roi, None, b.const(sizes[2:], I64)], sizes, F32, 5.0, **attributes)
        return b.node("Resize", [x, roi, None, b.const(sizes, I64)], sizes, F32, 5.0, **attributes)
    scales = [1.0, 1.0, *(b.choose(FACTORS) for _ in range(spatial))]
    shape = [math.floor(np.float32(n) * np.float32(s)) for n, s in zip(x.shape, scales, strict=True)]
    return b.node("Resize", [x, roi, b.const(scales, F32)], shape, F32, 5.0, **attributes)


def resize_aspect_case(b: Builder) -> Value:
    """Sizes that keep the aspect ratio: the runtime derives both scales from one."""
    x = b.input((1, 2, b.integer(3, 7), b.integer(3, 7)))
    wanted = [b.integer(2, 12), b.integer(2, 12)]
    policy = b.choose(("not_larger", "not_smaller"))
    ratios = [w / n for w, n in zip(wanted, x.shape[2:], strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    sizes = [math.floor(scale * n + 0.5) for n in x.shape[2:]]
    return b.node(
        "Resize",
        [x, None, None, b.const(wanted, I64)],
        (*x.shape[:2], *sizes),
        F32,
        5.0,
        mode=b.choose(("linear", "nearest")),
        axes=[2, 3],
        keep_aspect_ratio_policy=policy,
    )


def _grid_attributes(b: Builder) -> dict[str, object]:
    bilinear, bicubic = ("bilinear", "bicubic") if b.opset < 20 else ("linear", "cubic")
    return {
        "mode": b.choose((None, bilinear, bilinear, "nearest", "nearest", bicubic)),
        "padding_mode": b.choose((None, "zeros", "border", "reflection")),
        "align_corners": b.choose((None, 0, 1)),
    }


def grid_sample_constant(b: Builder) -> Value:
    """A rotation and scale with values outside, as spatial transformers with fixed parameters have."""
    n = b.integer(1, 2)
    x = b.input((n, b.integer(1, 3), b.integer(2, 6), b.integer(2, 6)))
    out = (b.integer(1, 6), b.integer(1, 6))
    grid = b.rng.uniform(-1.4, 1.4, (n, *out, 2))
    return b.node("GridSample", [x, b.const(grid, F32)], (n, x.shape[1], *out), F32, 4.0, **_grid_attributes(b))


def grid_sample_computed(b: Builder) -> Value:
    n = b.integer(1, 2)
    x = b.input((n, b.integer(1, 3), b.integer(2, 6), b.integer(2, 6)))
    out = (b.integer(1, 5), b.integer(1, 5))
    flow = b.input((n, *out, 2))
    grid = b.node("Mul", [flow, b.scalar(b.choose((0.25, 0.5, 0.4)))], flow.shape, F32, 1.5)
    return b.node("GridSample", [x, grid], (n, x.shape[1], *out), F32, 4.0, **_grid_attributes(b))


EMITTERS = (
    Emitter(emit=resize_case),
    Emitter(emit=resize_aspect_case, since=18),
    Emitter(emit=grid_sample_constant, since=16),
    Emitter(emit=grid_sample_computed, since=16),
)

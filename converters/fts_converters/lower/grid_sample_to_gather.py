"""GridSample becomes a Gather of the samples that each output is made of, times their weights, summed.

A grid gives a place (gx, gy) in -1..1 for each output; in samples that is

    x = (gx + 1) / 2 (W - 1)   with align_corners,   x = ((gx + 1) W - 1) / 2   without

and bilinear interpolation takes the four samples around it. With a constant grid samples and weights are constants, for
every mode and padding. A computed grid is spelled out for nearest and bilinear with zeros or border padding: Floor, Clip,
weights that are 0 outside, and row numbers for the Gather.

Refused: computed grids with cubic interpolation or reflection, other ranks than 4, types other than float32, and images
whose places float32 cannot number.

Source: GridSample of the ONNX operator specification, versions 16 and 20, whose arithmetic is done in float32 here too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_reading import constant

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
# Above it not every whole number is a float32.
MOST_PLACES = 2**24
CUBIC_COEFFICIENT = -0.75  # of the operator's text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """Attributes of the node and the image's size."""

    mode: str
    padding: str
    aligned: bool
    height: int
    width: int


def grid_sample_to_gather(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted GridSample that can be."""
    return lower_each(model, ("GridSample",), _replace, choice)


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    x, grid = node.inputs
    shape, result = nodes.shape(x), nodes.shape(node.outputs[0])
    if len(shape) != 4:
        return f"it samples a tensor of {len(shape)} axes"
    if nodes.dtype != np.float32:
        return f"it computes in {nodes.dtype.name}"
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(text := str(node.attrs.get("mode", "linear")), text)
    form = _Form(
        mode=mode,
        padding=str(node.attrs.get("padding_mode", "zeros")),
        aligned=bool(node.attrs.get("align_corners", 0)),
        height=shape[2],
        width=shape[3],
    )
    if form.height * form.width >= MOST_PLACES:
        return f"its image has {form.height * form.width} places, float32 numbers {MOST_PLACES}"
    known = constant(grid)
    if known is not None:
        value = _by_constants(nodes, x, *_constant_taps(form, np.asarray(known, np.float32)))
        return nodes.reshape(value, result)
    if form.mode == "cubic" or form.padding == "reflection":
        return f"its grid is computed, and {'cubic interpolation' if form.mode == 'cubic' else 'reflection'} is not written out"
    return nodes.reshape(_by_arithmetic(nodes, x, grid, form), result)


# --- constant grids


def _constant_taps(form: _Form, grid: Floats) -> tuple[Places, Floats]:
    """Flat places and weights, (N, P, K), of a grid (N, H', W', 2)."""
    places, weights = [], []
    for size, number in ((form.height, 1), (form.width, 0)):
        x = _inside(_denormalized(grid[..., number].reshape(len(grid), -1), size, form.aligned), size, form)
        if form.mode == "nearest":
            taps, w = np.round(x)[..., None], np.ones((*x.shape, 1), np.float32)
        elif form.mode == "linear":
            first = np.floor(x)
            taps = np.stack([first, first + 1], axis=-1)
            w = np.stack([first + 1 - x, x - first], axis=-1)
        else:
            first = np.floor(x)
            taps = np.stack([first + i for i in (-1, 0, 1, 2)], axis=-1)
            w = _cubic_weights(np.abs(taps - x[..., None]))
        outside = (taps < 0) | (taps > size - 1)
        if form.padding == "zeros":
            w = np.where(outside, np.float32(0), w)
        elif form.padding == "reflection":
            taps = _reflected(taps, size, form.aligned)
        places.append(np.clip(taps, 0, size - 1).astype(np.int64))
        weights.append(w.astype(np.float32))
    flat = places[0][..., :, None] * form.width + places[1][..., None, :]
    product = weights[0][..., :, None] * weights[1][..., None, :]
    taps_per_output = flat.shape[-1] * flat.shape[-2]
    return (a.reshape(*a.shape[:2], taps_per_output) for a in (flat, product))  # type: ignore[return-value]


def _denormalized(g: Floats, size: int, aligned: bool) -> Floats:
    one, two, n = np.float32(1), np.float32(2), np.float32(size)
    place: Floats = (g + one) / two * (n - one) if aligned else ((g + one) * n - one) / two
    return place


def _inside(x: Floats, size: int, form: _Form) -> Floats:
    """The place itself, or where reflection moves it to; border padding moves samples, not places."""
    if form.mode == "nearest":
        x = np.round(x)
    return _reflected(x, size, form.aligned) if form.padding == "reflection" else x


def _reflected(x: Floats, size: int, aligned: bool) -> Floats:
    """Mirrored at the borders until inside: samples' centres with align_corners, else the image's edges."""
    low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
    span = high - low
    if span == 0:
        return np.full_like(x, low)
    far = np.where(x < low, low - x, np.where(x > high, x - high, 0)).astype(np.float32)
    times = np.floor(far / span)
    rest = far - times * span
    from_low = np.where(times % 2 == 0, low + rest, high - rest)
    from_high = np.where(times % 2 == 0, high - rest, low + rest)
    return np.where(x < low, from_low, np.where(x > high, from_high, x)).astype(np.float32)


def _cubic_weights(d: Floats) -> Floats:
    a = CUBIC_COEFFICIENT
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, far).astype(np.float32)


def _by_constants(nodes: NewNodes, x: gs.Tensor, places: Places, weights: Floats) -> gs.Tensor:
    """(N, C, P) from places and weights (N, P, K)."""
    batch, channels, height, width = nodes.shape(x)
    if batch == 1:
        value = nodes.gather(nodes.reshape(x, [channels, height * width]), places[0], axis=1)  # (C, P, K)
        value = nodes.binary("Mul", value, nodes.constant("weights", weights[0]))
        return nodes.reduce("ReduceSum", value, [2], keepdims=False)
    offset = np.arange(batch)[:, None, None] * (height * width)
    value = nodes.gather(_rows(nodes, x), places + offset)  # (N, P, K, C)
    value = nodes.binary("Mul", value, nodes.constant("weights", weights[..., None]))
    value = nodes.reduce("ReduceSum", value, [2], keepdims=False)
    return nodes.transpose(value, [0, 2, 1])


def _rows(nodes: NewNodes, x: gs.Tensor) -> gs.Tensor:
    """(N, C, H, W) to (N H W, C)."""
    batch, channels, height, width = nodes.shape(x)
    return nodes.reshape(nodes.transpose(x, [0, 2, 3, 1]), [batch * height * width, channels])


# --- computed grids


def _by_arithmetic(nodes: NewNodes, x: gs.Tensor, grid: gs.Tensor, form: _Form) -> gs.Tensor:
    """(N, C, P)."""
    batch, outputs = nodes.shape(x)[0], int(np.prod(nodes.shape(grid)[1:3]))
    horizontal, vertical = (
        _axis_taps(nodes, nodes.reshape(nodes.slice(grid, 3, i, i + 1), [batch, outputs]), size, form)
        for i, size in ((0, form.width), (1, form.height))
    )
    rows = _rows(nodes, x)
    offset = nodes.constant("sample", np.arange(batch)[:, None] * form.height * form.width, np.int64)
    total: gs.Tensor | None = None
    for y, y_weight in vertical:
        line = nodes.scaled(y, float(form.width), "width")
        for column, x_weight in horizontal:
            place = nodes.unary("Cast", nodes.binary("Add", line, column), to=7)  # INT64
            place.dtype = np.dtype(np.int64)
            samples = nodes.gather(rows, nodes.binary("Add", place, offset))  # (N, P, C)
            weight = (
                y_weight
                if x_weight is None
                else x_weight
                if y_weight is None
                else nodes.binary("Mul", y_weight, x_weight)
            )
            if weight is not None:
                samples = nodes.binary("Mul", samples, nodes.reshape(weight, [batch, outputs, 1]))
            total = samples if total is None else nodes.binary("Add", total, samples)
    assert total is not None
    return nodes.transpose(total, [0, 2, 1])


def _axis_taps(nodes: NewNodes, g: gs.Tensor, size: int, form: _Form) -> list[tuple[gs.Tensor, gs.Tensor | None]]:
    """Sample numbers inside the image and their weights, (N, P) each; a weight of None is 1."""
    one = nodes.shifted(g, 1.0)
    if form.aligned:
        x = nodes.scaled(nodes.scaled(one, 0.5), float(size - 1), "reach")
    else:
        x = nodes.scaled(nodes.shifted(nodes.scaled(one, float(size), "size"), -1.0), 0.5)
    if form.mode == "nearest":
        taps: list[tuple[gs.Tensor, gs.Tensor | None]] = [(nodes.unary("Round", x), None)]
    else:
        first = nodes.unary("Floor", x)
        second = nodes.shifted(first, 1.0)
        taps = [(first, nodes.binary("Sub", second, x)), (second, nodes.binary("Sub", x, first))]
    found = []
    for tap, weight in taps:
        inside = nodes.clip(tap, 0.0, float(size - 1))
        if form.padding == "zeros":
            kept = nodes.unary("Cast", nodes.binary("Equal", inside, tap, dtype=np.bool_), to=1)  # FLOAT
            kept.dtype = np.dtype(np.float32)
            weight = kept if weight is None else nodes.binary("Mul", weight, kept)
        found.append((inside, weight))
    return found

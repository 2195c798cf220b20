"""Fit units one after another: each sees what those in front of it, already fitted, send it.

Float and quantized net walk side by side through the calibrate split. Units that do not depend on each other are fitted
from the same step, so that the whole costs about one run of each net however many units there are. Fitting all units from
one run instead would let each of them make up for the same error: on an upscaling net corrected biases in groups of three units
brought 42 dB down to 23, one at a time they gained.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from fts_calibration.recovery.linear_layer import IntArray, LinearLayer
from fts_calibration.recovery.moments import Moments, MomentsSum
from fts_calibration.recovery.weight_update import WeightUpdate
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.units import Unit
from fts_converters.recover.net_walk import NetWalk, names_read

Feed = Mapping[str, npt.NDArray[np.generic]]

# Kernels of `encode_sums`.
READS_INTEGERS = frozenset({"ConvInteger", "MatMulInteger"})
# Samples looked at: more photos change the moments of so many positions little.
MOST_SAMPLES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedUnit:
    """A unit to fit.

    Attributes:
        unit: The unit; int8 in the plan.
        layer: It as products.
        rows: How many rows to look at, over all samples.
        with_products: Second moments are wanted, else means alone.
    """

    unit: Unit
    layer: LinearLayer
    rows: int
    with_products: bool


def fit_in_order(
    wanted: Sequence[FittedUnit],
    index: GraphIndex,
    encode: Callable[[WeightUpdate], onnx.ModelProto],
    feeds: Callable[[], Iterable[Feed]],
    fit: Callable[[FittedUnit, Moments, WeightUpdate], WeightUpdate],
    start: WeightUpdate,
    *,
    exact_u8s8: bool,
) -> WeightUpdate:
    """Fit every unit once, in the order of the graph.

    Args:
        wanted: Units to fit.
        index: Of the float net.
        encode: The quantized net under an update; a unit that does not read DQ in it is left as it is. Which nodes it has
            must not depend on what `fit` returns.
        feeds: The calibrate split.
        fit: Of a unit's moments and the update so far: what to change for this unit.
        start: The update to begin with.
        exact_u8s8: As `open_session`.

    Returns:
        `start` with all that `fit` returned.
    """
    update = start
    outputs = {n.name: n.output[0] for n in index.model.graph.node}
    with tempfile.TemporaryDirectory(prefix="fts-recover-") as folder:
        floats, integers = (
            NetWalk(islice(feeds(), MOST_SAMPLES), Path(tempfile.mkdtemp(dir=folder))) for _ in range(2)
        )
        for together in _levels(wanted, index):
            encoded = encode(update)
            found = {w.unit.name: integer_input(encoded, w.unit.name) for w in together}
            sources = {name: source for name, source in found.items() if source is not None}
            level = [w for w in together if w.unit.name in sources]
            sums = {w.unit.name: MomentsSum(with_products=w.with_products) for w in level}
            samples = zip(
                integers.step(encoded, [s.integers for s in sources.values()], exact_u8s8=exact_u8s8),
                floats.step(index.model, [outputs[w.unit.name] for w in level], weights=index.weights),
                strict=True,
            )
            for number, (read, given) in enumerate(samples):
                for w in level:
                    x = sources[w.unit.name].real(read)
                    positions = w.layer.positions(x.shape)
                    share = -(-w.rows // integers.samples)
                    chosen = _chosen(positions, share, f"{w.unit.name} {number}")
                    y = given[outputs[w.unit.name]].astype(np.float32, copy=False)
                    sums[w.unit.name].add(w.layer.rows(x, chosen), w.layer.outputs(y, chosen))
            for w in level:
                update = update.joined(fit(w, sums.pop(w.unit.name).moments(), update))
    return update


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerInput:
    """Integers that an encoded operator reads, and their grid."""

    integers: str
    scale: float
    zero_point: int

    def real(self, tensors: Feed) -> npt.NDArray[np.float32]:
        steps: npt.NDArray[np.float32] = tensors[self.integers].astype(np.float32) - np.float32(self.zero_point)
        return np.asarray(steps * np.float32(self.scale))


def integer_input(encoded: onnx.ModelProto, name: str) -> IntegerInput | None:
    """What the node `name` reads as data: integers, by itself or through DQ, on one grid; None where it has another form."""
    producers = {o: n for n in encoded.graph.node for o in n.output}
    constants = {t.name: t for t in encoded.graph.initializer}
    node = next((n for n in encoded.graph.node if n.name == name), None)
    if node is None:
        return None
    read = node.input[0]
    grid = producers.get(read)
    integers = read if node.op_type in READS_INTEGERS or grid is None else grid.input[0]
    while grid is not None and node.op_type in READS_INTEGERS and grid.op_type != "QuantizeLinear":
        grid = producers.get(grid.input[0])  # an operator that moves integers
    if grid is None or grid.op_type not in ("QuantizeLinear", "DequantizeLinear"):
        return None
    scale, zero_point = (numpy_helper.to_array(constants[i]).item() for i in grid.input[1:3])
    return IntegerInput(integers=integers, scale=scale, zero_point=zero_point)


def _levels(wanted: Sequence[FittedUnit], index: GraphIndex) -> list[list[FittedUnit]]:
    """Units in the order of the graph, together where none is in front of another."""
    by_node = {w.unit.name: w for w in wanted}
    depth: dict[str, int] = {}  # of a tensor: number of units in front of it, on the longest way
    levels: dict[int, list[FittedUnit]] = {}
    for node in index.model.graph.node:
        before = max((depth.get(name, 0) for name in names_read(node)), default=0)
        if node.name in by_node:
            levels.setdefault(before, []).append(by_node[node.name])
            before += 1
        depth.update(dict.fromkeys(node.output, before))
    return [levels[d] for d in sorted(levels)]


def _chosen(positions: int, wanted: int, seed: str) -> IntArray:
    """Positions to look at, in order; the same for the same unit and sample."""
    if wanted >= positions:
        return np.arange(positions)
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    return np.sort(rng.choice(positions, wanted, replace=False))

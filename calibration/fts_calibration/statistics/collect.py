"""Bounds and histograms of tensors over a data set, in one streaming pass and constant memory.

The FP32 net runs once a sample with the watched tensors as further outputs, which are counted and let go. Everything kept
(`Statistics`) merges exactly, so that it is the same bit for bit in any order and in any parts, and a stopped pass goes on
where it was (`Collector.state`). Tensors of more than GROUP_LIMIT_BYTES together are watched in several runs a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from fts.engines.onnxruntime_session import open_session
from fts.engines.threads import available_cpus
from fts.errors import NonFiniteValueError
from fts_calibration.statistics.histogram import EMPTY, Histogram, histogram_of
from fts_calibration.statistics.statistics import (
    Statistics,
    TensorRange,
    json_from_statistics,
    statistics_from_json,
)

# Of watched tensors in memory at once. A 256 x 256 style net watches some 250 MB; a 2048 x 2048 one is done in parts.
GROUP_LIMIT_BYTES = 512 * 2**20

Feed = Mapping[str, npt.NDArray[np.generic]]
Bounds = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One tensor of one sample.

    Attributes:
        histogram: Of all its values.
        low: (C,) least value of each channel; empty where channels are not asked for.
        high: (C,) greatest.
    """

    histogram: Histogram
    low: npt.NDArray[np.float32]
    high: npt.NDArray[np.float32]

    def bounds(self) -> tuple[Bounds, Bounds]:
        """Least and greatest value: (C,), or (1,) where channels are not asked for."""
        if self.low.size:
            return self.low, self.high
        return np.array([self.histogram.low], np.float32), np.array([self.histogram.high], np.float32)


class Collector:
    """Accumulates statistics sample by sample."""

    def __init__(
        self,
        model: onnx.ModelProto,
        tensors: Sequence[str],
        channel_tensors: Iterable[str] = (),
        *,
        weights: Mapping[str, npt.NDArray[np.generic]] | None = None,
        group_limit_bytes: int = GROUP_LIMIT_BYTES,
    ) -> None:
        """Open the net.

        Args:
            model: FP32 net with its shapes inferred; not modified.
            tensors: float32 tensors of the graph (inputs, activations, outputs), without duplicates.
            channel_tensors: Those of `tensors` that are also wanted channel by channel (axis 1).
            weights: Values of initializers that are external tensors in `model`, by name.
            group_limit_bytes: Of watched tensors that may be in memory at once.
        """
        self._order = [i.name for i in model.graph.input] + [o for n in model.graph.node for o in n.output]
        self._tensors = tuple(tensors)
        self._channels = frozenset(channel_tensors)
        inputs = {i.name for i in model.graph.input}
        self._inputs = [t for t in tensors if t in inputs]
        watched = [t for t in tensors if t not in inputs]
        self._groups = list(_groups(model, watched, group_limit_bytes))
        self._sessions = [
            open_session(_watching(model, group), weights=weights, what="the cleaned net") for group in self._groups
        ]
        self._statistics = Statistics(ranges={}, samples=0)

    @property
    def statistics(self) -> Statistics:
        """Of the samples so far."""
        return self._statistics

    def state(self) -> dict[str, Any]:
        """A JSON object to `resume` from."""
        return json_from_statistics(self._statistics)

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on behind the samples that a state has seen."""
        self._statistics = statistics_from_json(state)

    def add(self, feed: Feed) -> tuple[list[Bounds], list[Bounds]]:
        """Run one sample.

        Returns:
            Its least and its greatest values, tensor by tensor in the order asked for: (C,) where channels are, else (1,).

        Raises:
            NonFiniteValueError: A tensor became NaN or infinite; names the first one in graph order.
        """
        found: dict[str, _Seen] = {}
        with ThreadPoolExecutor(available_cpus()) as pool:
            self._count(pool, {name: feed[name] for name in self._inputs}, found)
            for group, session in zip(self._groups, self._sessions, strict=True):
                outputs = dict(zip(session.output_names, session.run(dict(feed)), strict=True))
                self._count(pool, {name: outputs[name] for name in group}, found)
        self._statistics = _merged(self._statistics, found, self._channels)
        bounds = [found[name].bounds() for name in self._tensors]
        return [low for low, _ in bounds], [high for _, high in bounds]

    def _count(
        self, pool: ThreadPoolExecutor, arrays: Mapping[str, npt.NDArray[np.generic]], found: dict[str, _Seen]
    ) -> None:
        waiting = {name: pool.submit(_seen, array, name in self._channels) for name, array in arrays.items()}
        affected = [name for name, result in waiting.items() if isinstance(result.exception(), ValueError)]
        if affected:
            first = min(affected, key=self._order.index)
            raise NonFiniteValueError(
                f"calibration sample {self._statistics.samples}: tensor {first!r} holds NaN or infinity in FP32; expected "
                "finite values. The net overflows on this input: check --scale, --mean, --std and the data"
            )
        found.update({name: result.result() for name, result in waiting.items()})


def collect_statistics(
    model: onnx.ModelProto,
    feeds: Iterable[Feed],
    tensors: Sequence[str],
    channel_tensors: Iterable[str] = (),
    *,
    weights: Mapping[str, npt.NDArray[np.generic]] | None = None,
    on_sample: Callable[[int], None] = lambda done: None,
    on_bounds: Callable[[Sequence[Bounds], Sequence[Bounds]], None] = lambda low, high: None,
) -> Statistics:
    """Run the FP32 net over feeds; arguments and errors as `Collector`'s.

    Args:
        model: FP32 net with its shapes inferred; not modified.
        feeds: Input name to array, one sample at a time.
        tensors: float32 tensors of the graph, without duplicates.
        channel_tensors: Those that are wanted channel by channel too.
        weights: Values of initializers that are external tensors in `model`, by name.
        on_sample: Called with the number of samples done.
        on_bounds: Called with each sample's own bounds (`Collector.add`).
    """
    collector = Collector(model, tensors, channel_tensors, weights=weights)
    for feed in feeds:
        on_bounds(*collector.add(feed))
        on_sample(collector.statistics.samples)
    return collector.statistics


def _seen(array: npt.NDArray[np.generic], by_channel: bool) -> _Seen:
    values = np.ascontiguousarray(array, np.float32)
    nothing = np.zeros(0, np.float32)
    histogram = histogram_of(values)
    if not by_channel or values.ndim < 2 or not values.size:
        return _Seen(histogram=histogram, low=nothing, high=nothing)
    planes = values.reshape(*values.shape[:2], -1)
    return _Seen(
        histogram=histogram,
        low=planes.min(axis=2).min(axis=0),
        high=planes.max(axis=2).max(axis=0),
    )


def _merged(old: Statistics, found: Mapping[str, _Seen], channels: frozenset[str]) -> Statistics:
    histograms = {name: old.histograms.get(name, EMPTY).merged(seen.histogram) for name, seen in sorted(found.items())}
    channel_ranges = {}
    for name in sorted(channels & found.keys()):
        seen = found[name]
        low, high = seen.low, seen.high
        if name in old.channel_ranges:
            before = np.array([(r.low, r.high) for r in old.channel_ranges[name]], np.float32).reshape(-1, 2)
            low, high = np.minimum(low, before[:, 0]), np.maximum(high, before[:, 1])
        pairs = zip(low.tolist(), high.tolist(), strict=True)
        channel_ranges[name] = tuple(TensorRange(low=a, high=b) for a, b in pairs)
    return Statistics(
        ranges={name: _range(h) for name, h in histograms.items()},
        samples=old.samples + 1,
        channel_ranges=channel_ranges,
        histograms=histograms,
    )


def _range(histogram: Histogram) -> TensorRange:
    """Bounds of what was seen; a tensor without elements counts as 0."""
    if histogram.low > histogram.high:
        return TensorRange(low=0.0, high=0.0)
    return TensorRange(low=histogram.low, high=histogram.high)


def _groups(model: onnx.ModelProto, tensors: Sequence[str], limit_bytes: int) -> Iterator[tuple[str, ...]]:
    """Tensors in parts of at most `limit_bytes` each, in their order; one of unknown size counts as nothing."""
    sizes = {}
    for value in (*model.graph.value_info, *model.graph.output):
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
        sizes[value.name] = 4 * prod(dims)
    group: list[str] = []
    total = 0
    for name in tensors:
        size = sizes.get(name, 0)
        if group and total + size > limit_bytes:
            yield tuple(group)
            group, total = [], 0
        group.append(name)
        total += size
    if group:
        yield tuple(group)


def _watching(model: onnx.ModelProto, tensors: Sequence[str]) -> bytes:
    """The model with these tensors as its outputs."""
    watching = onnx.ModelProto()
    watching.CopyFrom(model)
    del watching.graph.output[:]
    watching.graph.output.extend(helper.make_tensor_value_info(t, TensorProto.FLOAT, None) for t in tensors)
    data: bytes = watching.SerializeToString()
    return data

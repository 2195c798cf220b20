"""Bounds and histograms of tensors over a data set, in one streaming pass and constant memory.

The FP32 net runs once a sample with the watched tensors as further outputs, which are counted and let go. Everything kept
(`Statistics`) merges exactly, so that it is the same bit for bit in any order and in any parts, and a stopped pass goes on
where it was (`Collector.state`). Tensors of more than GROUP_LIMIT_BYTES together are watched in several runs a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from fts.engines.onnxruntime_session import open_session
from fts.engines.threads import available_cpus
from fts.errors import NonFiniteValueError
from fts_calibration.statistics.histogram import EMPTY, Histogram, Workspace
from fts_calibration.statistics.statistics import (
    Statistics,
    TensorRange,
    json_from_statistics,
    statistics_from_json,
)
from fts_calibration.statistics.tensor_counter import TensorCounter

# Of watched tensors in memory at once. A 256 x 256 style net watches some 250 MB; a 2048 x 2048 one is done in parts.
GROUP_LIMIT_BYTES = 512 * 2**20

# Of fewer values the handover to threads takes longer than counting.
LEAST_SHARED = 1 << 19

Feed = Mapping[str, npt.NDArray[np.generic]]
Bounds = npt.NDArray[np.float64]


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
        self._counters = self._counters_behind(Statistics(ranges={}, samples=0))
        self._samples = 0
        self._spaces = [Workspace() for _ in range(available_cpus())]
        self._pool = ThreadPoolExecutor(len(self._spaces))

    @property
    def samples(self) -> int:
        """How many were run."""
        return self._samples

    @property
    def statistics(self) -> Statistics:
        """Of the samples so far."""
        if not self._samples:
            return Statistics(ranges={}, samples=0)
        histograms = {name: counter.histogram for name, counter in sorted(self._counters.items())}
        return Statistics(
            ranges={name: _range(h) for name, h in histograms.items()},
            samples=self._samples,
            channel_ranges={
                name: tuple(TensorRange(low=low, high=high) for low, high in self._counters[name].channels)
                for name in sorted(self._channels & self._counters.keys())
            },
            histograms=histograms,
        )

    def state(self) -> dict[str, Any]:
        """A JSON object to `resume` from."""
        return json_from_statistics(self.statistics)

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on behind the samples that a state has seen."""
        seen = statistics_from_json(state)
        self._counters = self._counters_behind(seen)
        self._samples = seen.samples

    def add(self, feed: Feed) -> tuple[Bounds, Bounds]:
        """Run one sample.

        Returns:
            Its own least and greatest values, float64 (T,) in the order of the tensors asked for; inf and -inf where a
            tensor has no element.

        Raises:
            NonFiniteValueError: A tensor became NaN or infinite; names the first one in graph order. The statistics of a
                pass that ended so are of no use.
        """
        bounds = self._count({name: feed[name] for name in self._inputs})
        for group, session in zip(self._groups, self._sessions, strict=True):
            outputs = dict(zip(session.output_names, session.run(dict(feed)), strict=True))
            bounds |= self._count({name: outputs[name] for name in group})
        self._samples += 1
        low, high = np.array([bounds[name] for name in self._tensors], np.float64).reshape(-1, 2).T
        return low, high

    def _counters_behind(self, seen: Statistics) -> dict[str, TensorCounter]:
        return {
            name: TensorCounter(
                by_channel=name in self._channels,
                seen=seen.histograms.get(name, EMPTY),
                channels=[(r.low, r.high) for r in seen.channel_ranges.get(name, ())],
            )
            for name in self._tensors
        }

    def _count(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, tuple[float, float]]:
        """Count one array of each tensor; which thread counts it leaves no trace."""
        bounds: dict[str, tuple[float, float]] = {}
        affected: list[str] = []

        def count(names: Sequence[str], space: Workspace) -> None:
            for name in names:
                try:
                    bounds[name] = self._counters[name].add(arrays[name], space)
                except ValueError:
                    affected.append(name)

        if sum(array.size for array in arrays.values()) < LEAST_SHARED:
            count(list(arrays), self._spaces[0])
        else:
            shares = _shares(arrays, len(self._spaces))
            for done in [self._pool.submit(count, *pair) for pair in zip(shares, self._spaces, strict=False)]:
                done.result()
        if affected:
            first = min(affected, key=self._order.index)
            raise NonFiniteValueError(
                f"calibration sample {self._samples}: tensor {first!r} holds NaN or infinity in FP32; expected "
                "finite values. The net overflows on this input: check --scale, --mean, --std and the data"
            )
        return bounds


def collect_statistics(
    model: onnx.ModelProto,
    feeds: Iterable[Feed],
    tensors: Sequence[str],
    channel_tensors: Iterable[str] = (),
    *,
    weights: Mapping[str, npt.NDArray[np.generic]] | None = None,
    on_sample: Callable[[int], None] = lambda done: None,
    on_bounds: Callable[[Bounds, Bounds], None] = lambda low, high: None,
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
        on_sample(collector.samples)
    return collector.statistics


def _shares(arrays: Mapping[str, npt.NDArray[np.generic]], count: int) -> list[list[str]]:
    """Names in at most `count` lists of about equal numbers of elements: the largest first, each to the shortest list."""
    shares: list[list[str]] = [[] for _ in range(count)]
    sizes = [0] * count
    for name in sorted(arrays, key=lambda n: -arrays[n].size):
        place = sizes.index(min(sizes))
        shares[place].append(name)
        sizes[place] += arrays[name].size
    return [share for share in shares if share]


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

"""Exact minimum and maximum of tensors over a data set, in one pass.

The graph computes both itself (ReduceMin, ReduceMax behind each tensor), so that no activation ever leaves the engine:
memory does not grow with the number of samples, and min and max of parts merge to min and max of the whole exactly, in
any order.

onnxruntime's ReduceMin and ReduceMax step over NaN (1.32: in 191 of 192 places of a 3x8x8 tensor), so a third value a
tensor tells: the sum of x * 0 is NaN when any x is NaN or infinite, and 0 otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from fts.engines.onnxruntime_session import open_session
from fts.errors import NonFiniteValueError
from fts_calibration.statistics.statistics import Statistics, TensorRange

Feed = Mapping[str, npt.NDArray[np.generic]]
Bounds = npt.NDArray[np.float32]
Probe = npt.NDArray[np.generic]


def collect_min_max(
    model: onnx.ModelProto,
    feeds: Iterable[Feed],
    tensors: Sequence[str],
    channel_ranks: Mapping[str, int],
    *,
    on_sample: Callable[[int], None] = lambda done: None,
    on_bounds: Callable[[Sequence[Bounds], Sequence[Bounds]], None] = lambda low, high: None,
) -> Statistics:
    """Run the FP32 net over the feeds and keep each tensor's bounds.

    Args:
        model: FP32 net; not modified.
        feeds: Input name to array, one sample at a time.
        tensors: float32 tensors of the graph (inputs, activations, outputs), without duplicates.
        channel_ranks: Those of `tensors` whose bounds are also wanted channel by channel (axis 1), with their rank.
        on_sample: Called with the number of samples done.
        on_bounds: Called with each sample's own bounds: of every tensor the low ones, then the high ones.

    Raises:
        NonFiniteValueError: A tensor became NaN or infinite; names the first one in graph order.
    """
    session = open_session(_with_bounds(model, tensors, channel_ranks).SerializeToString())
    low: list[Bounds] = []
    high: list[Bounds] = []
    samples = 0
    for feed in feeds:
        watched = session.run(dict(feed))[len(model.graph.output) :]
        _refuse_non_finite(model, tensors, watched[2::3], samples)
        least, greatest = ([np.asarray(v, np.float32).reshape(-1) for v in watched[i::3]] for i in (0, 1))
        low = [np.minimum(a, b) for a, b in zip(low, least, strict=True)] if low else least
        high = [np.maximum(a, b) for a, b in zip(high, greatest, strict=True)] if high else greatest
        samples += 1
        on_bounds(least, greatest)
        on_sample(samples)
    ranges: dict[str, TensorRange] = {}
    channel_ranges: dict[str, tuple[TensorRange, ...]] = {}
    for name, a, b in zip(tensors, low, high, strict=bool(samples)):
        by_channel = tuple(_range(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True))
        ranges[name] = _range(float(a.min(initial=np.inf)), float(b.max(initial=-np.inf)))
        if name in channel_ranks:
            channel_ranges[name] = by_channel
    return Statistics(ranges=ranges, channel_ranges=channel_ranges, samples=samples)


def _range(low: float, high: float) -> TensorRange:
    """Bounds of what was seen; a tensor without elements gives (inf, -inf) and counts as 0."""
    return TensorRange(low=low, high=high) if low <= high else TensorRange(low=0.0, high=0.0)


def _with_bounds(model: onnx.ModelProto, tensors: Sequence[str], channel_ranks: Mapping[str, int]) -> onnx.ModelProto:
    """The model with three more outputs a tensor: minimum, maximum, and NaN where it holds NaN or infinity."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    opset = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    taken = set(_names(model.graph))

    def fresh(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    def constant(name: str, value: npt.NDArray[np.generic]) -> str:
        name = fresh(name)
        watched.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def add(op_type: str, inputs: list[str], name: str, **attributes: Any) -> str:
        name = fresh(name)
        watched.graph.node.append(helper.make_node(op_type, inputs, [name], **attributes))
        return name

    zero = constant("bounds_zero", np.zeros((), np.float32))
    for position, tensor in enumerate(tensors):
        axes = [a for a in range(channel_ranks[tensor]) if a != 1] if tensor in channel_ranks else []
        inputs, attributes = [tensor], dict[str, Any](keepdims=0)
        if axes and opset >= 18:  # from opset 18 on the axes are an input
            inputs.append(constant(f"bounds_{position}_axes", np.array(axes, np.int64)))
        elif axes:
            attributes["axes"] = axes
        least, greatest = (
            add(op_type, inputs, f"bounds_{position}_{op_type}", **attributes) for op_type in ("ReduceMin", "ReduceMax")
        )
        nothing = add("Mul", [tensor, zero], f"bounds_{position}_zeros")
        probe = add("ReduceSum", [nothing], f"bounds_{position}_ReduceSum", keepdims=0)
        for name in (least, greatest, probe):
            watched.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    return watched


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    """Every tensor name in a graph and its subgraphs: none may be taken again."""
    yield from (value.name for value in (*graph.input, *graph.output, *graph.initializer))
    for node in graph.node:
        yield from (*node.input, *node.output)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _names(inner)


def _refuse_non_finite(model: onnx.ModelProto, tensors: Sequence[str], probes: Sequence[Probe], sample: int) -> None:
    affected = {t for t, probe in zip(tensors, probes, strict=True) if np.isnan(probe).any()}
    if not affected:
        return
    order = [i.name for i in model.graph.input] + [o for n in model.graph.node for o in n.output]
    first = next((name for name in order if name in affected), min(affected))
    raise NonFiniteValueError(
        f"calibration sample {sample}: tensor {first!r} holds NaN or infinity in FP32; expected finite values. "
        "The net overflows on this input: check --scale, --mean, --std and the data"
    )

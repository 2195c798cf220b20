"""Exact minimum and maximum of tensors over a data set, in one pass.

The graph computes both itself (ReduceMin, ReduceMax behind each tensor), so that no activation ever leaves the engine:
memory does not grow with the number of samples, and min and max of parts merge to min and max of the whole exactly, in
any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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


def collect_min_max(
    model: onnx.ModelProto,
    feeds: Iterable[Feed],
    tensors: Sequence[str],
    channel_ranks: Mapping[str, int],
    *,
    on_sample: Callable[[int], None] = lambda done: None,
) -> Statistics:
    """Run the FP32 net over the feeds and keep each tensor's bounds.

    Args:
        model: FP32 net; not modified.
        feeds: Input name to array, one sample at a time.
        tensors: float32 tensors of the graph (inputs, activations, outputs), without duplicates.
        channel_ranks: Those of `tensors` whose bounds are also wanted channel by channel (axis 1), with their rank.
        on_sample: Called with the number of samples done.

    Raises:
        NonFiniteValueError: A tensor became NaN or infinite; names the first one in graph order.
    """
    session = open_session(_with_bounds(model, tensors, channel_ranks).SerializeToString())
    low: list[Bounds] = []
    high: list[Bounds] = []
    samples = 0
    for feed in feeds:
        own_outputs = len(model.graph.output)
        bounds = [np.asarray(v, np.float32).reshape(-1) for v in session.run(dict(feed))[own_outputs:]]
        _refuse_non_finite(model, tensors, bounds, samples)
        least, greatest = bounds[0::2], bounds[1::2]
        low = [np.minimum(a, b) for a, b in zip(low, least, strict=True)] if low else least
        high = [np.maximum(a, b) for a, b in zip(high, greatest, strict=True)] if high else greatest
        samples += 1
        on_sample(samples)
    ranges: dict[str, TensorRange] = {}
    channel_ranges: dict[str, tuple[TensorRange, ...]] = {}
    for name, a, b in zip(tensors, low, high, strict=bool(samples)):
        if _is_empty(a, b):
            a, b = np.zeros_like(a), np.zeros_like(b)
        ranges[name] = TensorRange(low=float(a.min()), high=float(b.max()))
        if name in channel_ranks:
            pairs = zip(a.tolist(), b.tolist(), strict=True)
            channel_ranges[name] = tuple(TensorRange(low=x, high=y) for x, y in pairs)
    return Statistics(ranges=ranges, channel_ranges=channel_ranges, samples=samples)


def _with_bounds(model: onnx.ModelProto, tensors: Sequence[str], channel_ranks: Mapping[str, int]) -> onnx.ModelProto:
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    opset = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    taken = {n for node in model.graph.node for n in (*node.input, *node.output)}
    for position, tensor in enumerate(tensors):
        axes = [a for a in range(channel_ranks[tensor]) if a != 1] if tensor in channel_ranks else []
        for op_type in ("ReduceMin", "ReduceMax"):
            name = f"bounds_{position}_{op_type}"
            while name in taken:
                name += "_"
            inputs = [tensor]
            attributes: dict[str, Any] = {"keepdims": 0}
            if axes and opset >= 18:  # from opset 18 on the axes are an input
                inputs.append(f"{name}_axes")
                watched.graph.initializer.append(numpy_helper.from_array(np.array(axes, np.int64), inputs[1]))
            elif axes:
                attributes["axes"] = axes
            watched.graph.node.append(helper.make_node(op_type, inputs, [name], **attributes))
            watched.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    return watched


def _is_empty(low: Bounds, high: Bounds) -> bool:
    """True for the bounds of a tensor without elements: the neutral elements of minimum and maximum."""
    return bool(np.all(low == np.inf) and np.all(high == -np.inf))


def _refuse_non_finite(model: onnx.ModelProto, tensors: Sequence[str], bounds: Sequence[Bounds], sample: int) -> None:
    affected = {t for t, low, high in zip(tensors, bounds[0::2], bounds[1::2], strict=True)
                if not (np.isfinite(low).all() and np.isfinite(high).all()) and not _is_empty(low, high)}  # fmt: skip
    if not affected:
        return
    order = [i.name for i in model.graph.input] + [o for n in model.graph.node for o in n.output]
    first = next((name for name in order if name in affected), min(affected))
    raise NonFiniteValueError(
        f"calibration sample {sample}: tensor {first!r} holds NaN or infinity in FP32; expected finite values. "
        "The net overflows on this input: check --scale, --mean, --std and the data"
    )

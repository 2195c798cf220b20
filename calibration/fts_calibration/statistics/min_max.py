"""Exact minimum and maximum of tensors over a data set, in one pass.

The graph computes both itself (ReduceMin, ReduceMax behind each tensor), so that no activation ever leaves the engine:
memory does not grow with the number of samples, and min and max of parts merge to min and max of the whole exactly, in
any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from fts.engines.onnxruntime_session import open_session
from fts.errors import NonFiniteValueError
from fts_calibration.statistics.statistics import Statistics, TensorRange

Feed = Mapping[str, npt.NDArray[np.generic]]


def collect_min_max(
    model: onnx.ModelProto,
    feeds: Iterable[Feed],
    tensors: Sequence[str],
    *,
    on_sample: Callable[[int], None] = lambda done: None,
) -> Statistics:
    """Run the FP32 net over the feeds and keep each tensor's bounds.

    Args:
        model: FP32 net; not modified.
        feeds: Input name to array, one sample at a time.
        tensors: float32 tensors of the graph (inputs, activations, outputs), without duplicates.
        on_sample: Called with the number of samples done.

    Raises:
        NonFiniteValueError: A tensor became NaN or infinite; names the first one in graph order.
    """
    watched = _with_bounds(model, tensors)
    session = open_session(watched.SerializeToString())
    low = np.full(len(tensors), np.inf, np.float32)
    high = np.full(len(tensors), -np.inf, np.float32)
    samples = 0
    for feed in feeds:
        outputs = session.run(dict(feed))
        values = np.array([v.reshape(()) for v in outputs[len(outputs) - 2 * len(tensors) :]], np.float32)
        bad = ~np.isfinite(values).reshape(-1, 2).all(axis=1)
        if bad.any():
            raise NonFiniteValueError(
                f"calibration sample {samples}: tensor {_first_in_graph(model, tensors, bad)!r} holds NaN or infinity in "
                "FP32; expected finite values. The net overflows on this input: check --scale, --mean, --std and the data"
            )
        low = np.minimum(low, values[0::2])
        high = np.maximum(high, values[1::2])
        samples += 1
        on_sample(samples)
    ranges = {t: TensorRange(low=float(a), high=float(b)) for t, a, b in zip(tensors, low, high, strict=True)}
    return Statistics(ranges=ranges if samples else {}, samples=samples)


def _with_bounds(model: onnx.ModelProto, tensors: Sequence[str]) -> onnx.ModelProto:
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    taken = {n for node in model.graph.node for n in (*node.input, *node.output)}
    for position, tensor in enumerate(tensors):
        for op_type in ("ReduceMin", "ReduceMax"):
            name = f"bounds_{position}_{op_type}"
            while name in taken:
                name += "_"
            watched.graph.node.append(helper.make_node(op_type, [tensor], [name], keepdims=0))
            watched.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, []))
    return watched


def _first_in_graph(model: onnx.ModelProto, tensors: Sequence[str], bad: npt.NDArray[np.bool_]) -> str:
    affected = {t for t, b in zip(tensors, bad, strict=True) if b}
    order = [i.name for i in model.graph.input] + [o for n in model.graph.node for o in n.output]
    return next((name for name in order if name in affected), sorted(affected)[0])

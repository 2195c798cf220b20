"""How far quantization moves the values of each tensor: KL(FP32 || INT8) of their histograms.

128 equal bins over the FP32 range of the tensor; INT8 values beyond it count in the outermost bins. The limit of 0.012 nat
is that of this project's issue on fidelity, for face nets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx

from fts.engines.onnxruntime_session import open_session
from fts_calibration.audit.finding import Finding
from fts_calibration.dataset.input_request import Feed
from fts_calibration.statistics.statistics import TensorRange

BINS = 128
LIMIT = 0.012
_FLOOR = 1e-6  # probability that an empty INT8 bin counts as: else one value in it makes the divergence infinite


def histogram_divergence(fp32: npt.NDArray[np.int64], int8: npt.NDArray[np.int64]) -> float:
    """KL of two histograms (bins,) of counts, in nat."""
    p = fp32 / fp32.sum()
    q = np.maximum(int8 / int8.sum(), _FLOOR)
    q = q / q.sum()
    seen = p > 0
    return float((p[seen] * np.log(p[seen] / q[seen])).sum())


def activation_divergences(
    fp32: onnx.ModelProto,
    int8: onnx.ModelProto,
    ranges: Mapping[str, TensorRange],
    feeds: Iterable[Feed],
    *,
    exact_u8s8: bool = False,
) -> dict[str, float]:
    """KL of every float tensor that both graphs have under one name, inputs aside.

    Args:
        fp32: The cleaned net.
        int8: The encoded graph: integer tensors have no counterpart in FP32, what float operators read has.
        ranges: FP32 range by tensor name.
        feeds: Samples, one at a time.
        exact_u8s8: As for the session of the encoded graph elsewhere.
    """
    in_both = {name for node in int8.graph.node for name in node.output}
    names = [n for node in fp32.graph.node for n in node.output if n in in_both and _width(ranges.get(n)) > 0]
    if not names:
        return {}
    first = open_session(_watching(fp32, names), what="the cleaned net")
    second = open_session(_watching(int8, names), exact_u8s8=exact_u8s8, what="the encoded graph")
    counts = np.zeros((2, len(names), BINS), np.int64)
    for feed in feeds:
        for side, session in enumerate((first, second)):
            values = dict(zip(session.output_names, session.run(feed), strict=True))
            for position, name in enumerate(names):
                counts[side, position] += _histogram(values[name], ranges[name])
    if not counts.any():
        return {}
    return {name: histogram_divergence(counts[0, i], counts[1, i]) for i, name in enumerate(names)}


def _width(seen: TensorRange | None) -> float:
    return 0.0 if seen is None else seen.high - seen.low


def _histogram(values: npt.NDArray[np.generic], seen: TensorRange) -> npt.NDArray[np.int64]:
    clipped = np.clip(values.astype(np.float64).ravel(), seen.low, seen.high)
    return np.histogram(clipped, bins=BINS, range=(seen.low, seen.high))[0].astype(np.int64)


def _watching(model: onnx.ModelProto, names: Sequence[str]) -> bytes:
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    del watched.graph.output[:]
    for name in names:
        watched.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    return bytes(watched.SerializeToString())


def check_activation_divergence(divergences: Mapping[str, float]) -> Iterator[Finding]:
    """Finding activations-moved."""
    moved = sorted((name for name, kl in divergences.items() if kl >= LIMIT), key=lambda n: -divergences[n])
    if moved:
        worst = ", ".join(f"{name} {divergences[name]:.3f}" for name in moved[:4])
        yield Finding(
            id="activations-moved",
            severity="warning",
            message=(
                f"{len(moved)} of {len(divergences)} tensors have another distribution in INT8 than in FP32: KL {worst}, "
                f"the limit is {LIMIT:g}"
            ),
            fix="Raise the accuracy budget, so that the layers behind them stay in float, or give more photos.",
        )

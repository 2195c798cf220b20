"""Evidence that cleaning changed nothing: the net before and after, run on one real sample by onnxruntime.

A pass that changes the meaning of a net is a defect of ours, and must never reach a bundle.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx

from fts.engines.onnxruntime_session import OrtSession, open_session
from fts.errors import EngineError
from fts_converters.light_proto import LightProto

Array = npt.NDArray[np.generic]

# Of the output's range. Folding reorders float32 sums, so bits may differ; anything above is another function.
TOLERANCE = 1e-4
# Of the greatest value, in units of the output's own rounding: an output that hardly moves around a large offset has a
# range of a few such units, and one last bit is no other function.
ROUNDING_ULPS = 16
# Times what onnxruntime's own rewrites of the net as it came change. A Sigmoid far out has a range of 1e-7 and errs by as
# much; a net that amplifies the last bit does so whoever reorders its sums.
OWN_ROUNDING = 8.0


class CleaningChangedTheNet(AssertionError):
    """A defect of fts: exit code 1."""


def check_equivalent(
    before: LightProto, after: LightProto, feed: Mapping[str, npt.NDArray[np.generic]], *, what: str
) -> None:
    """Compare all outputs on one feed.

    Raises:
        EngineError: onnxruntime cannot load or run the net as it came.
        CleaningChangedTheNet: An output differs in shape or type, or by more than TOLERANCE of its range and more than
            OWN_ROUNDING times what onnxruntime's optimiser changes in the net as it came.
    """
    names = [o.name for o in before.proto.graph.output]
    session = open_reference(before.proto, weights=before.weights, what=what)
    try:
        outputs = session.run(feed)
    except EngineError as cause:
        sizes = ", ".join(f"{name}={'x'.join(map(str, array.shape))}" for name, array in feed.items())
        raise EngineError(
            f"model {what!r} with {sizes}: a node cannot run in float, before anything was quantized: {cause}. "
            "Use --shape with sizes the net can take, or correct the export"
        ) from cause
    session = _open(after, f"{what} (cleaned)")  # lets the first one go, which has copies of all weights
    cleaned = session.run(feed)
    plain: list[Array] = []
    for place, (name, a, b) in enumerate(zip(names, outputs, cleaned, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise CleaningChangedTheNet(f"{what}, output {name!r}: {a.dtype}{a.shape} became {b.dtype}{b.shape}")
        if _close(a, b):
            continue
        if not plain:  # seldom needed, so it is not run before
            data = before.proto.SerializeToString()
            plain = open_session(data, weights=before.weights, is_optimised=False, what=what).run(feed)
        if not _close(a, b, OWN_ROUNDING * _deviation(a, plain[place])):
            raise CleaningChangedTheNet(f"{what}, output {name!r}: cleaning changed its values")


def _open(net: LightProto, what: str) -> OrtSession:
    return open_session(net.proto.SerializeToString(), weights=net.weights, what=what)


def open_reference(model: onnx.ModelProto, *, what: str, weights: Mapping[str, Array] | None = None) -> OrtSession:
    """A session for a net that was not cleaned: without optimisation where onnxruntime's optimiser trips over it.

    Seen in 1.32: a spelled-out LayerNorm behind a Cast from float16 is fused into one of two types, which it then refuses.

    Args:
        model: The net.
        what: Its name in messages.
        weights: Values of its placeholders (`LightProto`).

    Raises:
        EngineError: onnxruntime cannot load it either way.
    """
    data = model.SerializeToString()
    try:
        return open_session(data, weights=weights, what=what)
    except EngineError:
        return open_session(data, weights=weights, is_optimised=False, what=what)


def _deviation(a: Array, plain: Array) -> float:
    """Greatest difference of finite values; 0 for integers."""
    if a.dtype.kind != "f" or a.shape != plain.shape:
        return 0.0
    x, y = a.astype(np.float64), plain.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    return float(np.abs(x[finite] - y[finite]).max(initial=0.0))


def _close(a: Array, b: Array, own_rounding: float = 0.0) -> bool:
    if a.dtype.kind != "f" or not a.size:
        return bool(np.array_equal(a, b))
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x)
    if not np.array_equal(finite, np.isfinite(y)) or not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return False
    if not finite.any():
        return True
    greatest = float(np.abs(x[finite]).max())
    span = float(x[finite].max() - x[finite].min()) or greatest or 1.0
    one_ulp = float(np.spacing(np.array(greatest, a.dtype)))
    return float(np.abs(x[finite] - y[finite]).max()) <= TOLERANCE * span + ROUNDING_ULPS * one_ulp + own_rounding

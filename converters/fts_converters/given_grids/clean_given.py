"""Clean a net with Q/DQ, and prove that it computes what it came to compute.

A net with rounding in it is no continuous function: where a sum lies between two steps, float rounding decides, and one
step is far more than float rounding. So two things are compared: both nets without their rounding, as closely as any net
(`check_equivalent`); and the net as it came, its Q and DQ run one by one, with the portable net, on average.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt
import onnx

from fts.engines.onnxruntime_session import open_session
from fts_converters.check_equivalent import CleaningChangedTheNet, check_equivalent
from fts_converters.given_grids.take_over import GivenNet, continuous_form, take_over
from fts_converters.light_proto import LightProto, light_from_proto
from fts_converters.model import Model
from fts_converters.passes import clean

# Root mean square of the difference, of the output's range: half a step of an 8-bit grid. Equal nets differ in a few
# elements that fell to the next step; a scale or zero point that is off moves all of them.
ROUNDING_SHARE = 0.5 / 255


def cleaned_given(
    model: Model, before: LightProto, feed: Mapping[str, npt.NDArray[np.generic]], *, skip: Collection[str] = ()
) -> GivenNet:
    """Clean a frozen net that holds Q/DQ, in place, and take its grids over.

    Args:
        model: Frozen, every node named.
        before: The net in the opset that it came in.
        feed: One sample.
        skip: Names of passes to leave out.

    Raises:
        CleaningChangedTheNet: A defect of fts.
    """
    frozen = model.to_proto()
    clean(model, skip=skip)
    cleaned = model.to_proto()
    first, second = (light_from_proto(continuous_form(net, model.source)) for net in (frozen, cleaned))
    check_equivalent(first, second, feed, what=model.source)
    given = take_over(cleaned, model.source)
    _check_rounded(before.whole(model.source), given.portable, feed, model.source)
    return given


def kept_text(given: GivenNet) -> str:
    """What the user is told."""
    return (
        f"the net came quantized: the scales of {given.count} are taken over as they are, and the calibration pictures "
        "were not used for them. What came without a scale stays in float; to have scales found from pictures, pass the "
        "float net it was made from"
    )


def _check_rounded(
    before: onnx.ModelProto, after: onnx.ModelProto, feed: Mapping[str, npt.NDArray[np.generic]], what: str
) -> None:
    first = open_session(before.SerializeToString(), fuses_qdq=False, what=what)
    second = open_session(after.SerializeToString(), what=f"{what} (Q and DQ spelled in float)")
    for name, a, b in zip(first.output_names, first.run(feed), second.run(feed), strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise CleaningChangedTheNet(f"{what}, output {name!r}: {a.dtype}{a.shape} became {b.dtype}{b.shape}")
        x, y = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(x) & np.isfinite(y)
        if a.dtype.kind != "f" or not finite.any():
            continue
        span = float(x[finite].max() - x[finite].min()) or float(np.abs(x[finite]).max()) or 1.0
        off = float(np.sqrt(np.mean((x[finite] - y[finite]) ** 2))) / span
        if off > ROUNDING_SHARE:
            raise CleaningChangedTheNet(
                f"{what}, output {name!r}: spelling Q and DQ in float changed its values by {off:.3%}"
            )

"""One comparison for all tests of the twin: against ONNX Runtime without optimisation, output by output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from tests.generators.run_plain import run_plain

Array = npt.NDArray[Any]

# Of an output's largest magnitude, which is what the issue asks for: float32 sums in another order, through a whole net.
NET_TOLERANCE = 1e-4
# One operator sums at most a few hundred products; a wrong rule is off by far more.
OPERATOR_TOLERANCE = 5e-6


def twin_outputs(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Outputs in the graph's order."""
    import torch

    from fts_calibration.train.twin import Twin

    with torch.no_grad():
        found = Twin(model)({name: torch.from_numpy(np.array(value)) for name, value in feeds.items()})
    return [found[value.name].numpy() for value in model.graph.output]


def check_agreement(model: onnx.ModelProto, feeds: Mapping[str, Array], tolerance: float) -> None:
    """
    Raises:
        AssertionError: A shape, a type or a value of an output is another than in ONNX Runtime.
    """
    reference = run_plain(model, feeds)
    for value, r, y in zip(model.graph.output, reference, twin_outputs(model, feeds), strict=True):
        assert (y.dtype, y.shape) == (r.dtype, r.shape), value.name
        if r.dtype.kind != "f":
            np.testing.assert_array_equal(y, r, err_msg=value.name)
            continue
        r, y = r.astype(np.float64), y.astype(np.float64)
        finite = np.abs(r[np.isfinite(r)])
        largest = float(finite.max()) if finite.size else 0.0
        np.testing.assert_allclose(y, r, rtol=0, atol=tolerance * largest, err_msg=value.name)

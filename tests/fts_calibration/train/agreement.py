"""One comparison for all tests of the twin: against ONNX Runtime without optimisation, output by output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def twin_outputs(model: onnx.ModelProto, samples: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
    """Of each sample, the outputs in the graph's order."""
    import torch

    from fts_calibration.train.twin import Twin

    twin = Twin(model)
    outputs = []
    with torch.no_grad():
        for feeds in samples:
            found = twin({name: torch.from_numpy(np.array(value)) for name, value in feeds.items()})
            outputs.append([found[value.name].numpy() for value in model.graph.output])
    return outputs


def check_agreement(model: onnx.ModelProto, samples: Sequence[Mapping[str, Array]], tolerance: float) -> None:
    """
    Args:
        model: The net.
        samples: Feeds, one mapping a run.
        tolerance: Largest difference, of the output's largest magnitude over all samples: the mask of a picture without
            anything in it is no measure.

    Raises:
        AssertionError: A shape, a type or a value of an output is another than in ONNX Runtime.
    """
    references = [run_plain(model, feeds) for feeds in samples]
    outputs = twin_outputs(model, samples)
    for i, value in enumerate(model.graph.output):
        pairs = [(r[i], y[i]) for r, y in zip(references, outputs, strict=True)]
        largest = max(_largest(r) for r, _ in pairs)
        for r, y in pairs:
            assert (y.dtype, y.shape) == (r.dtype, r.shape), value.name
            if r.dtype.kind == "f":
                r, y = r.astype(np.float64), y.astype(np.float64)
                np.testing.assert_allclose(y, r, rtol=0, atol=tolerance * largest, err_msg=value.name)
            else:
                np.testing.assert_array_equal(y, r, err_msg=value.name)


def _largest(values: Array) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0

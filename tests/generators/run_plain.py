"""Run a graph in onnxruntime exactly as it is written: no optimisation, one thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
from onnx import ModelProto

from fts.engines.onnxruntime_session import import_onnxruntime


def run_plain(model: ModelProto | bytes, feeds: Mapping[str, npt.NDArray[Any]]) -> list[Any]:
    """Outputs in the graph's order; what an optimiser would do cannot hide or cause a difference.

    onnxruntime's own exceptions come through: the caller knows whether they are a finding.
    """
    ort = import_onnxruntime()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    data = model if isinstance(model, bytes) else model.SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))

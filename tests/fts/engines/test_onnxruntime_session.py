from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

from fts.engines.onnxruntime_session import onnxruntime_version, open_session
from fts.errors import EngineError, MissingDependencyError


def test_runs_a_net_and_names_its_inputs_and_outputs(kit):
    session = open_session(kit.onnx_bytes(kit.AGED))
    x = np.full((1, 3, 32, 32), 2, np.float32)
    y, twice = session.run({"x": x, "age": np.float32([[3]])})
    assert (session.input_names, session.output_names) == (("x", "age"), ("y", "twice"))
    assert np.all(y == 6)
    assert twice.item() == 6
    assert session.name == f"onnxruntime {onnxruntime.__version__} CPUExecutionProvider"
    assert onnxruntime_version() == onnxruntime.__version__


def test_sets_the_options_that_it_promises(kit, monkeypatch):
    seen = {}

    class Spy(onnxruntime.InferenceSession):
        def __init__(self, model, options, providers):
            seen.update(options=options, providers=providers)
            super().__init__(model, options, providers=providers)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Spy)
    open_session(kit.onnx_bytes(kit.NEGATIVE), threads=3, exact_u8s8=True)
    options = seen["options"]
    assert seen["providers"] == ["CPUExecutionProvider"]
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (3, 1)
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert options.get_session_config_entry("session.x64quantprecision") == "1"


def test_a_model_that_onnxruntime_refuses_is_an_engine_error_with_the_cause():
    with pytest.raises(EngineError, match=r"a\.fts: engines/x\.onnx: onnxruntime .* cannot load it: ") as caught:
        open_session(b"no model", what="a.fts: engines/x.onnx")
    assert caught.value.__cause__ is not None


def test_a_run_that_fails_is_an_engine_error_with_the_cause(kit):
    session = open_session(kit.onnx_bytes(kit.NEGATIVE))
    with pytest.raises(EngineError, match="the run failed") as caught:
        session.run({"x": np.zeros((1, 3, 8, 8), np.float32)})
    assert caught.value.__cause__ is not None


def test_a_missing_onnxruntime_is_told_with_the_line_to_type(kit, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'onnxruntime>=1\.19'"):
        open_session(kit.onnx_bytes(kit.NEGATIVE))


def test_onnxruntime_is_imported_without_its_usage_uploader():
    code = (
        "import os, sys\nfrom fts.engines.onnxruntime_session import onnxruntime_version\nonnxruntime_version()\n"
        "print(os.environ['ORT_DISABLE_TELEMETRY'])"
    )
    env = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert out.stdout == "1\n"

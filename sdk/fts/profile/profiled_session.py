"""An onnxruntime session that writes a profile of its kernels.

Only for the layer table: profiling slows the net, so no other figure comes from here. The options are those of
`fts.engines.onnxruntime_session.open_session`, plus the profile; its import guard is shared, so that onnxruntime is
imported in one place and never sends usage data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fts.engines.onnxruntime_session import EXACT_U8S8, OrtSession, _onnxruntime_errors, import_onnxruntime
from fts.engines.threads import available_cpus


class ProfiledSession:
    """A session that is being profiled; an `Engine`."""

    def __init__(self, model: bytes, folder: Path, *, threads: int | None, exact_u8s8: bool) -> None:
        ort = import_onnxruntime()
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads if threads is not None else available_cpus()
        options.inter_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        if exact_u8s8:
            options.add_session_config_entry(EXACT_U8S8, "1")
        options.enable_profiling = True
        options.profile_file_prefix = str(folder / "kernels")
        self._session: Any = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._engine = OrtSession(self._session, ort.__version__, _onnxruntime_errors(ort))
        self.name = self._engine.name
        self.input_names = self._engine.input_names
        self.output_names = self._engine.output_names
        self.run = self._engine.run

    def finish(self) -> Path:
        """Stop profiling; returns the file it wrote."""
        return Path(self._session.end_profiling())

"""ONNX Runtime on the CPU: the only module of fts that imports onnxruntime.

Options, and why: intra-op threads = the CPUs this process may use (`threads`), inter-op 1 (the nets are chains),
spinning off (a pool that spins burns the cores the app needs between two frames), ORT_ENABLE_ALL, CPU provider alone
(never a silent choice of another one).

The memory arena keeps onnxruntime's own growth. `kSameAsRequested` can be reached from Python in 1.19 to 1.32 only by
`create_and_register_allocator`, which registers one arena for the whole process: it would outlive `Model.close()`,
be shared with the app's own sessions, and on 1.19 raise where the app has registered one.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from fts.engines.engine import Tensor
from fts.engines.threads import available_cpus
from fts.errors import EngineError, MissingDependencyError

_PROVIDER = "CPUExecutionProvider"

EXACT_U8S8 = "session.x64quantprecision"
"""Session option under which onnxruntime stores s8 weights of integer kernels as u8 on x86: u8*u8 sums are exact.

Seen with 1.19.2 and 1.32.0 on an AVX2 machine: with "1", MatMulInteger, QLinearConv, QLinearMatMul and QGemm with
constant weights (per tensor and per channel, grouped, 1x1, 3 channels) equal exact arithmetic in every element, where
without it they were up to 232 steps off. It does nothing for an s8 operand that is computed at run time, and 1.19
aborts the process on a MatMulInteger that leaves out its zero points; neither comes out of a Q/DQ graph of fts.
"""


NO_QDQ_FUSION = "session.disable_quant_qdq"
"""Session option under which Q and DQ run as they stand, and DQ -> op -> Q in float: the reference of a net that has them."""


class _NodeArg(Protocol):
    name: str


class _InferenceSession(Protocol):
    def run(self, output_names: Sequence[str], input_feed: Mapping[str, Tensor]) -> list[Tensor]: ...
    def get_inputs(self) -> list[_NodeArg]: ...
    def get_outputs(self) -> list[_NodeArg]: ...


_live: weakref.WeakSet[OrtSession] = weakref.WeakSet()


def _abandon_in_child() -> None:
    """Keep a forked child from freeing the parent's sessions: it would wait for pool threads it does not have.

    Source: microsoft/onnxruntime pull request 31961. One reference too many leaves the memory to the process's end.
    """
    for session in _live:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(session._session))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_in_child)


class OrtSession:
    """An ONNX graph in an onnxruntime session; an `Engine`."""

    def __init__(
        self,
        session: _InferenceSession,
        version: str,
        errors: tuple[type[Exception], ...],
        weights: Mapping[str, Tensor] | None = None,
    ) -> None:
        self._session = session
        self._errors = errors
        self._weights = weights  # the session computes on these very arrays
        _live.add(self)
        self.name = f"onnxruntime {version} {_PROVIDER}"
        self.input_names = tuple(i.name for i in session.get_inputs())
        self.output_names = tuple(o.name for o in session.get_outputs())

    def run(self, feeds: Mapping[str, Tensor]) -> list[Tensor]:
        """One inference; the arrays returned belong to the caller."""
        try:
            return self._session.run(self.output_names, feeds)
        except self._errors as cause:
            raise EngineError(f"{self.name}: the run failed: {_first_line(cause)}") from cause


def open_session(
    model: bytes,
    *,
    weights: Mapping[str, Tensor] | None = None,
    threads: int | None = None,
    exact_u8s8: bool = False,
    fuses_qdq: bool = True,
    is_optimised: bool = True,
    what: str = "the net",
) -> OrtSession:
    """Load an ONNX model.

    Args:
        model: A serialized ONNX model; its external data is that of `weights` and no other.
        weights: Values of initializers of the main graph that are external tensors, by name: how a net above 2 GiB is
            loaded. Shared with the session, not copied.
        threads: Intra-op threads; None for the CPUs this process may use.
        exact_u8s8: Compute u8*s8 sums without 16-bit saturation, slower, on machines that saturate.
        fuses_qdq: Make integer kernels of DQ -> op -> Q; False runs each node as it stands.
        is_optimised: Let onnxruntime rewrite the graph.
        what: Name of the model in messages.

    Raises:
        MissingDependencyError: onnxruntime is not installed or cannot be loaded.
        EngineError: onnxruntime refuses the model.
    """
    ort = import_onnxruntime()
    errors = _onnxruntime_errors(ort)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads if threads is not None else available_cpus()
    options.inter_op_num_threads = 1
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if is_optimised else levels.ORT_DISABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    if exact_u8s8:
        options.add_session_config_entry(EXACT_U8S8, "1")
    if not fuses_qdq:
        options.add_session_config_entry(NO_QDQ_FUSION, "1")
    given = {name: np.ascontiguousarray(values) for name, values in (weights or {}).items()}
    try:
        if given:
            values = [ort.OrtValue.ortvalue_from_numpy(v) for v in given.values()]
            options.add_external_initializers(list(given), values)
        session = ort.InferenceSession(model, options, providers=[_PROVIDER])
    except errors as cause:
        raise EngineError(f"{what}: onnxruntime {ort.__version__} cannot load it: {_first_line(cause)}") from cause
    return OrtSession(session, ort.__version__, errors, given)


def onnxruntime_version() -> str:
    """Version of the onnxruntime installed.

    Raises:
        MissingDependencyError: It is not installed or cannot be loaded.
    """
    return str(import_onnxruntime().__version__)


def import_onnxruntime() -> Any:
    """The module onnxruntime, with its usage data switched off; the only way by which fts imports it.

    Raises:
        MissingDependencyError: It is not installed or cannot be loaded.
    """
    # From 1.29 on, onnxruntime starts an uploader of usage data when it is imported, unless this says no. A library
    # that sees people's faces sends nothing, and the uploader's thread makes forked children hang as they exit.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError as cause:
        raise MissingDependencyError(
            f"onnxruntime cannot be imported ({cause}). Install it: pip install 'onnxruntime>=1.19'"
        ) from cause
    return onnxruntime


def _onnxruntime_errors(ort: ModuleType) -> tuple[type[Exception], ...]:
    """onnxruntime's own exception classes, which share no root but Exception, and what its bindings raise."""
    native = vars(ort.capi.onnxruntime_pybind11_state).values()
    own = tuple(c for c in native if isinstance(c, type) and issubclass(c, Exception))
    return (*own, RuntimeError, ValueError, TypeError)


def _first_line(cause: Exception) -> str:
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]

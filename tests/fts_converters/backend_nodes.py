"""The onnx package's backend node tests, by way of load -> passes -> save: what becomes of each model.

Not part of the question: models that onnxruntime itself cannot run as they are, or whose outputs it gives otherwise
than the onnx package says. Those that the loader refuses stand in the table with its reason.
"""

from __future__ import annotations

import importlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto
from tests.generators.run_plain import run_plain

from fts.errors import FtsError
from fts_converters.load import load_model
from fts_converters.passes import clean

SURVIVES = ""
RUNTIME = "onnxruntime"  # how reasons begin that lie with the installed onnxruntime and change with its version
# Modules of onnx.backend.test.case.node that the fast sample is made of: what image nets are made of, quick to import.
SAMPLE_MODULES = """
add argmax averagepool batch_normalization clip concat constant constantofshape conv convtranspose cumsum
depthtospace dropout einsum elu expand flatten gather gathernd gemm globalaveragepool hardsigmoid hardswish identity
if_ instance_normalization leakyrelu loop matmul maxpool pad pow prelu rangeop reducemean relu reshape resize
scatternd shape sigmoid slice softmax spacetodepth split squeeze topk transpose unsqueeze upsample where
"""


def all_cases() -> list[Any]:
    """Every node test; importing their modules takes some 10 s, since it computes the expected outputs."""
    from onnx.backend.test.loader import load_model_tests

    return _usable(load_model_tests(kind="node"))


def sample_cases() -> list[Any]:
    """Those of SAMPLE_MODULES."""
    for module in SAMPLE_MODULES.split():
        importlib.import_module(f"onnx.backend.test.case.node.{module}")
    from onnx.backend.test.case.node import _NodeTestCases  # each module has added its own as it was imported

    return _usable(list(_NodeTestCases))


def _usable(cases: list[Any]) -> list[Any]:
    return sorted({c.name: c for c in cases}.values(), key=lambda c: str(c.name))


def outcome(case: Any) -> str:
    """SURVIVES, or the reason why not, without paths and numbers that vary from run to run."""
    data_sets = [_feeds(case.model, *arrays) for arrays in case.data_sets]
    if any(feeds is None for feeds, _ in data_sets):
        return f"{RUNTIME} is not asked: inputs or outputs that are no numpy arrays (float8, int4, int2, sequences)"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(case.model.SerializeToString())
        try:
            model = load_model(str(path))
        except FtsError as refusal:
            return f"refused: {type(refusal).__name__}: {_plain(str(refusal), path)}"
    for feeds, expected in data_sets:
        if reason := _runtime_reason(case, feeds, expected):
            return reason
    try:
        clean(model)
    except Exception as error:  # noqa: BLE001 - whatever a pass raises is a fault to be listed
        return f"fault: the passes raise {type(error).__name__}: {_plain(str(error), path)}"
    saved = model.to_proto()
    names = {i.name for i in saved.graph.input}
    for feeds, expected in data_sets:
        try:
            outputs = run_plain(saved, {n: a for n, a in feeds.items() if n in names})
        except Exception as error:  # noqa: BLE001 - onnxruntime's exceptions share no root
            return f"fault: the saved model does not run: {type(error).__name__}: {_plain(str(error), path)}"
        if not _is_close(outputs, expected, case):
            return "fault: other values after load, passes and save"
    return SURVIVES


def _runtime_reason(case: Any, feeds: Any, expected: list[Any]) -> str:
    """Why the original is no measure here; empty when it is."""
    try:
        original = run_plain(case.model, feeds)
    except Exception as error:  # noqa: BLE001 - onnxruntime's exceptions share no root
        return f"{RUNTIME} does not run the original: {type(error).__name__}"
    if not _is_close(original, expected, case):
        return f"{RUNTIME} gives other values than the onnx package for the original"
    return ""


def _feeds(model: ModelProto, inputs: list[Any], outputs: list[Any]) -> tuple[Any, list[Any]]:
    if not all(isinstance(a, np.ndarray | np.generic) for a in (*inputs, *outputs)):
        return None, []
    return dict(zip((i.name for i in model.graph.input), map(np.asarray, inputs), strict=False)), outputs


def _is_close(outputs: list[Any], expected: list[Any], case: Any) -> bool:
    """As onnx.backend.test.runner compares: shape, type, then rtol and atol of the case."""
    if len(outputs) != len(expected):
        return False
    for y, r in zip(outputs, expected, strict=True):
        want = np.asarray(r)
        if y.shape != want.shape or (y.dtype != want.dtype and y.dtype.kind in "fiub"):
            return False
        if want.dtype.kind in "fc":
            if not np.allclose(
                y.astype(np.float64), want.astype(np.float64), rtol=case.rtol, atol=case.atol, equal_nan=True
            ):
                return False
        elif not np.array_equal(y, want):
            return False
    return True


def _plain(message: str, path: Path) -> str:
    text = message.replace(str(path), "net.onnx")
    return re.sub(r"/\S+?:\d+|0x[0-9a-f]+", "...", text)[:200]


def versions() -> dict[str, str]:
    """What the table depends on."""
    from fts.engines.onnxruntime_session import onnxruntime_version

    return {"onnx": str(onnx.__version__), "onnxruntime": onnxruntime_version()}


def iterate(cases: list[Any]) -> Iterator[tuple[str, str]]:
    """(name, outcome) of each case."""
    for case in cases:
        yield str(case.name), outcome(case)

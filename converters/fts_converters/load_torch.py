"""Torch sources to ONNX: `package.module:factory`, or a saved torch.export program (`.pt2`). Extra `torch`.

The net is exported in evaluation mode at the example inputs' shapes, and the export is not believed: torch and ONNX
Runtime run on the example inputs and have to agree. It does *not* read pickled modules: a `.pth` state dict needs the
factory that builds its net.
"""

from __future__ import annotations

import importlib
import logging
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx

from fts.engines.onnxruntime_session import open_session
from fts.errors import MissingDependencyError, ModelError, ModelFileError
from fts_converters.light_proto import serialized

OPSET = 18  # what torch's exporter emits without a conversion of its own, and inside the range fts works in
# Of the output's range: float32 sums in another order differ by a few parts in a million; more is another net.
TOLERANCE = 1e-4

_log = logging.getLogger(__name__)


def is_torch_source(source: str) -> bool:
    """True for `.pt2` files and `package.module:factory`; a path with a colon in it is a file first."""
    if source.endswith(".pt2"):
        return True
    module, colon, name = source.rpartition(":")
    return (
        bool(colon)
        and name.isidentifier()
        and all(p.isidentifier() for p in module.split("."))
        and not (Path(source).exists())
    )


def proto_from_torch(source: str) -> onnx.ModelProto:
    """Export a torch source and check the export.

    Args:
        source: `package.module:factory` (called without arguments; gives a torch module and its example inputs, as a
            tensor, a tuple, or a dict by argument name), or the path of a `.pt2` file.

    Raises:
        MissingDependencyError: torch or onnxscript is not installed.
        ModelFileError: The module, the factory or the file is not there, or not what it should be.
        ModelError: The net cannot be exported, or the export computes something else.
    """
    torch = _torch()
    if source.endswith(".pt2"):
        program, args, kwargs = _program_from_file(torch, source)
        module = program.module()
    else:
        module, args, kwargs = _module_from_factory(torch, source)
        program = module.eval()
    proto = _export(torch, source, program, args, kwargs)
    _strip_source_locations(proto)
    _check_export(torch, source, module, proto, args, kwargs)
    return proto


def _torch() -> Any:
    try:
        import onnxscript  # noqa: F401
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            f"torch input needs the `torch` extra ({error.name} is missing): pip install 'fts-edge[convert,torch]'"
        ) from error
    return torch


def _program_from_file(torch: Any, source: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    if not Path(source).is_file():
        raise ModelFileError(f"model {source!r}: there is no such file")
    try:
        program = torch.export.load(source)
    except Exception as error:
        raise ModelFileError(
            f"model {source!r}: not a program saved by torch.export.save: {_last_line(error)}"
        ) from error
    if program.example_inputs is None:
        raise ModelFileError(
            f"model {source!r}: the program holds no example inputs; export it again with torch 2.6 or newer"
        )
    args, kwargs = program.example_inputs
    return program, tuple(args), dict(kwargs)


def _module_from_factory(torch: Any, source: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    module_name, _, factory_name = source.rpartition(":")
    loaded = _import(source, module_name)
    factory = getattr(loaded, factory_name, None)
    if not callable(factory):
        found = "nothing of that name" if factory is None else f"a {type(factory).__name__}"
        raise ModelFileError(
            f"model {source!r}: module {module_name!r} has {found} under {factory_name!r}, expected a function that "
            "returns a torch module and example inputs"
        )
    torch.manual_seed(0)
    try:
        result = factory()
    except Exception as error:
        raise ModelError(f"model {source!r}: the factory failed: {_where(error)}") from error
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], torch.nn.Module):
        kind = f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"
        raise ModelFileError(
            f"model {source!r}: the factory returned {kind}, expected (torch.nn.Module, example inputs)"
        )
    net, inputs = result
    if isinstance(inputs, Mapping):
        return net, (), dict(inputs)
    return net, tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,), {}


def _import(source: str, module_name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ModelFileError(
                f"model {source!r}: there is no module {error.name!r} in this folder or environment; "
                "a model file would end in .onnx or .pt2"
            ) from error
        raise ModelError(f"model {source!r}: importing {module_name!r} failed: {error}") from error
    except Exception as error:
        raise ModelError(f"model {source!r}: importing {module_name!r} failed: {_where(error)}") from error
    finally:
        sys.path.pop(0)


def _export(torch: Any, source: str, program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> onnx.ModelProto:
    # Notes about optional packages and deprecated internals of torch; what matters raises, or fails the check below.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = torch.onnx.export(
                program, args, kwargs=kwargs, dynamo=True, opset_version=OPSET, verbose=False, optimize=True
            )
    except Exception as error:
        raise ModelError(
            f"model {source!r}: torch cannot export it to ONNX: {_last_line(error)}. Make the net traceable "
            "(no branches on tensor values), or export it yourself and pass the .onnx file"
        ) from error
    proto: onnx.ModelProto = exported.model_proto
    return proto


def _strip_source_locations(proto: onnx.ModelProto) -> None:
    """Stack traces with absolute paths of the machine it was exported on have no place in a bundle."""
    del proto.metadata_props[:]
    graphs = [proto.graph]
    while graphs:
        graph = graphs.pop()
        graph.doc_string = ""
        for part in (graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
            part.doc_string = ""
            del part.metadata_props[:]
        for node in graph.node:
            graphs += [a.g for a in node.attribute if a.HasField("g")]
    for function in proto.functions:
        del function.metadata_props[:]
        for node in function.node:
            node.doc_string = ""
            del node.metadata_props[:]


def _check_export(
    torch: Any, source: str, module: Any, proto: onnx.ModelProto, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    session = open_session(serialized(proto, f"model {source!r} (exported)"), what=f"model {source!r} (exported)")
    with torch.no_grad():
        expected = _flat(torch, module(*args, **kwargs))
    given = [t.detach().cpu().numpy() for t in _flat(torch, (args, kwargs))]
    if len(given) != len(session.input_names):
        raise ModelError(
            f"model {source!r}: {len(given)} example tensors, but the export has the inputs "
            f"{', '.join(session.input_names)}; give every input that the net reads, and no other"
        )
    got = session.run(dict(zip(session.input_names, given, strict=True)))
    for name, a, b in zip(session.output_names, expected, got, strict=True):
        reference = a.detach().cpu().numpy().astype(np.float64)
        span = float(reference.max() - reference.min()) if reference.size else 0.0
        worst = float(np.abs(reference - b).max()) if reference.size else 0.0
        if reference.shape != b.shape or not worst <= TOLERANCE * (span or 1.0):
            raise ModelError(
                f"model {source!r}, output {name!r}: the ONNX export differs from torch by {worst:.3g} on the example "
                f"inputs (range {span:.3g}), expected at most {TOLERANCE:g} of the range. Is the net deterministic, and "
                "in evaluation mode?"
            )
    _log.info("torch and the ONNX export agree on %d outputs", len(got))


def _flat(torch: Any, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [t for v in value.values() for t in _flat(torch, v)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [t for v in value for t in _flat(torch, v)]
    return []


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]


def _where(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {_last_line(error)} ({Path(frame.filename).name}, line {frame.lineno})"

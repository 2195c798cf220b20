"""Bring a net into the range of opsets that the tool works in, with the same meaning.

Up, from opset 1: onnx's version converter, with `opset_steps` before and behind it for what it gets wrong. Down, to 28:
`lower_opset`.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import defs, helper, shape_inference, version_converter

from fts.errors import ModelError
from fts_converters.light_proto import checkable
from fts_converters.lower_opset import lower_opset
from fts_converters.opset_steps import AFTER, BEFORE, run_steps
from fts_converters.tensor_types import Scope, scopes

# Per-channel DequantizeLinear exists from opset 13 on; above 21 the oldest supported onnxruntime (1.19) cannot load it.
OLDEST_OPSET, NEWEST_OPSET = 13, 21
# Arithmetic broadcasts as numpy does since 7; the steps start there.
NUMPY_BROADCAST_OPSET = 7
_ERRORS = (RuntimeError, onnx.checker.ValidationError, shape_inference.InferenceError)


def opset_of(proto: onnx.ModelProto) -> int:
    """Opset version of the default domain."""
    return next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)


def bring_opset_into_range(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The net itself when its opset is in range, else a converted copy.

    Raises:
        ModelError: No opset of the standard, one that the installed onnx does not know, or an old net that cannot be
            raised. A new one that cannot be lowered is returned as it is: `requires.onnxruntime` of the bundle then says
            from which version on it loads.
    """
    if not any(o.domain in ("", "ai.onnx") for o in proto.opset_import):
        domains = ", ".join(o.domain for o in proto.opset_import)
        raise ModelError(
            f"model {str(path)!r}: it uses no operator set of the standard (only {domains}), so there is nothing to convert"
        )
    opset = opset_of(proto)
    if opset > defs.onnx_opset_version():
        raise ModelError(
            f"model {str(path)!r}: opset {opset}, and the installed onnx {onnx.__version__} knows opsets up to "
            f"{defs.onnx_opset_version()}. Install a newer onnx, or export with opset {NEWEST_OPSET}"
        )
    if opset > NEWEST_OPSET:
        return lower_opset(proto, opset, NEWEST_OPSET)[0]
    return proto if opset >= OLDEST_OPSET else _raised(proto, opset, path)


def _raised(proto: onnx.ModelProto, opset: int, path: Path) -> onnx.ModelProto:
    try:
        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        if opset < NUMPY_BROADCAST_OPSET:
            copy = version_converter.convert_version(copy, NUMPY_BROADCAST_OPSET)
        run_steps(BEFORE, copy, scopes(copy), opset)
        converted = version_converter.convert_version(copy, OLDEST_OPSET)
        run_steps(AFTER, converted, scopes(converted), opset)
        converted.ir_version = max(converted.ir_version, 4)  # initializers of the steps are no inputs
        onnx.checker.check_model(checkable(converted))
    except _ERRORS as error:
        lines = " ".join(line.strip() for line in str(error).splitlines() if line.strip())[:400]
        raise ModelError(
            f"model {str(path)!r}{_culprit(proto, opset)}: opset {opset} cannot be brought to opset {OLDEST_OPSET}, the "
            f"least that INT8 needs: {lines}. Export again with opset {OLDEST_OPSET} or newer"
        ) from error
    except ModelError as error:
        raise ModelError(f"model {str(path)!r}, {error}") from error
    return converted


def _culprit(proto: onnx.ModelProto, opset: int) -> str:
    """The first node that cannot be converted by itself, for a message."""
    for scope in scopes(proto):
        for node in scope.graph.node:
            try:
                version_converter.convert_version(_alone(node, scope, opset), OLDEST_OPSET)
            except _ERRORS:
                return f", node {node.name or list(node.output)!r} ({node.op_type}, opset {opset})"
    return ""


def _alone(node: onnx.NodeProto, scope: Scope, opset: int) -> onnx.ModelProto:
    inputs, outputs = (
        [helper.make_tensor_value_info(n, scope.types.get(n, onnx.TensorProto.FLOAT), None) for n in names if n]
        for names in (dict.fromkeys(node.input), node.output)
    )
    graph = helper.make_graph([node], "alone", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)

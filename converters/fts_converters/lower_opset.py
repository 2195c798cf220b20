"""Bring a net of an opset above the range down, where its nodes mean the same there.

Most operators changed from opset 22 on in the types they take and in nothing else (22: bfloat16; 23 to 25: float8, float4,
int4, int2), so that a node is relabelled when the older schema takes its attributes, operands and types. Operators new
since then are replaced by the function that defines them in the standard (RMSNormalization, Attention, RotaryEmbedding,
Swish, ...), where there is one. Whatever does not fit keeps the net at the lowest opset that holds all of it;
`requires.onnxruntime` of the bundle then says from which version on it loads.

Meanings that changed, by the texts of onnx 1.23's schemas 22 to 28: Mod of floats with fmod=0 is new, and Range sums
float16 in float32. Both are obstacles here. (MaxPool and AveragePool say since 22 what runtimes did before.)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import onnx
from onnx import defs, helper, inliner

from fts_converters.tensor_types import Scope, graphs, scopes

_log = logging.getLogger(__name__)
_FLOATS = {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
VARIADIC = defs.OpSchema.FormalParameterOption.Variadic
_HALVES = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}


def lower_opset(model: onnx.ModelProto, opset: int, newest: int) -> tuple[onnx.ModelProto, str]:
    """A copy in the lowest opset from `newest` on that can hold the net.

    Args:
        model: A valid net of a known opset; not changed.
        opset: Its opset, above `newest`.
        newest: The opset wanted.

    Returns:
        The copy, or `model` itself when no lower opset holds it; and the first obstacle on the way to `newest`, or "".
    """
    plain = _without_newer_operators(model, newest)
    found = scopes(plain)
    first = ""
    for wanted in range(newest, opset):
        obstacle = next(filter(None, (_obstacle(n, s, opset, wanted) for s in found for n in s.graph.node)), "")
        if not obstacle:
            return _relabelled(plain, opset, wanted), first
        first = first or obstacle
    return model, first


def _without_newer_operators(model: onnx.ModelProto, newest: int) -> onnx.ModelProto:
    names = {n.op_type for g in graphs(model.graph) for n in g.node if not n.domain and not _has(n.op_type, newest)}
    written_out = [("", name) for name in sorted(names) if _is_function(name)]
    if not written_out:
        return model
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    for (
        tensor
    ) in typed.graph.initializer:  # the inliner asks for the type of what a function reads, and looks here alone
        typed.graph.value_info.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    try:
        plain = inliner.inline_selected_functions(typed, written_out, inline_schema_functions=True)
    except RuntimeError as error:  # a type it cannot find, as those of a subgraph's own tensors
        _log.info("operators newer than opset %d not written out: %s", newest, error)
        return model
    for scope in scopes(plain):
        for node in scope.graph.node:
            if node.op_type == "CastLike" and (
                elem := scope.types.get(node.input[1])
            ):  # no runtime has a kernel for it
                node.CopyFrom(helper.make_node("Cast", node.input[:1], node.output, name=node.name, to=elem))
    return plain


def _has(op_type: str, opset: int) -> bool:
    return bool(defs.has(op_type, opset, ""))


def _is_function(op_type: str) -> bool:
    schema: Any = defs.get_schema(op_type)  # onnx's stubs lack both
    return bool(schema.has_function or schema.has_context_dependent_function)


def _obstacle(node: onnx.NodeProto, scope: Scope, opset: int, wanted: int) -> str:
    """Why a node cannot stand in a lower opset; "" when it can."""
    if node.domain:
        return ""
    what = f"{node.op_type} {node.name or node.output[0]!r}"
    if not _has(node.op_type, wanted):
        return f"{what}: no such operator in opset {wanted}"
    new, old = (defs.get_schema(node.op_type, v, "") for v in (opset, wanted))
    if new.since_version == old.since_version:
        return ""
    for attribute in node.attribute:
        if attribute.name not in old.attributes and not _is_default(attribute, new):
            return f"{what}: attribute {attribute.name} is new since opset {wanted}"
    for operands, formal in ((node.input, old.inputs), (node.output, old.outputs)):
        if not _takes(list(operands), list(formal), old, scope):
            return f"{what}: opset {wanted} does not take operands of these types"
    rule = CHANGED_MEANING.get(node.op_type)
    return f"{what}: its meaning changed after opset {wanted}" if rule and rule(node, scope) else ""


def _is_default(attribute: onnx.AttributeProto, schema: defs.OpSchema) -> bool:
    default = schema.attributes[attribute.name].default_value
    return bool(default.type) and bool(helper.get_attribute_value(attribute) == helper.get_attribute_value(default))


def _takes(
    operands: Sequence[str], formal: Sequence[defs.OpSchema.FormalParameter], schema: defs.OpSchema, scope: Scope
) -> bool:
    """Whether a schema has a place for each operand, and takes its type there."""
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    for place, name in enumerate(operands):
        if place >= len(formal) and (not formal or formal[-1].option != VARIADIC):
            return False
        elem = scope.types.get(name)
        if not name or elem is None:
            continue
        taken = formal[min(place, len(formal) - 1)].type_str
        kinds = allowed.get(taken, [taken])
        if not any(f"({onnx.TensorProto.DataType.Name(elem).lower()})" in kind for kind in kinds):
            return False
    return True


def _is_float_remainder(node: onnx.NodeProto, scope: Scope) -> bool:
    is_floored = not any(a.name == "fmod" and a.i for a in node.attribute)
    return is_floored and scope.types.get(node.input[0]) in _FLOATS


def _is_half(node: onnx.NodeProto, scope: Scope) -> bool:
    return scope.types.get(node.output[0]) in _HALVES


CHANGED_MEANING: dict[str, Callable[[onnx.NodeProto, Scope], bool]] = {"Mod": _is_float_remainder, "Range": _is_half}


def _relabelled(model: onnx.ModelProto, opset: int, wanted: int) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for graph in graphs(copy.graph):
        for node in (n for n in graph.node if not n.domain):
            known = defs.get_schema(node.op_type, wanted, "").attributes
            for attribute in [a for a in node.attribute if a.name not in known]:
                node.attribute.remove(attribute)
    for domain in copy.opset_import:
        if domain.domain in ("", "ai.onnx"):
            domain.version = wanted
    return copy

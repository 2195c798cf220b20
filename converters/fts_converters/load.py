"""Source file to Model: read, refuse what is unsafe or invalid, bring the opset into the range the tool works in, and
compute in float32.

What it does *not* do: change what the net computes. Every refusal names the node or tensor.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, inliner, numpy_helper, shape_inference

from fts.errors import ModelError, ModelFileError, NonFiniteValueError, UnsupportedOpError
from fts_converters import light_proto
from fts_converters.external_data import array_from_bytes, is_external, read_external, refuse_outside_folder
from fts_converters.given_grids.integer_operators import spell_integer_operators
from fts_converters.light_proto import (
    Array,
    LightProto,
    bytes_of,
    checkable,
    is_large_weight,
    light_from_proto,
    placeholder,
    serialized,
)
from fts_converters.load_torch import is_torch_source, proto_from_torch
from fts_converters.model import Model, model_from_light
from fts_converters.normalise import normalise
from fts_converters.upgrade_opset import NEWEST_OPSET, bring_opset_into_range, opset_of
from fts_converters.widen_types import Widened, holds_other_floats, widen_types

# The oldest opset that onnxruntime promises to run, so that the net as it came can be compared with the upgraded one.
OLDEST_RUNNABLE_OPSET = 7
# The first with operator sets; that of ONNX 1.0.
OLDEST_IR = 3
# Domains whose operators onnxruntime's CPU provider ships with.
KNOWN_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
# Operators of quantized nets: QuantizeLinear, DynamicQuantizeMatMul, QLinearAdd, QGemm, MatMulInteger, MatMulNBits ...
QUANTIZED = re.compile(
    r".*[Qq]uantize.*|QLinear.*|Q(Gemm|Attention|Ordered).*|.*Integer(ToFloat)?|MatMul(NBits|Bnb4|Fp.*)"
)
# Operators whose outputs differ from run to run, so that no two nets can be compared.
RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
# NaN are looked for so many elements at a time.
BLOCK = 2**20


class Digest(Protocol):
    """A hash of hashlib."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take more bytes in."""


def load_model(source: str) -> Model:
    """Read a net.

    Args:
        source: Path of an ONNX file (external data is looked for beside it and nowhere else), or a torch source.

    Raises:
        MissingDependencyError: A torch source, and torch is not installed.
        ModelFileError: Missing, unreadable, or no ONNX file.
        ModelError: Invalid graph; UnsupportedOpError: an operator of a private domain; NonFiniteValueError: NaN weights.
    """
    path = Path(source)
    if is_torch_source(source):
        proto = proto_from_torch(source)
        digest = hashlib.sha256(serialized(proto, f"model {source!r}"))
        external: dict[str, Array] = {}
    else:
        digest = hashlib.sha256()
        proto = _read_proto(path, digest)
        _refuse_outside_external_data(proto, path)
        external = _load_external_data(proto, path, digest)
        _refuse_large(proto, path)
    _drop_inputs_with_initializer(proto)
    _refuse_private_domains(proto, path)
    proto = _without_functions(proto, path)
    _normalise(proto, path)
    _refuse_unknown_types(proto, path)
    net = light_from_proto(proto, external)
    del proto, external  # the values live in `net` alone from here on
    _check(net, path)
    _give_constants_their_type(net.proto)
    _refuse_random(net.proto, path)
    _refuse_nan_weights(net, path)
    ready, widened = _in_range(net, path)
    spelled = spell_integer_operators(ready.proto, path, QUANTIZED.fullmatch, ready.weights)
    can_compare = ready is not net and opset_of(net.proto) >= OLDEST_RUNNABLE_OPSET
    model = model_from_light(
        LightProto(proto=spelled, weights=ready.weights),
        source=path.name,
        source_sha256=digest.hexdigest(),
        original=net if can_compare else None,
    )
    model.is_widened = widened is not None and widened.is_changed
    model.left_alone = () if widened is None else widened.left_alone
    return model


def _in_range(net: LightProto, path: Path) -> tuple[LightProto, Widened | None]:
    """The net in an opset and the types that the tool works in; itself where nothing had to change."""
    if not holds_other_floats(net.proto):
        proto = bring_opset_into_range(net.proto, path)
        return (net if proto is net.proto else LightProto(proto=proto, weights=net.weights)), None
    source = net.whole(f"model {str(path)!r}")  # whether a type can change is seen in the values
    if opset_of(source) > NEWEST_OPSET:  # first, since older opsets take fewer types
        widened = widen_types(source)
        proto = bring_opset_into_range(widened.model, path)
    else:
        widened = widen_types(bring_opset_into_range(source, path))
        proto = widened.model
    return (net if proto is source else light_from_proto(proto)), widened


def _read_proto(path: Path, digest: Digest) -> onnx.ModelProto:
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ModelFileError(f"model {str(path)!r}: there is no such file") from error
    except OSError as error:
        raise ModelFileError(f"model {str(path)!r}: cannot be read: {error.strerror or error}") from error
    digest.update(data)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise ModelFileError(
            f"model {str(path)!r}: not an ONNX file, or cut short ({len(data)} bytes); expected a serialized ModelProto"
        ) from error
    if not proto.graph.node and not proto.graph.output:
        raise ModelFileError(f"model {str(path)!r}: not an ONNX file: it holds no graph ({len(data)} bytes)")
    return proto


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)
            for inner in attribute.graphs:
                yield from _graphs(inner)


def _nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those of subgraphs and functions included."""
    for node in (*proto.graph.node, *(n for f in proto.functions for n in f.node)):
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from (n for g in _graphs(graph) for n in g.node)


def _tensors(proto: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """All constant tensors by name; one that is an attribute has the name of its node's output."""
    roots = [proto.graph, *(a.g for f in proto.functions for n in f.node for a in n.attribute if a.HasField("g"))]
    for graph in (g for root in roots for g in _graphs(root)):
        yield from ((t.name, t) for t in graph.initializer)
        for sparse in graph.sparse_initializer:
            yield from ((sparse.values.name, t) for t in (sparse.values, sparse.indices))
    for node in _nodes(proto):
        for a in node.attribute:
            sparse = (a.sparse_tensor, *a.sparse_tensors)
            held = (a.t, *a.tensors, *(t for s in sparse for t in (s.values, s.indices)))
            yield from (((t.name or node.output[0]), t) for t in held if t.dims or t.data_type)


def _refuse_outside_external_data(proto: onnx.ModelProto, path: Path) -> None:
    for name, tensor in _tensors(proto):
        if is_external(tensor):
            refuse_outside_folder(name, tensor, path)


def _load_external_data(proto: onnx.ModelProto, path: Path, digest: Digest) -> dict[str, Array]:
    """Large weights of the main graph by name, their initializers left as placeholders; all other data into the message."""
    _external_constants_to_initializers(proto)
    weights: dict[str, Array] = {}
    initializers = list(proto.graph.initializer)  # held, so that each keeps its identity
    external = [(name, tensor) for name, tensor in _tensors(proto) if is_external(tensor)]
    in_main_graph = {id(t) for t in initializers}
    for name, tensor in external:
        values = read_external(name, tensor, path)
        digest.update(bytes_of(values))
        if id(tensor) in in_main_graph and is_large_weight(tensor):
            weights[name] = array_from_bytes(values, tensor)
            tensor.CopyFrom(placeholder(name, tensor.dims, tensor.data_type))
        else:
            del tensor.external_data[:]
            tensor.ClearField("data_location")
            tensor.raw_data = values.tobytes()
    return weights


def _external_constants_to_initializers(proto: onnx.ModelProto) -> None:
    """Constant nodes of the main graph: as initializers they may be of any size."""
    outputs = {o.name for o in proto.graph.output}
    kept = []
    for node in proto.graph.node:
        is_constant = node.op_type == "Constant" and not node.domain and node.output[0] not in outputs
        values = [a.t for a in node.attribute if a.name == "value" and is_external(a.t)] if is_constant else []
        if values and is_large_weight(values[0]):
            tensor = proto.graph.initializer.add()
            tensor.CopyFrom(values[0])
            tensor.name = node.output[0]
        else:
            kept.append(node)
    if len(kept) < len(proto.graph.node):
        del proto.graph.node[:]
        proto.graph.node.extend(kept)


def _normalise(proto: onnx.ModelProto, path: Path) -> None:
    if proto.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"model {str(path)!r}: IR version {proto.ir_version}, and the installed onnx {onnx.__version__} knows versions "
            f"up to {onnx.IR_VERSION}. Install a newer onnx, or save the net with an older IR version"
        )
    if proto.ir_version < OLDEST_IR:
        raise ModelError(
            f"model {str(path)!r}: IR version {proto.ir_version}, expected {OLDEST_IR} or newer: it is older than "
            "ONNX 1.0. Export again"
        )
    try:
        normalise(proto)
    except ModelError as error:
        raise ModelError(f"model {str(path)!r}, {error}") from error


def _drop_inputs_with_initializer(proto: onnx.ModelProto) -> None:
    initialized = {t.name for t in proto.graph.initializer}
    inputs = [i for i in proto.graph.input if i.name not in initialized]
    if len(inputs) != len(proto.graph.input):
        del proto.graph.input[:]
        proto.graph.input.extend(inputs)
        proto.ir_version = max(proto.ir_version, 4)


def _without_functions(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """Model-local functions written out: a node inside one has no place in a plan."""
    if not proto.functions:
        return proto
    try:
        return inliner.inline_local_functions(proto)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelError(
            f"model {str(path)!r}: its {len(proto.functions)} local functions cannot be inlined: {_first_lines(error)}. "
            "Export without functions"
        ) from error


def _refuse_private_domains(proto: onnx.ModelProto, path: Path) -> None:
    local = {(f.domain, f.name) for f in proto.functions}
    for node in _nodes(proto):
        if node.domain not in KNOWN_DOMAINS and (node.domain, node.op_type) not in local:
            raise UnsupportedOpError(
                f"model {str(path)!r}, node {node.name or list(node.output)!r}: operator {node.op_type} of the private "
                f"domain {node.domain!r} cannot run on any engine of this target; expected operators of the ONNX "
                "standard. Replace it by standard operators when exporting, or cut it off and run it in the app",
                node=node.name,
                op_type=node.op_type,
                domain=node.domain,
                engine="onnxruntime-cpu",
            )


def _refuse_random(proto: onnx.ModelProto, path: Path) -> None:
    for node in _nodes(proto):
        if node.op_type in RANDOM:
            raise ModelError(
                f"model {str(path)!r}, node {node.name or list(node.output)!r}: {node.op_type} draws random numbers, so "
                "that no two runs are equal and nothing can be measured against them. Export the net with fixed noise"
            )


def _give_constants_their_type(proto: onnx.ModelProto) -> None:
    """Constant(value_float=1) -> Constant(value=float32 tensor), because onnx-graphsurgeon folds the former as float64."""
    dtypes = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    for node in (n for n in _nodes(proto) if n.op_type == "Constant"):
        for attribute in [a for a in node.attribute if a.name in dtypes]:
            value = np.array(helper.get_attribute_value(attribute), dtypes[attribute.name])
            node.attribute.remove(attribute)
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(value)))


def _refuse_large(proto: onnx.ModelProto, path: Path) -> None:
    """What is no float weight of the main graph stays in the message, which has a limit."""
    if proto.ByteSize() > light_proto.LIMIT_BYTES:
        raise ModelError(
            f"model {str(path)!r}: {proto.ByteSize()} bytes without the float weights of its main graph, and one ONNX "
            f"message holds at most {light_proto.LIMIT_BYTES}. Convert a smaller net, or one in parts"
        )


def _refuse_unknown_types(proto: onnx.ModelProto, path: Path) -> None:
    for kind, values in (("input", proto.graph.input), ("output", proto.graph.output)):
        for value in values:
            if not value.type.HasField("tensor_type"):
                raise ModelError(
                    f"model {str(path)!r}, {kind} {value.name!r}: type {value.type.WhichOneof('value')}, expected a tensor"
                )
    repeated = [name for name, count in Counter(v.name for v in proto.graph.output).items() if count > 1]
    if repeated:
        raise ModelError(
            f"model {str(path)!r}: output {repeated[0]!r} is listed more than once, "
            "expected every output once. Export it under one name, or copy it by an Identity node"
        )
    if not proto.graph.input:
        raise ModelError(f"model {str(path)!r}: it has no inputs, so there is nothing to calibrate")


def _check(net: LightProto, path: Path) -> None:
    try:
        onnx.checker.check_model(checkable(net.proto), full_check=True)
    except (onnx.checker.ValidationError, shape_inference.InferenceError) as error:
        raise ModelError(f"model {str(path)!r}: invalid ONNX: {_first_lines(error)}") from error


def _refuse_nan_weights(net: LightProto, path: Path) -> None:
    readers: dict[str, str] = {}
    for node in _nodes(net.proto):
        for name in node.input:
            readers.setdefault(name, f"{node.op_type} {node.name or node.output[0]!r}")
    for name, tensor in _tensors(net.proto):
        if tensor.data_type not in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16):
            continue
        values = net.weights[name] if is_external(tensor) else numpy_helper.to_array(tensor)
        bad = _count_nan(values)
        if bad:
            raise NonFiniteValueError(
                f"model {str(path)!r}, tensor {name!r} (read by {readers.get(name, 'nothing')}): {bad} of "
                f"{values.size} weights are NaN; expected finite numbers. The training run has diverged or the file is "
                "damaged: export from a checkpoint with finite weights"
            )


def _count_nan(values: Array) -> int:
    flat = values.reshape(-1)
    return sum(int(np.isnan(flat[i : i + BLOCK]).sum()) for i in range(0, flat.size, BLOCK))


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:400]

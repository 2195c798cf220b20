"""The net while it is being converted: the one mutable value of the project."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import helper
from onnx_graphsurgeon.ir.tensor import LazyValues

from fts.errors import ModelError
from fts.vocabulary.tensor_spec import TensorSpec
from fts_converters import light_proto
from fts_converters.light_proto import Array, LightProto, is_large_array, placeholder


@dataclass(slots=True, kw_only=True)
class Model:
    """An onnx-graphsurgeon graph plus where it came from.

    Attributes:
        graph: The graph; passes change it in place.
        source: File name without its folder, for messages.
        source_sha256: Digest of the file and its external data.
        original: The net as it came, where its opset or types were changed on the way in; else None.
        is_widened: It computes in float32 what it computed in another float type.
        left_alone: What loading would have widened and left as it is, each with the reason.
    """

    graph: gs.Graph
    source: str
    source_sha256: str
    original: LightProto | None = None
    is_widened: bool = False
    left_alone: tuple[str, ...] = ()

    @property
    def opset(self) -> int:
        """Opset version of the default domain."""
        return int(self.graph.opset)

    def to_proto(self) -> onnx.ModelProto:
        """A new ModelProto with all values in it; for nets below 2 GiB."""
        return self._signed(gs.export_onnx(self.graph, do_type_check=False))

    def to_light(self) -> LightProto:
        """A new LightProto; the values of its weights are shared.

        Raises:
            ModelError: What cannot be taken out of the message is larger than a message can be.
        """
        with _large_values_beside(self.graph) as weights:
            proto = gs.export_onnx(self.graph, do_type_check=False)
        if proto.ByteSize() > light_proto.LIMIT_BYTES:
            raise ModelError(
                f"model {self.source!r}: {proto.ByteSize()} bytes without its float weights (integer constants, and "
                f"constants that an If or Loop reads), and one ONNX message holds at most {light_proto.LIMIT_BYTES}. "
                "Convert a smaller net"
            )
        return LightProto(proto=self._signed(proto), weights=weights)

    def _signed(self, proto: onnx.ModelProto) -> onnx.ModelProto:
        proto.producer_name = "fts"
        proto.producer_version = ""
        # The IR that came with the opset: 8 with 15, 9 with 19, 10 with 21 (onnx release notes). Old runtimes load it.
        proto.ir_version = max(8, 9 if self.opset > 18 else 0, 10 if self.opset > 20 else 0)
        return proto


def model_from_proto(
    proto: onnx.ModelProto, *, source: str, source_sha256: str, original: LightProto | None = None
) -> Model:
    """Import a ModelProto; its initializers are shared, not copied."""
    return Model(graph=gs.import_onnx(proto), source=source, source_sha256=source_sha256, original=original)


def model_from_light(
    light: LightProto, *, source: str, source_sha256: str, original: LightProto | None = None
) -> Model:
    """Import a net in two parts; the values of its weights are shared."""
    graph = gs.import_onnx(light.proto)
    for tensor in _constants(graph):
        if tensor.name in light.weights and _is_placeholder(tensor):
            tensor.values = light.weights[tensor.name]
            tensor.data_location = None
    return Model(graph=graph, source=source, source_sha256=source_sha256, original=original)


def _is_placeholder(tensor: gs.Constant) -> bool:
    return getattr(getattr(tensor._values, "tensor", None), "data_location", None) == onnx.TensorProto.EXTERNAL


def _constants(graph: gs.Graph) -> Iterator[gs.Constant]:
    """Constants that a graph's own nodes, its subgraphs' nodes and its outputs name; some of them often."""
    for part in (graph, *graph.subgraphs(recursive=True)):
        for tensor in (*part.outputs, *(t for node in part.nodes for t in node.inputs)):
            if isinstance(tensor, gs.Constant):
                yield tensor


@contextmanager
def _large_values_beside(graph: gs.Graph) -> Iterator[dict[str, Array]]:
    """For the length of a `with`, large weights are placeholders; gives their values by name.

    Those that a subgraph reads are left: onnx-graphsurgeon writes them into the subgraph.
    """
    inner = {id(t) for part in graph.subgraphs(recursive=True) for node in part.nodes for t in node.inputs}
    inner |= {id(t) for part in graph.subgraphs(recursive=True) for t in part.outputs}
    taken: dict[str, gs.Constant] = {}
    weights: dict[str, Array] = {}
    try:
        for node in graph.nodes:
            for tensor in node.inputs:
                if not isinstance(tensor, gs.Constant) or tensor.name in taken or id(tensor) in inner:
                    continue
                values = tensor._values
                if isinstance(values, np.ndarray) and is_large_array(values):
                    taken[tensor.name], weights[tensor.name] = tensor, values
                    data_type = helper.np_dtype_to_tensor_dtype(values.dtype)
                    tensor.values = LazyValues(placeholder(tensor.name, values.shape, data_type))
        yield weights
    finally:
        for name, tensor in taken.items():
            tensor.values = weights[name]


def tensor_specs(values: Any) -> tuple[TensorSpec, ...]:
    """Specs of ONNX value infos (graph.input or graph.output), in order; unnamed dimensions are "?"."""
    specs = []
    for value in values:
        tensor = value.type.tensor_type
        shape = tuple(d.dim_value if d.HasField("dim_value") else (d.dim_param or "?") for d in tensor.shape.dim)
        specs.append(TensorSpec(name=value.name, dtype=dtype_name(tensor.elem_type), shape=shape))
    return tuple(specs)


def dtype_name(elem_type: int) -> str:
    """numpy name of an ONNX element type."""
    return str(np.dtype(helper.tensor_dtype_to_np_dtype(elem_type)).name)

"""The net while it is being converted: the one mutable value of the project."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import helper

from fts.vocabulary.tensor_spec import TensorSpec


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
    original: onnx.ModelProto | None = None
    is_widened: bool = False
    left_alone: tuple[str, ...] = ()

    @property
    def opset(self) -> int:
        """Opset version of the default domain."""
        return int(self.graph.opset)

    def to_proto(self) -> onnx.ModelProto:
        """A new ModelProto; shapes are inferred, the graph is not shared."""
        proto: onnx.ModelProto = gs.export_onnx(self.graph, do_type_check=False)
        proto.producer_name = "fts"
        proto.producer_version = ""
        # The IR that came with the opset: 8 with 15, 9 with 19, 10 with 21 (onnx release notes). Old runtimes load it.
        proto.ir_version = max(8, 9 if self.opset > 18 else 0, 10 if self.opset > 20 else 0)
        return proto


def model_from_proto(
    proto: onnx.ModelProto, *, source: str, source_sha256: str, original: onnx.ModelProto | None = None
) -> Model:
    """Import a ModelProto; its initializers are shared, not copied."""
    return Model(graph=gs.import_onnx(proto), source=source, source_sha256=source_sha256, original=original)


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

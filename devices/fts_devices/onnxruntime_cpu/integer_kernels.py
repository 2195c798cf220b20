"""Which operators ONNX Runtime really runs as integer kernels: read from its optimised graph, never from the QDQ file.

A QDQ file is a request. ONNX Runtime fuses a DQ -> op -> Q group into an integer kernel only when the group is whole, and
runs it in float otherwise without a word. So the session is opened at ORT_ENABLE_ALL with its optimised graph saved, and
the share of multiply-accumulates is counted there.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from fts.engines.onnxruntime_session import import_onnxruntime

INTEGER_MAC_KERNELS = frozenset(
    {
        "QLinearConv",
        "ConvInteger",
        "QLinearMatMul",
        "MatMulInteger",
        "QGemm",
        "MatMulIntegerToFloat",
        "DynamicQuantizeMatMul",
    }
)
# Words in the names of operators that multiply and sum; those of them not above run in float.
MAC_WORDS = ("Conv", "Gemm", "MatMul")
# The channels-last transformer of onnxruntime renames a node it moves: seen as "NAME_token_7" (1.32), "NAME_nhwc..." before.
# A MatMul that it joins with the Add behind it becomes "NAME/MatMulAddFusion".
RENAMED = re.compile(r"^(?P<name>.+)(_token_\d+|_nhwc\w*|_NhwcTransformed\w*|/MatMulAddFusion)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReport:
    """What the optimised graph holds.

    Attributes:
        integer_nodes: Names of source nodes (of the four operators that count) whose every kernel is an integer one.
        float_nodes: Names of those that do not.
        unmatched: Names of integer kernels that belong to no source node; they count for nothing.
        kernels: Operator type to count in the optimised graph.
        integer_mac_share: Share of multiply-accumulates in integer kernels, 0..1.
    """

    integer_nodes: tuple[str, ...]
    float_nodes: tuple[str, ...]
    unmatched: tuple[str, ...]
    kernels: Mapping[str, int]
    integer_mac_share: float


def optimised_graph(model: bytes) -> onnx.ModelProto:
    """The graph that ONNX Runtime executes on this machine's CPU for a model, at ORT_ENABLE_ALL."""
    ort = import_onnxruntime()
    with tempfile.TemporaryDirectory(prefix="fts-kernels-") as folder:
        path = Path(folder) / "optimised.onnx"
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.optimized_model_filepath = str(path)
        options.log_severity_level = 4
        ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return onnx.load(str(path))


def integer_kernels(model: bytes, macs: Mapping[str, int]) -> KernelReport:
    """Count what runs in integers.

    Args:
        model: The encoded graph, serialized.
        macs: Source node name to multiply-accumulates; the encoded graph must keep those node names.
    """
    labelled = onnx.load_model_from_string(model)
    # A label that is no beginning of another one tells nodes apart however onnxruntime extends it: "a" and "a_token_1".
    labels = {f"source[{position}]": name for position, name in enumerate(macs)}
    label_of = {name: label for label, name in labels.items()}
    for node in labelled.graph.node:
        node.name = label_of.get(node.name, node.name)
    return kernel_report(optimised_graph(labelled.SerializeToString()), macs, labels)


def kernel_report(
    optimised: onnx.ModelProto, macs: Mapping[str, int], labels: Mapping[str, str] | None = None
) -> KernelReport:
    """The same from an optimised graph that is at hand.

    Args:
        optimised: What ONNX Runtime executes.
        macs: Source node name to multiply-accumulates.
        labels: Node name in the graph that was optimised to source node name; None when they are the same.
    """
    labels = {name: name for name in macs} if labels is None else labels
    kernels: dict[str, int] = {}
    found: set[str] = set()
    in_float: set[str] = set()
    unmatched = []
    for node in optimised.graph.node:
        kernels[node.op_type] = kernels.get(node.op_type, 0) + 1
        source = _source_name(node.name, labels)
        if node.op_type in INTEGER_MAC_KERNELS and source is None:
            unmatched.append(node.name)
        elif node.op_type in INTEGER_MAC_KERNELS and source is not None:
            found.add(source)
        elif source is not None and any(word in node.op_type for word in MAC_WORDS):
            in_float.add(source)
    found -= in_float
    total = sum(macs.values())
    return KernelReport(
        integer_nodes=tuple(n for n in macs if n in found),
        float_nodes=tuple(n for n in macs if n not in found),
        unmatched=tuple(unmatched),
        kernels=dict(sorted(kernels.items())),
        integer_mac_share=sum(macs[n] for n in found) / total if total else 0.0,
    )


def _source_name(name: str, labels: Mapping[str, str]) -> str | None:
    """Source of a node: what onnxruntime added is taken off its name one part at a time until it is a label."""
    while name not in labels:
        renamed = RENAMED.match(name)
        if renamed is None:
            return None
        name = renamed["name"]
    return labels[name]

"""Share of a net's multiply-accumulates that ONNX Runtime runs as integer kernels, for a file of any tool.

A rival's graph has other node names than ours, so its own nodes are counted: each gets a name and, by shape inference,
its multiply-accumulates; ONNX Runtime's optimised graph then says which of them became integer kernels. The share is of
the multiply-accumulates of the net as fts cleans it, so that work which a tool hides from the count is not in its favour.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from fts_converters.macs import MAC_OPS, macs_of
from fts_converters.quantize.graph_index import GraphIndex, attributes_of
from fts_converters.quantize.units import macs_by_node
from fts_devices.onnxruntime_cpu.integer_kernels import integer_kernels

FLOAT_OPERATOR = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}
QDQ = frozenset({"QuantizeLinear", "DequantizeLinear"})


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerShare:
    """What is integer.

    Attributes:
        share: 0..1, of the cleaned net's multiply-accumulates.
        nodes: How many nodes of the tool's graph are integer.
        of_nodes: How many could be.
        counted: Multiply-accumulates found in the tool's graph over those of the cleaned net; far from 1, the share
            is not to be trusted.
    """

    share: float
    nodes: int
    of_nodes: int
    counted: float


def integer_share(model: onnx.ModelProto, total_macs: int) -> IntegerShare:
    """Count.

    Args:
        model: A tool's QDQ graph, with static input shapes; its nodes are renamed.
        total_macs: Of the cleaned net.
    """
    for position, node in enumerate(model.graph.node):
        node.name = f"n{position}"
    index = GraphIndex(_with_standard_qdq(model))
    macs = {**macs_by_node(index), **_macs_of_integer_operators(index)}
    report = integer_kernels(model.SerializeToString(), macs)
    integer = sum(macs[name] for name in report.integer_nodes)
    return IntegerShare(
        share=min(1.0, integer / total_macs),
        nodes=len(report.integer_nodes),
        of_nodes=sum(n.op_type in MAC_OPS or n.op_type in FLOAT_OPERATOR for n in model.graph.node),
        counted=sum(macs.values()) / total_macs,
    )


def _macs_of_integer_operators(index: GraphIndex) -> dict[str, int]:
    """Of operators that stand in a file as integer ones, and not as float ones between Q and DQ."""
    found = {}
    for node in index.model.graph.node:
        shapes = [index.shape(name) for name in node.input[:2]]
        output = index.shape(node.output[0])
        if node.op_type in FLOAT_OPERATOR and output is not None and None not in shapes:
            known = [shape or () for shape in shapes]
            found[node.name] = macs_of(FLOAT_OPERATOR[node.op_type], known, output, attributes_of(node))
    return found


def _with_standard_qdq(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy for shape inference, which knows no com.microsoft.QuantizeLinear and stops at a wrong stored shape."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    for node in copy.graph.node:
        if node.op_type in QDQ:
            node.domain = ""
    return copy

"""The standard's domain is "", and "ai.onnx" is the same one; a graph has a name.

onnx's checker knows operators under "" alone, and refuses a graph without a name.
"""

from __future__ import annotations

import onnx

from fts.errors import ModelError
from fts_converters.tensor_types import graphs


def name_the_standard_domain(model: onnx.ModelProto) -> None:
    """Changes nodes, imports and names of graphs.

    Raises:
        ModelError: One domain is imported in two versions.
    """
    imports: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if imports.setdefault(domain, entry.version) != entry.version:
            raise ModelError(
                f"operator set {domain or 'ai.onnx'!r} is imported as version {imports[domain]} and as {entry.version}; "
                "expected one version of each. Export again"
            )
    if len(imports) != len(model.opset_import) or "ai.onnx" in {entry.domain for entry in model.opset_import}:
        del model.opset_import[:]
        model.opset_import.extend(onnx.OperatorSetIdProto(domain=d, version=v) for d, v in imports.items())
    for graph in graphs(model.graph):
        graph.name = graph.name or "graph"
        for node in graph.node:
            if node.domain == "ai.onnx":
                node.domain = ""

"""`fts inspect MODEL`: tensors, operators, MACs and parameters of a net, before and after cleaning."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from math import prod
from typing import Any

from fts.errors import CardError, ShapeError
from fts_converters.card import Card
from fts_converters.contract import decide_inputs
from fts_converters.freeze import freeze
from fts_converters.load import load_model
from fts_converters.macs import macs_of
from fts_converters.model import tensor_specs
from fts_converters.parse_shape import parse_shape
from fts_converters.passes import RAISE_OPSET, clean
from fts_converters.quantize.graph_index import GraphIndex, attributes_of
from fts_converters.request import PreprocessingFlags
from fts_converters.warnings_log import WarningLog


def inspect_model(args: argparse.Namespace) -> int:
    """Print one model; `args` has `path`, `nodes`, `shape` and `json`."""
    model = load_model(args.path)
    proto = model.to_proto()
    specs = tensor_specs(proto.graph.input)
    facts: dict[str, Any] = {
        "model": model.source,
        "opset": model.opset,
        "inputs": [{"name": s.name, "dtype": s.dtype, "shape": list(s.shape)} for s in specs],
        "outputs": [
            {"name": s.name, "dtype": s.dtype, "shape": list(s.shape)} for s in tensor_specs(proto.graph.output)
        ],
        "before": _facts(GraphIndex(proto)),
    }
    try:
        decisions = decide_inputs(
            specs, Card(), PreprocessingFlags(), dict(parse_shape(t) for t in args.shape), WarningLog(is_quiet=True)
        )
        freeze(model, decisions.shapes, {})
        result = clean(model, skip=args.skip_pass)
        facts["passes"] = [
            {
                "name": r.name,
                "is_changed": r.is_changed,
                "nodes_removed": r.nodes_removed,
                "refusals": [{"node": x.node, "reason": x.reason} for x in r.refusals],
            }
            for r in result.records
        ]
        facts["opset_after"] = result.opset_after
        facts["after"] = _facts(GraphIndex(model.to_proto()))
    except (ShapeError, CardError) as error:
        facts["not_cleaned"] = str(error)
    if args.json:
        print(json.dumps(facts, sort_keys=True))
        return 0
    _print(facts, nodes=args.nodes)
    return 0


def _facts(index: GraphIndex) -> dict[str, Any]:
    nodes = []
    unknown = 0
    for node in index.model.graph.node:
        shapes = [index.shape(i) if i else () for i in node.input]
        output = index.shape(node.output[0]) if node.output else None
        is_known = output is not None and all(s is not None for s in shapes)
        macs = macs_of(node.op_type, [s or () for s in shapes], output or (), attributes_of(node)) if is_known else 0
        unknown += not is_known and node.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul")
        nodes.append({"name": node.name, "op_type": node.op_type, "macs": macs, "output": list(output or ())})
    parameters = sum(prod(t.dims) for t in index.initializers.values())
    return {
        "nodes": nodes,
        "operators": dict(sorted(Counter(n["op_type"] for n in nodes).items())),
        "macs": sum(n["macs"] for n in nodes),
        "macs_unknown_nodes": unknown,
        "parameters": parameters,
    }


def _print(facts: dict[str, Any], *, nodes: bool) -> None:
    print(f"model      {facts['model']}, opset {facts['opset']}")
    for kind in ("inputs", "outputs"):
        for t in facts[kind]:
            print(f"{kind[:-1]:<11}{t['name']}  {t['dtype']} {'x'.join(map(str, t['shape'])) or 'scalar'}")
    for label in ("before", "after"):
        if label not in facts:
            continue
        part = facts[label]
        lacking = f" ({part['macs_unknown_nodes']} nodes of unknown shape)" if part["macs_unknown_nodes"] else ""
        print(
            f"{label:<11}{len(part['nodes'])} nodes, {part['macs'] / 1e6:.4g} MMAC{lacking}, {part['parameters']} parameters"
        )
        for op_type, count in sorted(part["operators"].items(), key=lambda item: (-item[1], item[0])):
            print(f"           {count:4d} {op_type}")
    if facts.get("opset_after", facts["opset"]) != facts["opset"]:
        print(f"opset      {facts['opset']} -> {facts['opset_after']}, for operators that are newer")
    for record in facts.get("passes", []):
        if record["is_changed"] and record["name"] != RAISE_OPSET:
            print(f"pass       {record['name']}: {-record['nodes_removed']:+d} nodes")
        for refusal in record["refusals"]:
            print(f"left       {record['name']}: {refusal['node']}: {refusal['reason']}")
    if "not_cleaned" in facts:
        print(f"not cleaned: {facts['not_cleaned']}")
    if nodes:
        for n in facts.get("after", facts["before"])["nodes"]:
            print(f"  {n['name']}  {n['op_type']}  {n['macs']} MAC  {'x'.join(map(str, n['output']))}")

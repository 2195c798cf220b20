"""`fts inspect MODEL`: tensors, operators, MACs and parameters of a net, before and after cleaning; what an engine lacks."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import asdict
from math import prod
from typing import Any

from fts.errors import CardError, ShapeError
from fts_converters.card import Card
from fts_converters.contract import decide_inputs
from fts_converters.freeze import freeze
from fts_converters.given_grids.take_over import GridCount, count_grids, holds_grids
from fts_converters.load import load_model
from fts_converters.lower import lower
from fts_converters.lower.unsupported import unsupported_nodes
from fts_converters.macs import macs_of
from fts_converters.model import Model, model_from_proto, tensor_specs
from fts_converters.parse_shape import parse_shape
from fts_converters.passes import RAISE_OPSET, clean
from fts_converters.quantize.graph_index import GraphIndex, attributes_of
from fts_converters.request import PreprocessingFlags
from fts_converters.warnings_log import WarningLog
from fts_devices.op_support import EngineOps, load_engine_ops


def inspect_model(args: argparse.Namespace) -> int:
    """Print one model; `args` has `path`, `nodes`, `shape`, `skip_pass`, `engine` and `json`.

    Raises:
        UsageError: There is no such engine.
    """
    engine = load_engine_ops(args.engine) if args.engine else None
    model = load_model(args.path)
    proto = model.to_light().proto
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
    if holds_grids(model):
        facts["given_scales"] = count_grids(model).to_json()
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
        facts["after"] = _facts(GraphIndex(model.to_light().proto))
        if engine is not None:
            facts["engine"] = _engine_facts(model, engine)
    except (ShapeError, CardError) as error:
        facts["not_cleaned"] = str(error)
    if args.json:
        print(json.dumps(facts, sort_keys=True))
        return 0
    _print(facts, nodes=args.nodes)
    return 0


def _engine_facts(model: Model, engine: EngineOps) -> dict[str, Any]:
    """What an engine does not take as it is: replaced by its lowerings, or still there."""
    copy = model_from_proto(model.to_proto(), source=model.source, source_sha256=model.source_sha256)
    before = unsupported_nodes(copy, engine)
    refusals = lower(copy, engine.engine)
    after = unsupported_nodes(copy, engine, refusals)
    left = {(n.node, n.op_type) for n in after}
    return {
        "name": engine.engine,
        "summary": engine.summary,
        "nodes": len(copy.graph.nodes),
        "lowered": [
            {"node": n.node, "op_type": n.op_type, "reason": n.reason}
            for n in before
            if (n.node, n.op_type) not in left
        ],
        "lacking": [asdict(n) for n in after],
    }


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
    if "given_scales" in facts:
        count = facts["given_scales"]
        print(
            f"scales     {GridCount(**count)} come with the net (QuantizeLinear, DequantizeLinear); a conversion keeps them"
        )
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
    if "engine" in facts:
        _print_engine(facts["engine"])
    if "not_cleaned" in facts:
        print(f"not cleaned: {facts['not_cleaned']}")
    if nodes:
        for n in facts.get("after", facts["before"])["nodes"]:
            print(f"  {n['name']}  {n['op_type']}  {n['macs']} MAC  {'x'.join(map(str, n['output']))}")


def _print_engine(engine: dict[str, Any]) -> None:
    print(f"engine     {engine['name']}: {engine['summary']}; {engine['nodes']} nodes for it, by its documents alone")
    for n in engine["lowered"]:
        print(f"replaced   {n['node']}: {n['op_type']}: {n['reason']}")
    for n in engine["lacking"]:
        attribute = f" ({n['attribute']})" if n["attribute"] else ""
        kept = f"; not replaced: {n['not_lowered']}" if n["not_lowered"] else ""
        nearest = f"; would work: {n['nearest']}" if n["nearest"] else ""
        print(f"lacking    {n['node']}: {n['op_type']}{attribute}: {n['reason']}{kept}{nearest}")
    if not engine["lacking"]:
        print("lacking    nothing that is known")

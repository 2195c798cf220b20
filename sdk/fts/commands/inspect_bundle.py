"""`fts inspect BUNDLE`: what a bundle holds: tensors, plan, engines, quality. The base install is enough."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fts.vocabulary.manifest import Manifest
    from fts.vocabulary.preprocessing import Preprocessing


def inspect_bundle(args: argparse.Namespace) -> int:
    """Print one bundle; `args` has `path`, `nodes` and `json`."""
    from fts.bundle.archive import open_bundle
    from fts.bundle.manifest_json import json_from_manifest

    bundle = open_bundle(args.path)
    if args.json:
        print(json.dumps(json.loads(json_from_manifest(bundle.manifest)), sort_keys=True))
        return 0
    for line in lines_from_manifest(bundle.manifest, nodes=args.nodes):
        print(line)
    return 0


def lines_from_manifest(manifest: Manifest, *, nodes: bool) -> Iterator[str]:
    """The text form, section by section."""
    yield f"target     {manifest.target}, dialect {manifest.plan.dialect}, format {manifest.format_version}"
    for i in manifest.inputs:
        default = "" if i.kind == "image" else ", required" if i.default is None else ", has a default"
        yield f"input      {i.name}  {i.dtype} {_times(i.shape)}  {i.kind}{default}"
        if i.preprocessing is not None:
            yield f"           {preprocessing_text(i.preprocessing)}"
    for o in manifest.outputs:
        bounds = "" if o.range is None else f" {o.range[0]:g} to {o.range[1]:g}"
        yield f"output     {o.name}  {o.dtype} {_times(o.shape)}  {o.kind}{bounds}"
    for rung in manifest.rungs:
        yield f"rung       {rung.id}"
    sizes = {m.path: m.bytes for m in manifest.members}
    for e in manifest.engines:
        needs = [*e.requires.isa, *([f"onnxruntime >= {e.requires.onnxruntime}"] if e.requires.onnxruntime else [])]
        tag = f", {e.evidence.tag} by {e.evidence.by}" if e.evidence is not None else ""
        yield (
            f"engine     {e.kind} {e.precision}  {e.member} ({sizes.get(e.member, 0) / 1024:.0f} KiB), {e.state}, "
            f"needs {', '.join(needs) or 'nothing'}{tag}"
        )
    yield from _quality_lines(manifest)
    yield from _plan_lines(manifest, nodes)


def preprocessing_text(pre: Preprocessing) -> str:
    """One line: how a picture becomes the tensor."""
    mean, std = (",".join(f"{v:g}" for v in values) for values in (pre.mean, pre.std))
    return f"{pre.color} {pre.layout} fit {pre.fit}: (pixel * {pre.scale:.6g} - {mean}) / {std}"


def _quality_lines(manifest: Manifest) -> Iterator[str]:
    quality = manifest.quality
    met = "met" if quality["met"] else "NOT met"
    yield f"quality    {quality['budget']}: {met}; {quality.get('integer_mac_share', 0.0):.1%} of the MACs in integer kernels"
    for m in quality.get("metrics", []):
        yield (
            f"           {m['output']}: {m['metric']} min {m['min']} mean {m['mean']} "
            f"on {m['n']} {m['split']} samples ({m['tag']})"
        )
    for failure in quality.get("failures", []):
        yield f"           missed: {failure}"


def _plan_lines(manifest: Manifest, nodes: bool) -> Iterator[str]:
    plan = manifest.plan.nodes
    total = sum(n.macs for n in plan)
    counts = Counter(n.precision for n in plan)
    yield f"plan       {len(plan)} nodes ({', '.join(f'{c} {p}' for p, c in sorted(counts.items()))}), {total / 1e6:.4g} MMAC"
    by_op = Counter((n.op_type, n.precision) for n in plan)
    for (op_type, precision), count in sorted(by_op.items(), key=lambda item: (-item[1], item[0])):
        yield f"           {count:4d} {op_type} {precision}"
    if nodes:
        width = max((len(n.name) for n in plan), default=0)
        for n in plan:
            share = f"{n.macs / total:6.1%}" if total and n.macs else " " * 6
            yield f"  {n.name:<{width}}  {n.op_type:<22} {n.precision}  {share}  {n.reason}"


def _times(shape: tuple[object, ...]) -> str:
    return "x".join(str(d) for d in shape) or "scalar"

"""INT8 of fts beside that of other tools: `python benchmarks/fidelity.py --rivals-python PATH`.

The nets of the bars (`zoo/nets.py`), the same crops for all: 16 to calibrate with, 8 to judge by. Printed for each net and
tool: PSNR of the judged output against the FP32 net (peak: the range of the FP32 output over the 8 crops) or years of age,
share of multiply-accumulates in integer kernels of ONNX Runtime's optimised graph, time against FP32 in turns in one
process, time and memory of the conversion in a process of its own; then the bars. README.md says how to make PATH.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rivals.interleave import Ratio, interleaved_times_s, ratio_of
from rivals.ours import TARGET, converted
from rivals.row import OURS, Row, best_of_each_method
from rivals.run_rival import RIVALS, methods_of, rival_versions, run_method
from rivals.score import Array
from rivals.score_file import outputs_of, scored_once
from rivals.source_net import SourceNet, make_source_net
from rivals.table import table
from rivals.verdict import Verdict, verdicts
from zoo.crops import source_files
from zoo.nets import NETS, Net

from fts.bundle.archive import open_bundle
from fts.engines.isa import available_isa
from fts.engines.onnxruntime_session import onnxruntime_version, open_session
from fts.errors import BundleError
from fts.vocabulary.manifest import encoded_member


def our_row(
    net: Net, source: SourceNet, references: Sequence[Array], bundle: Path | None, args: argparse.Namespace
) -> Row:
    """fts-convert's row, from a bundle at hand or from a conversion.

    Args:
        net: Its declaration.
        source: Its files.
        references: FP32 outputs for the holdout crops.
        bundle: What to judge, None to convert.
        args: Of the command.
    """
    seconds, peak_bytes, error = 0.0, 0, ""
    if bundle is None:
        folder = args.cache / "ours"
        folder.mkdir(parents=True, exist_ok=True)
        arguments = [str(source.file), "--calib", str(source.calibration), "--holdout", str(source.holdout)]
        arguments += [*net.preprocessing_arguments(), *args.convert_arguments]
        output = folder / f"{net.name.replace('/', '_')}.fts"
        bundle, seconds, peak_bytes, error = converted(arguments, output, args.timeout)
    name = "" if bundle is None else bundle.name
    row = Row(rival=OURS, method="", settings={"bundle": name}, seconds=seconds, peak_bytes=peak_bytes, error=error)
    if bundle is None:
        return row
    graph = args.cache / "ours" / f"{net.name.replace('/', '_')}.onnx"
    graph.parent.mkdir(parents=True, exist_ok=True)
    try:
        graph.write_bytes(open_bundle(bundle).read(encoded_member(TARGET)))
    except (BundleError, KeyError) as cause:
        return replace(row, error=str(cause))
    return scored_once(row, graph, source, references, exact_u8s8=False)


def rival_rows(source: SourceNet, references: Sequence[Array], args: argparse.Namespace) -> list[Row]:
    """Every setting of every method of the rivals asked for; a failure is a row."""
    rows: list[Row] = []
    for rival in args.rivals:
        for method in methods_of(rival, with_slow=args.slow):
            rows += run_method(rival, method, source, references, args.rivals_python, args.cache, args.timeout)
            print(f"{source.name}: {rival}, {method}", file=sys.stderr)
    return rows


def measured(source: SourceNet, rows: Sequence[Row], threads: int, seconds: float) -> dict[str, Ratio]:
    """Time of every row that runs over that of FP32, and of fts over every rival."""
    feed = {source.input_name: source.holdout_tensors[:1]}
    sessions = {"FP32": open_session(source.frozen.read_bytes(), threads=threads, what=source.name)}
    for row in rows:
        if row.file is not None and not row.error:
            model = row.file.read_bytes()
            sessions[row.name] = open_session(model, threads=threads, exact_u8s8=row.exact_u8s8, what=row.name)
    times = interleaved_times_s({n: partial(s.run, feed) for n, s in sessions.items()}, seconds=seconds)
    ratios = {name: ratio_of(taken, times["FP32"]) for name, taken in times.items() if name != "FP32"}
    if OURS in times:
        others = [name for name in ratios if name != OURS]
        ratios |= {f"{OURS} / {name}": ratio_of(times[OURS], times[name]) for name in others}
    return ratios


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything about one net.

    Attributes:
        rows: What the table shows: ours, and each method of a rival as it serves its tool best.
        tried: Every setting of every method.
        latency: Threads to names to ratios, as `measured` gives them.
        bars: Verdicts.
    """

    rows: Sequence[Row]
    tried: Sequence[Row]
    latency: Mapping[int, Mapping[str, Ratio]]
    bars: Sequence[Verdict]

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "rows": [r.to_json() for r in self.rows],
            "tried": [r.to_json() for r in self.tried],
            "latency": {t: {n: r.to_json() for n, r in ratios.items()} for t, ratios in self.latency.items()},
            "verdicts": [v.to_json() for v in self.bars],
        }


def compared(net: Net, bundles: Mapping[str, Path], args: argparse.Namespace) -> Comparison:
    """Run everything for one net."""
    source = make_source_net(net, args.cache / "nets")
    references = outputs_of(source.frozen.read_bytes(), source)
    ours = None if args.skip_ours else our_row(net, source, references, bundles.get(net.name), args)
    tried = rival_rows(source, references, args)
    rivals = best_of_each_method(tried)
    latency: dict[int, dict[str, Ratio]] = {}
    if not args.skip_latency:
        timed = [r for r in rivals if r.is_peer] + ([] if ours is None else [ours])
        latency = {threads: measured(source, timed, threads, args.seconds) for threads in args.threads}
    bars = verdicts(net.name, ours, rivals, latency)
    return Comparison(rows=[*([] if ours is None else [ours]), *rivals], tried=tried, latency=latency, bars=bars)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rivals-python", type=Path, metavar="PATH", help="interpreter that has the rivals")
    parser.add_argument("--nets", default=",".join(n.name for n in NETS), help="comma-separated; default: all")
    parser.add_argument("--rivals", default=",".join(RIVALS), help="comma-separated, or nothing; default: all")
    parser.add_argument(
        "--cache", type=Path, default=Path("out/fidelity"), metavar="FOLDER", help="nets, crops, results"
    )
    parser.add_argument("--bundle", action="append", default=[], metavar="NET=PATH", help="judge it; do not convert")
    parser.add_argument("--slow", action="store_true", help="also the rivals' methods that take hours")
    parser.add_argument("--skip-ours", action="store_true", help="the rivals alone")
    parser.add_argument("--skip-latency", action="store_true", help="no times")
    parser.add_argument("--threads", default="2,1", help="intra-op threads to time with; default: 2,1")
    parser.add_argument("--seconds", type=float, default=20.0, help="time to measure a net with one number of threads")
    parser.add_argument("--timeout", type=float, default=1800.0, metavar="S", help="limit of one method or conversion")
    parser.add_argument("--convert-arguments", default="", metavar="'--X ...'", help="more flags for fts-convert")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    args = parser.parse_args()
    args.rivals = [r for r in args.rivals.split(",") if r]
    args.threads = [int(t) for t in args.threads.split(",")]
    args.convert_arguments = args.convert_arguments.split()
    args.nets = args.nets.split(",")
    args.bundle = {name: Path(path) for name, _, path in (text.partition("=") for text in args.bundle)}
    unknown = set(args.rivals) - set(RIVALS) | {*args.nets, *args.bundle} - {n.name for n in NETS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if args.rivals and args.rivals_python is None:
        parser.error("--rivals-python PATH is needed, or --rivals '' to judge fts alone")
    return args


def main() -> int:
    args = parse_arguments()
    versions = {r: rival_versions(args.rivals_python, r) for r in args.rivals}
    isa = ", ".join(sorted(available_isa())) or "none of interest"
    print(f"onnxruntime {onnxruntime_version()}; {platform.processor() or platform.machine()}, instructions: {isa}")
    for rival, packages in versions.items():
        print(f"{rival}:", ", ".join(f"{name} {version or 'missing'}" for name, version in packages.items()))
    document: dict[str, Any] = {"versions": versions, "onnxruntime": onnxruntime_version(), "isa": isa, "nets": {}}
    missed = 0
    for net in (n for n in NETS if n.name in args.nets):
        found = compared(net, args.bundle, args)
        print(f"\n== {net.name}: {net.output}; {source_files(net.table)}")
        print(table(found.rows, found.latency))
        print("\n".join(map(str, found.bars)), flush=True)
        missed += sum(v.is_floor and v.met is False for v in found.bars)
        document["nets"][net.name] = found.to_json()
        if args.json is not None:
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps(document, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

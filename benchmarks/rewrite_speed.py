"""What the rewrites are worth in speed: `python benchmarks/rewrite_speed.py`.

cyclegan_vintage is quantized for cpu-int8 twice by the same quantizer, with the passes and lowerings and without them
(only constants folded and nodes named, which the quantizer needs). Both run in turn, in random order within each pair;
printed are the medians and the ratio with its 95 % interval by bootstrap over the pairs. Needs the extras `convert` and
`torch`. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
from zoo.crops import source_files, write_crops
from zoo.nets import NETS, Net, net

from fts.engines.isa import available_isa
from fts.engines.onnxruntime_session import OrtSession, open_session
from fts_calibration.dataset.source import open_calibration
from fts_calibration.dataset.splits import deal_splits
from fts_calibration.statistics.collect import collect_statistics
from fts_converters.card import Card
from fts_converters.contract import decide_inputs
from fts_converters.freeze import freeze
from fts_converters.load import load_model
from fts_converters.lower import lower
from fts_converters.model import tensor_specs
from fts_converters.passes import DEFAULT_PASSES, clean
from fts_converters.quantize.encode_qdq import encode_qdq
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.plan_nodes import channel_tensors, plan_nodes, tensors_to_calibrate
from fts_converters.quantize.units import find_candidates
from fts_converters.request import PreprocessingFlags
from fts_converters.warnings_log import WarningLog
from fts_devices.profiles import load_profile

TARGET = "cpu-int8"
NEEDED = ("fold_constants", "name_nodes")
WARM_UP_PAIRS = 3
RESAMPLES = 2000


def quantized(path: Path, what: Net, calib: Path, *, is_rewritten: bool) -> tuple[bytes, float]:
    """The encoded net and the share of its MACs planned in integers, everything in INT8 that can be."""
    profile = load_profile(TARGET)
    dialect = profile.dialects["vnni" if "vnni" in available_isa() else "any"]
    model = load_model(str(path))
    flags = PreprocessingFlags(color="rgb", scale=what.scale, mean=what.mean, std=what.std, layout="nchw")
    shapes = {what.input_name: (1, 3, what.side_px, what.side_px)}
    decisions = decide_inputs(tensor_specs(model.to_proto().graph.input), Card(), flags, shapes, WarningLog())
    freeze(model, decisions.shapes, decisions.frozen)
    clean(model, skip=() if is_rewritten else [name for name, _ in DEFAULT_PASSES if name not in NEEDED])
    if is_rewritten:
        lower(model, TARGET)
    index = GraphIndex(model.to_proto())
    candidates = find_candidates(index, profile)
    units = candidates.units.values()
    data = deal_splits(open_calibration(str(calib), [i.to_request() for i in decisions.live]), all_calibrate=True)
    outputs = [o.name for o in index.model.graph.output]
    tensors = tensors_to_calibrate(units, index, outputs)
    found = collect_statistics(index.model, data.feeds("calibrate"), tensors, channel_tensors(units, index))
    plan = plan_nodes(index, candidates, profile, dialect, kept_float={})
    encoded = encode_qdq(index, candidates, plan, found, dialect).model
    return encoded.SerializeToString(), plan.planned_integer_share


def times_ms(sessions: dict[str, OrtSession], feed: dict[str, np.ndarray], pairs: int) -> dict[str, list[float]]:  # type: ignore[type-arg]
    """One run of each a pair, in random order."""
    order = list(sessions)
    rng = random.Random(0)
    found: dict[str, list[float]] = {name: [] for name in order}
    for pair in range(pairs + WARM_UP_PAIRS):
        rng.shuffle(order)
        for name in order:
            start_s = time.perf_counter()
            sessions[name].run(feed)
            if pair >= WARM_UP_PAIRS:
                found[name].append((time.perf_counter() - start_s) * 1e3)
    return found


def ratio_interval(slow: list[float], fast: list[float]) -> tuple[float, float, float]:
    """Ratio of medians with its 95 % bootstrap interval; pairs are drawn together."""
    rng = np.random.default_rng(0)
    a, b = np.array(slow), np.array(fast)
    drawn = rng.integers(0, len(a), (RESAMPLES, len(a)))
    ratios = np.median(a[drawn], 1) / np.median(b[drawn], 1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(np.median(a) / np.median(b)), float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of INT8 with and without the rewrites, interleaved.")
    parser.add_argument("--net", default="cyclegan_vintage", choices=[n.name for n in NETS if "/" not in n.name])
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    what = net(args.net)
    with tempfile.TemporaryDirectory() as folder:
        calib, _ = write_crops(Path(folder), what.side_px, what.table)
        path = what.make(Path(folder))
        sessions = {}
        for name, is_rewritten in (("with", True), ("without", False)):
            encoded, share = quantized(path, what, calib, is_rewritten=is_rewritten)
            print(f"{name} rewrites: {share:.0%} of the MACs planned in integers", flush=True)
            sessions[name] = open_session(encoded, threads=args.threads, what=name)
        side = what.side_px
        feed = {what.input_name: np.random.default_rng(0).random((1, 3, side, side), np.float32)}
        found = times_ms(sessions, feed, args.pairs)
    ratio, low, high = ratio_interval(found["without"], found["with"])
    print(f"{args.net}, {platform.machine()}, onnxruntime {onnxruntime.__version__}, {args.threads} threads")
    print(f"calibrated on {source_files(what.table)}; {args.pairs} pairs")
    print(" ".join(f"{name} {statistics.median(ms):.1f} ms," for name, ms in found.items()), end=" ")
    print(f"{ratio:.2f} times as fast with the rewrites (95 % {low:.2f} .. {high:.2f})")


if __name__ == "__main__":
    main()

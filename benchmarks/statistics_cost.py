"""What calibration statistics cost: `python benchmarks/statistics_cost.py [--net NAME …]`.

Time: a bare FP32 forward of the cleaned net and the same sample through `Collector.add` in turn, in one process, with the
same session settings and threads; printed are the medians over samples and their ratio with its 95 % interval by bootstrap
over the pairs, of wall time and of CPU time. Bars: 3 on cyclegan_vintage and srvgg_x4 (aim 1.5), 4 on the others.

Memory: peak resident memory of a child process that collects over 20 and over 200 samples. Bar: 1.1 times.

What is watched is what `fts-convert --target cpu-int8` watches. Needs the extras `convert` and `torch`. Run it on an idle
machine.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from large_net_memory import peak_bytes
from rewrite_speed import ratio_interval
from zoo.crops import source_files, write_crops
from zoo.nets import NETS, Net, net

from fts.engines.onnxruntime_session import open_session
from fts.engines.threads import available_cpus
from fts_calibration.statistics.collect import Collector, Feed
from fts_converters.cache import StageCache
from fts_converters.prepare import Prepared, prepare
from fts_converters.progress import Progress
from fts_converters.request import ConvertRequest, PreprocessingFlags
from fts_converters.warnings_log import WarningLog
from fts_devices.profiles import load_profile

TARGET = "cpu-int8"
WARM_UP_PAIRS = 3
FEW, MANY = 20, 200  # samples


def prepared(what: Net, folder: Path) -> Prepared:
    """The net as fts-convert prepares it, all crops of the calibration split in one."""
    calib, _ = write_crops(folder, what.side_px, what.table)
    flags = dict(zip(what.arguments[::2], what.arguments[1::2], strict=True))
    request = ConvertRequest(
        source=str(what.make(folder)),
        target=TARGET,
        calib=str(calib),
        output=folder / "unused.fts",
        card=Path(flags["--card"]) if "--card" in flags else None,
        shapes={what.input_name: (1, 3, what.side_px, what.side_px)},
        preprocessing=PreprocessingFlags(
            color="rgb", scale=what.scale, mean=what.mean, std=what.std, layout="nchw", fit="exact"
        ),
        budget_text="none",
        use_cache=False,
    )
    return prepare(request, load_profile(TARGET), StageCache(None), WarningLog(), Progress(None))


def collector_of(net: Prepared) -> Collector:
    seen = net.statistics
    return Collector(net.index.model, list(seen.ranges), list(seen.channel_ranges), weights=net.index.weights)


def feeds_of(net: Prepared, count: int) -> Iterator[Feed]:
    """The crops again and again."""
    return islice(cycle(list(net.data.feeds("calibrate"))), count)


def times_ms(net: Prepared, pairs: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Wall and CPU time of one sample, (pairs, 2) each: with statistics, bare."""
    bare = open_session(net.index.model.SerializeToString(), weights=net.index.weights)
    collector = collector_of(net)
    wall, cpu = np.zeros((2, pairs + WARM_UP_PAIRS, 2))
    for pair, feed in enumerate(feeds_of(net, pairs + WARM_UP_PAIRS)):
        for place in (0, 1) if pair % 2 else (1, 0):
            begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
            if place == 0:
                collector.add(feed)
            else:
                bare.run(dict(feed))
            cpu[pair, place] = (time.process_time() - begin_cpu_s) * 1e3
            wall[pair, place] = (time.perf_counter() - begin_s) * 1e3
    return wall[WARM_UP_PAIRS:], cpu[WARM_UP_PAIRS:]


def peak_of(name: str, samples: int) -> int:
    """Peak resident memory in bytes of a process that collects over so many samples."""
    command = [sys.executable, __file__, "--net", name, "--collect", str(samples)]
    return int(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["peak_bytes"])


def collect(what: Net, samples: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        net = prepared(what, Path(folder))
        collector = collector_of(net)
        for feed in feeds_of(net, samples):
            collector.add(feed)
    print(json.dumps({"peak_bytes": peak_bytes()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", action="append", choices=[n.name for n in NETS], help="may be repeated (all)")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--no-memory", action="store_true", help="leave the two child processes out")
    parser.add_argument("--collect", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = args.net or [n.name for n in NETS]
    if args.collect:
        collect(net(names[0]), args.collect)
        return
    print(
        f"{platform.machine()}, onnxruntime {onnxruntime.__version__}, {available_cpus()} threads, {args.pairs} pairs"
    )
    print(f"{'net':<18}{'tensors':>8}{'bare ms':>10}{'ms':>9}  wall (95 %)          CPU (95 %)           memory")
    for name in names:
        what = net(name)
        with tempfile.TemporaryDirectory() as folder:
            made = prepared(what, Path(folder))
            wall, cpu = times_ms(made, args.pairs)
        row = f"{name:<18}{len(made.statistics.ranges):>8}{np.median(wall[:, 1]):>10.1f}{np.median(wall[:, 0]):>9.1f}"
        for times in (wall, cpu):
            row += "  {:.2f} ({:.2f} .. {:.2f})".format(*ratio_interval(list(times[:, 0]), list(times[:, 1])))
        if not args.no_memory:
            few, many = (peak_of(name, samples) / 2**20 for samples in (FEW, MANY))
            row += f"  {few:.0f} -> {many:.0f} MiB, {many / few:.2f}"
        print(row, flush=True)
    for table in sorted({net(name).table for name in names}):
        print(source_files(table))


if __name__ == "__main__":
    main()

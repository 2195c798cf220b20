"""How well estimates of sensitivity order the units of a net: `python benchmarks/sensitivity.py ocr_det cyclegan_vintage`.

For each net of the zoo (all that are named, else a few): every unit alone in INT8 on all samples of the select split is the
truth; beside it Spearman's rank correlation of each estimate, its work in inferences of the FP32 net, and whether it
could be the default (at least 0.9). Everything is calibrated by min-max. The gradient needs torch, whose convolutions may be
far slower than ONNX Runtime's: `--gradient` adds it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import onnxruntime
from zoo.crops import source_files, write_crops
from zoo.nets import net

from fts.engines.isa import available_isa
from fts_calibration.sensitivity.activation_spread import estimate_from_spread
from fts_calibration.sensitivity.exhaustive import Measurement, measure_exhaustively
from fts_calibration.sensitivity.fisher import NotEstimableError, estimate_by_fisher
from fts_calibration.sensitivity.local_sqnr import estimate_local_sqnr
from fts_calibration.sensitivity.pilot import measure_with_pilot
from fts_calibration.sensitivity.spearman import spearman
from fts_calibration.sensitivity.table import SensitivityTable
from fts_calibration.statistics.statistics import Statistics
from fts_converters.cache import StageCache
from fts_converters.commands.convert import _parser, _request
from fts_converters.prepare import feeds_digest, prepare
from fts_converters.progress import Progress
from fts_converters.quantize.plan_nodes import plan_nodes, plan_only
from fts_converters.quantize.trials import Trials, open_trials
from fts_converters.warnings_log import WarningLog
from fts_devices.profiles import load_profile

USUAL = ("cyclegan_vintage", "ocr_det", "centerface", "srvgg_x4", "age_81")
GOOD_ENOUGH = 0.9
TARGET = "cpu-int8"


def measured(name: str, folder: Path, stack: ExitStack) -> tuple[Measurement, Statistics]:
    """A net of the zoo, prepared as fts-convert does, with all units that its first plan has in INT8."""
    wanted = net(name)
    calib, holdout = write_crops(folder / f"crops{wanted.side_px}", wanted.side_px, wanted.table)
    arguments = [str(wanted.make(folder)), "--target", TARGET, "--calib", str(calib), "--holdout", str(holdout)]
    arguments += wanted.preprocessing_arguments()
    request = _request(_parser().parse_args(arguments), arguments)
    profile = load_profile(TARGET)
    dialect = profile.dialects["vnni" if "vnni" in available_isa() else "any"]
    prepared = prepare(request, profile, StageCache(None), WarningLog(), Progress(None))
    index, candidates = prepared.index, prepared.candidates
    trials = Trials(
        index=index,
        candidates=candidates,
        statistics=prepared.statistics,
        dialect=dialect,
        feeds=lambda: prepared.data.feeds("select"),
        split_digest=feeds_digest(prepared.data, prepared.inputs),
        budgets=prepared.budgets,
        exact_u8s8=not set(dialect.isa) <= available_isa(),
        cache=StageCache(None),
    )
    stack.enter_context(open_trials(trials))
    plan = plan_nodes(index, candidates, profile, dialect, kept_float={})
    integer = {n.name for n in plan.nodes if n.precision == "int8"}
    units = [u.name for u in candidates.units.values() if u.name in integer and u.role != "passthrough"]
    found = trials.measurement(units, lambda unit: plan_only(index, candidates, profile, dialect, unit))
    return found, prepared.statistics


def estimates(given: Measurement, statistics: Statistics, with_gradient: bool) -> Iterator[SensitivityTable | str]:
    """Tables of all estimates, or why there is none."""
    yield measure_with_pilot(given)
    yield estimate_local_sqnr(given)
    yield estimate_from_spread(given.units, statistics)
    if with_gradient:
        try:
            yield estimate_by_fisher(given)
        except NotEstimableError as error:
            yield f"fisher: {error}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=USUAL)
    parser.add_argument("--gradient", action="store_true")
    args = parser.parse_args()
    print(f"onnxruntime {onnxruntime.__version__}; {source_files()}")
    for name in args.nets:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            given, statistics = measured(name, Path(folder), stack)
            truth = measure_exhaustively(given)
            whole = len(given.units) * truth.samples
            print(f"{name}: {len(given.units)} units, {truth.samples} samples, {whole} inferences without a cut")
            print(f"  {truth.method:<18} 1.000  {truth.forward_passes:7.1f} forward passes", flush=True)
            for table in estimates(given, statistics, args.gradient):
                if isinstance(table, str):
                    print(f"  {table}")
                    continue
                names = list(truth.losses)
                found = spearman([table.losses[n] for n in names], [truth.losses[n] for n in names])
                verdict = "" if found >= GOOD_ENOUGH else "  not good enough for a default"
                print(
                    f"  {table.method:<18} {found:5.3f}  {table.forward_passes:7.1f} forward passes{verdict}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())

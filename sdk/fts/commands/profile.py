"""`fts-profile`: latency of a bundle on this machine. numpy is imported after parsing."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fts.commands.outcome import run_command
from fts.commands.progress import Progress
from fts.errors import UsageError

if TYPE_CHECKING:
    from fts.model import Model
    from fts.profile.baseline import Condition
    from fts.profile.measure import Measurement, Request
    from fts.profile.measured_net import NetSpec

_EXAMPLES = """examples:
  fts-profile restore.cpu-int8.fts                                    a table
  fts-profile restore.cpu-int8.fts --frames photos/ --json now.json   and everything as JSON, raw samples included
  fts-profile restore.cpu-int8.fts --scenario open@30                 a camera of 30 frames per second
  fts-profile restore.cpu-int8.fts --baseline old.json --fail-if 'p90>1.05x'

scenarios: closed gives the next frame after the result; open@FPS is a camera that does not wait, the age of a frame
counts from its capture, and the latest frame wins: dropped ones are violations; open@FPS,lossless lets all wait.
exit codes: 0 done, 1 a defect of fts, 2 wrong input, 3 a condition of --fail-if holds or cannot be decided,
4 something is missing here, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `fts-profile`."""
    args = _parser().parse_args(argv)
    return run_command("fts-profile", lambda: _profile(args))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fts-profile",
        description="Measure the latency of a bundle on this machine, in fresh processes, with intervals.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="a .fts file")
    parser.add_argument(
        "--scenario", default="closed", metavar="NAME", help="closed, open@FPS or open@FPS,lossless (default: closed)"
    )
    parser.add_argument(
        "--seconds", type=_positive_seconds, default=10.0, metavar="S", help="measuring time of all runs (default: 10)"
    )
    parser.add_argument("--runs", type=_positive, default=5, metavar="N", help="fresh processes (default: 5)")
    parser.add_argument("--frames", metavar="PATH", help="a picture, a folder or a video (default: synthetic frames)")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of a tensor input: a number, numbers joined by commas, or a .npy file; may be repeated",
    )
    parser.add_argument("--threads", type=_positive, metavar="N", help="threads of one inference (default: all usable)")
    parser.add_argument("--strict", action="store_true", help="fail where the target's engine cannot run here")
    parser.add_argument("--simulate", action="store_true", help="run the target's numerics where its engine cannot run")
    parser.add_argument("--no-layers", action="store_true", help="leave out the time by layer")
    parser.add_argument("--no-ratio", action="store_true", help="leave out the ratio to the portable FP32 net")
    parser.add_argument("--json", metavar="FILE", help="write everything as JSON; - for stdout, in place of the table")
    parser.add_argument("--samples", metavar="FILE.npz", help="write the raw samples there, and not into the JSON")
    parser.add_argument("--baseline", metavar="FILE", help="an earlier --json, for --fail-if")
    parser.add_argument(
        "--fail-if", metavar="COND", help="exit 3 when p50, p90 or p99 is too high: 'p90>1.05x', 'p90>12ms,p99>20ms'"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number >= 1")
    return number


def _positive_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected seconds above 0")
    return seconds


def _profile(args: argparse.Namespace) -> int:
    import numpy as np

    from fts.commands.run_inputs import inputs_from_flags
    from fts.loading import load
    from fts.profile.baseline import differences, violations
    from fts.profile.clock import SystemClock
    from fts.profile.document import document_from_measurement
    from fts.profile.feeds import write_feeds
    from fts.profile.measure import measure
    from fts.profile.measured_net import NetSpec
    from fts.profile.scenarios import overload_text, scenario_from_text
    from fts.profile.table import table_from_document

    scenario = scenario_from_text(args.scenario)
    conditions, baseline = _conditions(args, str(scenario))
    _check_outputs(args)
    # Loading it here once tells what is wrong with the bundle or the inputs; what is measured loads it anew.
    with load(
        args.bundle, strict=args.strict, simulate=args.simulate, allow_below_budget=True, threads=args.threads
    ) as model:
        inputs = inputs_from_flags(args.input, model)
    with tempfile.TemporaryDirectory(prefix="fts-profile-") as folder:
        feeds = write_feeds(Path(folder) / "feeds.npz", model, inputs, args.frames)
        net = NetSpec(
            bundle=str(model.path),
            which="target",
            strict=args.strict,
            simulate=args.simulate,
            threads=args.threads,
            feeds=str(feeds.path),
        )
        request = _request(args, net, model)
        with Progress("steps", None) as progress:
            measurement = measure(net, request, SystemClock(), lambda done, _: progress.update(done))
    facts = {
        "name": str(scenario),
        "seconds": args.seconds,
        "runs": args.runs,
        "threads": args.threads or measurement.machine.usable_cpus,
        "frames": feeds.text,
        "inputs": list(args.input),
    }
    warnings = _warnings(model)
    if overload := overload_text(scenario, float(np.median(measurement.stage_ms("begin_ns", "end_ns")))):
        warnings.append(overload)
    document = document_from_measurement(measurement, model, facts, warnings)
    if baseline is not None:
        document["warnings"] += [f"against the baseline, {d}" for d in differences(document, baseline)]
    _write(args, document, measurement)
    if args.json != "-":
        print(table_from_document(document))
    sentences = violations(conditions, document, baseline)
    for sentence in sentences:
        print(f"fts-profile: {sentence}", file=sys.stderr)
    if conditions and not document["stability"]["stable"]:
        print("fts-profile: --fail-if was decided on UNSTABLE figures", file=sys.stderr)
    return 3 if sentences else 0


def _conditions(args: argparse.Namespace, scenario: str) -> tuple[tuple[Condition, ...], Mapping[str, Any] | None]:
    from fts.profile.baseline import check_comparable, conditions_from_text, read_baseline

    conditions = conditions_from_text(args.fail_if) if args.fail_if else ()
    baseline = read_baseline(args.baseline) if args.baseline else None
    if baseline is None and any(c.unit == "x" for c in conditions):
        raise UsageError(f"--fail-if {args.fail_if!r}: a factor needs --baseline, an earlier --json of fts-profile.")
    if baseline is not None and not conditions:
        raise UsageError("--baseline: needs --fail-if, such as --fail-if 'p90>1.05x'.")
    if baseline is not None:
        check_comparable(baseline, scenario, args.baseline)
    return conditions, baseline


def _check_outputs(args: argparse.Namespace) -> None:
    """Notice before the measurement what would stop its results from being written."""
    if args.samples and not args.samples.endswith(".npz"):
        raise UsageError(f"--samples {args.samples}: expected the suffix .npz.")
    for flag, text in (("--json", args.json), ("--samples", args.samples)):
        if text and text != "-" and (Path(text).is_dir() or not Path(text).absolute().parent.is_dir()):
            raise UsageError(f"{flag} {text}: expected the name of a file in a folder that exists.")


def _request(args: argparse.Namespace, net: NetSpec, model: Model) -> Request:
    from dataclasses import replace

    from fts.engines.choose import choose_engine
    from fts.engines.host import this_host
    from fts.profile.measure import Request
    from fts.profile.scenarios import scenario_from_text
    from fts.vocabulary.manifest import PORTABLE_MEMBER

    choice = choose_engine(model.manifest, this_host(), model.path.name, strict=args.strict, simulate=args.simulate)
    reason = ""
    if args.no_ratio:
        reason = "--no-ratio"
    elif choice.member == PORTABLE_MEMBER:
        reason = "what runs here is the portable FP32 net itself"
    return Request(
        scenario=scenario_from_text(args.scenario),
        seconds=args.seconds,
        runs=args.runs,
        ratio_against=None if reason else replace(net, which="portable"),
        no_ratio_reason=reason,
        layers=not args.no_layers,
        nodes=model.manifest.plan.nodes,
    )


def _warnings(model: Model) -> list[str]:
    warnings = []
    if model.evidence.tag != "measured":
        warnings.append(f"these are times of a simulation of {model.target} on this machine, not of that device")
    if model.manifest.quality["met"] is False:
        warnings.append(f"this bundle missed its accuracy budget {model.manifest.quality['budget']!r}")
    return warnings


def _write(args: argparse.Namespace, document: dict[str, Any], measurement: Measurement) -> None:
    import numpy as np

    from fts.atomic_file import replaced_file
    from fts.profile.document import arrays_from_samples, samples_from_measurement

    samples = samples_from_measurement(measurement)
    try:
        if args.samples:
            document["samples"] = {"file": Path(args.samples).name}
            with replaced_file(Path(args.samples)) as part, part.open("wb") as file:
                np.savez_compressed(file, **arrays_from_samples(samples))  # type: ignore[arg-type]
        elif args.json:
            document["samples"] = samples
        if args.json == "-":
            print(json.dumps(document, indent=1, sort_keys=True, allow_nan=False))
        elif args.json:
            with replaced_file(Path(args.json)) as part:
                part.write_text(
                    json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8"
                )
    except OSError as cause:
        raise UsageError(f"the results cannot be written: {cause.strerror or cause}") from cause


if __name__ == "__main__":
    sys.exit(main())

"""`fts-convert`: a net, photos and a budget in; a verified bundle, or a clear no, out. onnx is imported after parsing."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fts.commands.outcome import run_command
from fts.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    from fts_converters.convert import Conversion
    from fts_converters.request import ConvertRequest

_EPILOG = """MODEL is an ONNX file, or with the extra `torch` a .pt2 file or package.module:factory, a function that returns a
torch module and its example inputs. PATH of --calib and --holdout: a folder of pictures, a folder of .npz (one feed each,
keys are input names), one .npz with a sample axis in front, or package.module:iterable. Pictures go through the preprocessing
that the flags or the card declare; raw tensors do not.

examples:
  fts-convert style.onnx --target cpu-int8 --calib photos/ --shape image=1x3x256x256
  fts-convert age.onnx --target cpu-int8 --calib faces/ --card age.toml --budget 'psnr>=40' -o age.fts
  fts-convert net.onnx --target cpu-int8 --calib feeds.npz --budget none

exit codes: 0 done, 1 a defect of fts, 2 wrong input, 3 a condition was not met (the best attempt is
NAME.below-budget.fts), 4 something is missing in the environment, 130 interrupted
"""

# Value of --faces; a file of that name is ./detect.
DETECT = "detect"

# Flags of later versions: a clear answer now is better than "unrecognized arguments".
LATER_FLAGS = {
    "--rungs": "several resolutions",
    "--batch": "batches",
    "--prune": "pruning",
    "--pin": "user overrides of the plan",
    "--plan": "replaying a plan",
    "--jetpack": "NVIDIA targets",
    "--allow-fallback": "targets with fallbacks",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `fts-convert`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_command("fts-convert", lambda: _run(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fts-convert",
        usage="fts-convert MODEL --target T --calib PATH [-o OUT] [options]",
        description="Convert a float ONNX net to an INT8 bundle that meets an accuracy budget, with proof.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("model", metavar="MODEL", help="an ONNX file, a .pt2 file, or package.module:factory (torch)")
    parser.add_argument("--target", required=True, metavar="T", help="what to convert for; `fts targets` lists them")
    parser.add_argument("--calib", required=True, metavar="PATH", help="calibration data")
    parser.add_argument("-o", dest="out", metavar="OUT", help="FILE.fts, or a folder (default: ./MODEL.TARGET.fts)")
    parser.add_argument("--holdout", metavar="PATH", help="data to verify on, instead of a quarter of --calib")
    parser.add_argument("--select", type=_count, metavar="N", help="use the N samples that cover --calib best")
    parser.add_argument(
        "--faces", metavar="boxes.json|detect", help="faces of the calibration pictures: file name to a list of box, "
        "landmarks, yaw_deg; or found by the extra `faces`; for the audit of a face net"
    )  # fmt: skip
    parser.add_argument("--golden", metavar="PATH", help="data for the golden tensors (default: synthetic pictures)")

    contract = parser.add_argument_group("what the net takes")
    contract.add_argument("--card", type=Path, metavar="FILE.toml", help="model card: kinds, values, ranges")
    contract.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1x3x256x256",
        help="force an input's size; may be repeated",
    )
    contract.add_argument("--color", choices=("rgb", "bgr", "gray"), help="channel order of the tensor (rgb)")
    contract.add_argument(
        "--scale", type=_fraction, metavar="S", help="x = (pixel*S - mean)/std (1/255; 1 for integers)"
    )
    contract.add_argument("--mean", type=_numbers, metavar="A,B,C", help="in the tensor's channel order (0)")
    contract.add_argument("--std", type=_numbers, metavar="A,B,C", help="likewise (1)")
    contract.add_argument("--layout", choices=("nchw", "nhwc"), help="axis order (from the shape)")
    contract.add_argument("--fit", choices=("exact", "stretch", "letterbox", "crop"), help="other sizes (letterbox)")

    conditions = parser.add_argument_group("conditions")
    conditions.add_argument(
        "--budget", action="append", default=[], metavar="B", help="psnr>=40, sqnr.mean>=25, ssim, cosine, top1>=99%%, "
        "iou>=95%%, nme<=0.02, age<=0.5, drop<=0.5%%, NAME:psnr>=40 for one output, none; may be repeated (psnr>=30 for "
        "pictures, sqnr>=20 for tensors)"
    )  # fmt: skip
    conditions.add_argument(
        "--metric", metavar="package.module:function", help="a metric of your own: function(reference, test) of dicts from "
        "output name to array, one sample, gives a number; judged by --budget 'metric>=0.9' or 'metric<=0.1'"
    )  # fmt: skip
    conditions.add_argument(
        "--min-int8", type=_share, default=0.5, metavar="S", help="least share of MACs in integer kernels, 0..1 (0.5)"
    )
    conditions.add_argument(
        "--min-speedup", type=_positive, metavar="R", help="least ratio of FP32 time to INT8 time on this machine, by the "
        "lower end of its 95 %% interval (none: slower than FP32 is a warning)"
    )  # fmt: skip
    conditions.add_argument(
        "--recover", choices=("none", "bias", "rounding", "blocks"), default="rounding", help="how far to mend the weights, "
        "each rung kept only where the select split gains: biases, then roundings, then training, which needs torch; not "
        "with --budget none (rounding)"
    )  # fmt: skip
    conditions.add_argument(
        "--minutes", type=_positive, default=5.0, metavar="M", help="limit of the training of --recover blocks (5)"
    )
    conditions.add_argument(
        "--isa", choices=("auto", "vnni", "any"), default="auto", help="x86 dialect: 8-bit weights that need VNNI, or "
        "weights of 7 to 8 bits that run right on any CPU (auto: what this machine has)"
    )  # fmt: skip

    parser.add_argument(
        "--sensitivity", choices=("fast", "full"), help="how the search finds out what each unit costs: all units on all "
        "samples, or most on few (fast where the worst sample counts, full where a mean does)"
    )  # fmt: skip
    parser.add_argument(
        "--skip-pass",
        action="append",
        default=[],
        metavar="NAME",
        help="leave a cleaning pass out; `fts inspect MODEL` names those that changed something; may be repeated",
    )
    parser.add_argument("--no-cache", action="store_true", help="neither read nor write $FTS_CACHE (~/.cache/fts)")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, warnings only")
    return parser


def _fraction(text: str) -> float:
    over, slash, under = text.partition("/")
    try:
        return float(over) / float(under) if slash else float(over)
    except (ValueError, ZeroDivisionError) as error:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number such as 0.5 or 1/255") from error


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected numbers joined by commas (a leading minus needs --mean=-1,-1,-1)"
        ) from error


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a ratio such as 1.0")
    return value


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number of 1 or more")
    return int(text)


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a share between 0 and 1")
    return value


def _run(arguments: Sequence[str]) -> int:
    for argument in arguments:
        flag = argument.split("=", 1)[0]
        if flag in LATER_FLAGS:
            raise UsageError(f"{flag}: {LATER_FLAGS[flag]} are not in this version; README.md says what is")
    args = _parser().parse_args(arguments)
    try:
        import onnx  # noqa: F401
        import onnx_graphsurgeon  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            f"converting needs the `convert` extra ({error.name or error} is missing): pip install 'fts-edge[convert]'"
        ) from error
    from fts.engines.onnxruntime_session import import_onnxruntime

    import_onnxruntime().set_default_logger_severity(4)  # its warnings about our intermediate graphs are not the user's
    from fts_converters.convert import convert
    from fts_converters.progress import Progress

    with _warnings_on_stderr():
        result = convert(_request(args, arguments), Progress(None if args.quiet else sys.stderr))
    if args.json:
        print(json.dumps(_result_json(result), sort_keys=True))
    else:
        print(_result_text(result))
    if result.failures:
        print(_not_met_text(result), file=sys.stderr)
        return 3
    return 0


@contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    """Show warnings of the conversion, once, on the stderr of now; an app that calls `main` keeps its own logging."""
    logger = logging.getLogger("fts_converters")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("fts-convert: warning: %(message)s"))
    handler.setLevel(logging.WARNING)
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated


def _request(args: argparse.Namespace, arguments: Sequence[str] = ()) -> ConvertRequest:
    from fts_calibration.metrics.budget import parse_budgets
    from fts_calibration.metrics.user_metric import load_user_metric
    from fts_converters.request import ConvertRequest, PreprocessingFlags

    if "," in args.target:
        raise UsageError(f"--target {args.target}: several targets in one call are not in this version; give one")
    return ConvertRequest(
        source=args.model,
        target=args.target,
        calib=args.calib,
        holdout=args.holdout,
        faces=None if args.faces in (None, DETECT) else Path(args.faces),
        detects_faces=args.faces == DETECT,
        select=args.select,
        golden=args.golden,
        output=_output(args.out, args.model, args.target),
        card=args.card,
        shapes=_shapes(args.shape),
        preprocessing=PreprocessingFlags(
            color=args.color, scale=args.scale, mean=args.mean, std=args.std, layout=args.layout, fit=args.fit
        ),
        budgets=parse_budgets(args.budget, None if args.metric is None else load_user_metric(args.metric)),
        min_int8=args.min_int8,
        min_speedup=args.min_speedup,
        recover=args.recover,
        minutes=args.minutes,
        isa=args.isa,
        sensitivity=args.sensitivity,
        skip_passes=tuple(args.skip_pass),
        use_cache=not args.no_cache,
        arguments=tuple(arguments),
    )


def _output(out: str | None, model: str, target: str) -> Path:
    default = f"{Path(model).stem}.{target}.fts"
    if out is None:
        return Path(default)
    path = Path(out)
    if path.is_dir() or out.endswith("/"):
        return path / default
    if path.suffix != ".fts":
        raise UsageError(f"-o {out}: expected a name that ends in .fts, or a folder (an existing one, or with a slash)")
    return path


def _shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in map(_shape, texts):
        if name in shapes:
            raise UsageError(f"--shape: input {name!r} is given twice, expected one size for each input")
        shapes[name] = shape
    return shapes


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, sizes = text.rpartition("=")
    parts = sizes.lower().split("x")
    if not equals or not name or not all(p.isascii() and p.isdigit() and int(p) > 0 for p in parts):
        raise UsageError(f"--shape {text}: expected NAME=1x3x256x256, sizes of 1 or more")
    return name, tuple(int(p) for p in parts)


def _result_json(result: Conversion) -> dict[str, Any]:
    return {
        "bundle": str(result.bundle),
        "met": not result.failures,
        "failures": list(result.failures),
        "integer_mac_share": result.integer_mac_share,
        "metrics": list(result.metrics),
        "speed": None if result.speed is None else result.speed.to_json(),
        "warnings": [{"id": i, "text": t} for i, t in result.warnings],
    }


def _result_text(result: Conversion) -> str:
    lines = [f"{result.bundle}: {result.integer_mac_share:.1%} of the MACs in integer kernels"]
    lines += [_metric_text(m) for m in result.metrics]
    if result.speed is not None:
        lines.append(f"  {result.speed}")
    return "\n".join(lines)


def _metric_text(metric: Mapping[str, Any]) -> str:
    from fts_calibration.metrics.budget import parse_budget

    budget = parse_budget(metric["budget"])
    assert budget is not None
    worst = "max" if budget.is_less_better else "min"
    text = f"  {metric['output']}: {metric['metric']} {worst} {budget.figure(metric[worst])} mean {budget.figure(metric['mean'])}"
    if metric["interval"] is not None:
        text += f" [{', '.join(map(budget.figure, metric['interval']))}]"
    return f"{text} on {metric['n']} {metric['split']} samples ({metric['tag']})"


def _not_met_text(result: Conversion) -> str:
    lines = ["fts-convert: not met:", *(f"  {f}" for f in result.failures)]
    if result.losses:
        lines.append("  what each unit alone in INT8 leaves, worst first:")
        lines += [
            f"    {s.score.budget.figure(s.score.value):>8} {s.score.budget.metric}  {s.mac_share:6.1%} of the MACs  "
            f"{s.op_type} {s.unit}: {s.decision}"
            for s in result.losses
        ]
    if result.front:
        lines.append("  plans tried that no other one beats, cheapest first (work: multiply-accumulates, float is 1):")
        lines += [
            f"    {t.score.budget.figure(t.score.value):>8} {t.score.budget.metric} on {t.score.output!r}  work {t.cost:.2f}  "
            f"{t.integer_share:6.1%} of the MACs in INT8, {t.fine_share:6.1%} in its finer form"
            for t in result.front
        ]
    lines.append(f"  the best attempt is {result.bundle}; `fts.load(..., allow_below_budget=True)` opens it")
    return "\n".join(lines)

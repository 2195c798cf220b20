"""`fts run`: a bundle on a picture, a folder, a video file or a camera. numpy is imported after parsing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fts.commands.outcome import run_command
from fts.commands.progress import Progress
from fts.errors import FtsError, UsageError

if TYPE_CHECKING:
    from fts.commands.run_source import RunSource
    from fts.model import Model
    from fts.result import Result

_EXAMPLES = """examples:
  fts run restore.cpu-int8.fts photo.jpg                  writes photo.out.png here
  fts run restore.cpu-int8.fts photos/ -o restored/       every picture of the folder
  fts run age.cpu-int8.fts clip.mp4 -o old.mp4 --input age=70
  fts run restore.cpu-int8.fts 0 --frames 100 -o me.avi   camera 0
  fts run detect.cpu-int8.fts photo.jpg -o boxes.npz      the raw tensors

SOURCE is a camera when it is a whole number; write ./3 for a file of that name.
exit codes: 0 done, 1 a defect of fts, 2 wrong input, or a picture of a folder failed, 3 a condition is not met,
4 something is missing here, 130 interrupted (what was finished is there)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `fts run`."""
    args = _parser().parse_args(argv)
    return run_command("fts run", lambda: _run(args))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fts run",
        description="Run a bundle on a picture, a folder, a video file or a camera.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="a .fts file")
    parser.add_argument("source", metavar="SOURCE", help="a picture, a folder of pictures, a video, a camera's index")
    parser.add_argument(
        "-o",
        dest="out",
        metavar="OUT",
        help="picture or .npz; a folder for a folder; .mp4 or .avi for a video or camera "
        "(default: <name>.out.png, <name>.out/, <name>.out.mp4 in this folder)",
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of a tensor input: a number, numbers joined by commas, or a .npy file; may be repeated",
    )
    parser.add_argument("--strict", action="store_true", help="fail where the target's engine cannot run here")
    parser.add_argument("--simulate", action="store_true", help="run the target's numerics where its engine cannot run")
    parser.add_argument("--allow-below-budget", action="store_true", help="run a bundle that missed its budget")
    parser.add_argument("--threads", type=_positive, metavar="N", help="threads of one inference (default: all usable)")
    parser.add_argument("--frames", type=_positive, metavar="N", help="stop a video or camera after N frames")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    return parser


def _positive(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number >= 1")
    return number


def _run(args: argparse.Namespace) -> int:
    from fts.commands.run_inputs import inputs_from_flags
    from fts.commands.run_source import source_from_text
    from fts.loading import load

    source = source_from_text(args.source)
    if args.frames and source.kind in ("picture", "folder"):
        raise UsageError(f"--frames is for a video or a camera; {args.source} is a {source.kind}.")
    with load(
        args.bundle,
        strict=args.strict,
        simulate=args.simulate,
        allow_below_budget=args.allow_below_budget,
        threads=args.threads,
    ) as model:
        inputs = inputs_from_flags(args.input, model)
        print(f"fts run: {model.path.name}: {model.engine} ({model.evidence.tag})", file=sys.stderr)
        report = _Report(model)
        try:
            if source.kind in ("picture", "folder"):
                _run_pictures(model, source, inputs, args.out, report)
            else:
                _run_video(model, source, inputs, args, report)
        finally:
            report.print(as_json=args.json)
    return 2 if report.failed else 0


class _Report:
    """What was written and what failed, for stdout."""

    def __init__(self, model: Model) -> None:
        self._head = {
            "bundle": model.path.name,
            "target": model.target,
            "engine": model.engine,
            "evidence": {"tag": model.evidence.tag, "by": model.evidence.by, "detail": model.evidence.detail},
        }
        self.results: list[dict[str, Any]] = []
        self.failed: list[dict[str, str]] = []

    def print(self, *, as_json: bool) -> None:
        """Print the outputs' paths, or everything as one JSON object."""
        if as_json:
            print(json.dumps({**self._head, "results": self.results, "failed": self.failed}, indent=1))
        else:
            for result in self.results:
                print(result["output"])


def _run_pictures(model: Model, source: RunSource, inputs: dict[str, Any], out: str | None, report: _Report) -> None:
    from fts.commands.run_output import write_result
    from fts.imaging.decode import read_bgr

    outputs = _picture_outputs(model, source, out)
    for path in source.skipped:
        print(f"fts run: skipped {path}: not a picture by its name", file=sys.stderr)
    with Progress("pictures", len(source.pictures)) as progress:
        for done, (picture, output) in enumerate(zip(source.pictures, outputs, strict=True), start=1):
            try:
                result = model(read_bgr(picture), inputs)
                write_result(output, result)
            except FtsError as error:
                if source.kind == "picture":
                    raise
                print(f"fts run: failed {picture}: {error}", file=sys.stderr)
                report.failed.append({"source": str(picture), "reason": str(error)})
            else:
                report.results.append({"source": str(picture), "output": str(output), **_figures(result)})
            progress.update(done)
    if report.failed:
        print(f"fts run: {len(report.failed)} of {len(source.pictures)} pictures failed", file=sys.stderr)


def _figures(result: Result) -> dict[str, Any]:
    return {"age_ms": round(result.age_ms, 3), "rung": result.rung, "degraded": result.degraded}


def _picture_outputs(model: Model, source: RunSource, out: str | None) -> list[Path]:
    suffix = ".png" if _has_image(model) else ".npz"
    if source.kind == "picture":
        output = Path(out) if out else Path(f"{source.stem}.out{suffix}")
        _check_picture_output(model, output)
        return [output]
    folder = Path(out) if out else Path(f"{source.stem}.out")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"-o {folder}: found a file, expected a folder, because SOURCE is one.")
    if folder.resolve() == Path(source.text).resolve():
        raise UsageError(f"-o {folder}: is SOURCE itself; a second run would take its own results for pictures.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise UsageError(f"-o {folder}: cannot be made: {cause.strerror or cause}") from cause
    stems = [p.stem.casefold() for p in source.pictures]
    return [
        folder / f"{p.stem if stems.count(p.stem.casefold()) == 1 else p.name}.out{suffix}" for p in source.pictures
    ]


def _check_picture_output(model: Model, output: Path) -> None:
    from fts.imaging.decode import is_picture_name

    if output.is_dir():
        raise UsageError(f"-o {output}: found a folder, expected a file name for one picture.")
    if output.suffix.lower() == ".npz":
        return
    if not _has_image(model):
        raise UsageError(f"-o {output}: this net has no image output; expected a .npz file for its tensors.")
    if not is_picture_name(output.name):
        raise UsageError(f"-o {output}: found {output.suffix!r}, expected the suffix of a picture, or .npz.")


def _has_image(model: Model) -> bool:
    return any(o.kind == "image" for o in model.outputs)


def _run_video(
    model: Model, source: RunSource, inputs: dict[str, Any], args: argparse.Namespace, report: _Report
) -> None:
    """Run every frame in order. An interrupt ends the output after the last finished frame, and is raised on then."""
    from fts.commands.run_output import check_frames_name, frame_sink
    from fts.commands.run_source import VideoReader

    suffix = ".mp4" if _has_image(model) else ".npz"
    output = Path(args.out) if args.out else Path(f"{source.stem}.out{suffix}")
    check_frames_name(output, has_image=_has_image(model))
    reader = VideoReader(source)
    total = min((n for n in (args.frames, reader.frames) if n), default=None)
    interrupt: KeyboardInterrupt | None = None
    ages_ms: list[float] = []
    try:
        with frame_sink(output, reader.fps) as sink, Progress("frames", total) as progress:
            try:
                for frame in reader:
                    result = model(frame, inputs)
                    sink.write(result)
                    ages_ms.append(result.age_ms)
                    progress.update(len(ages_ms))
                    if len(ages_ms) == args.frames:
                        break
            except KeyboardInterrupt as stop:
                if not ages_ms:
                    raise
                interrupt = stop
    finally:
        reader.close()
    if interrupt is None and total and len(ages_ms) < total:
        print(f"fts run: {source.text}: {len(ages_ms)} of {total} frames could be read", file=sys.stderr)
    median_ms = sorted(ages_ms)[len(ages_ms) // 2]
    report.results.append(
        {"source": source.text, "output": str(output), "frames": len(ages_ms), "age_ms_median": round(median_ms, 3)}
    )
    if interrupt is not None:
        raise interrupt

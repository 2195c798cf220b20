"""`fts inspect MODEL|BUNDLE`: what a file holds. A bundle needs the base install alone, a model the `convert` extra."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fts.commands.outcome import run_command
from fts.errors import MissingDependencyError, UsageError

_EPILOG = """examples:
  fts inspect restore.cpu-int8.fts            tensors, engines, quality, plan by operator
  fts inspect restore.cpu-int8.fts --nodes    every node with its precision and the reason
  fts inspect model.onnx --shape image=1x3x256x256   tensors, operators, MACs, parameters, before and after cleaning
  fts inspect model.onnx --engine qnn-htp            and what that engine lacks: replaced exactly, or what would work
"""


def main(argv: Sequence[str]) -> int:
    """Entry point in the command table."""
    parser = argparse.ArgumentParser(
        prog="fts inspect",
        description="Show a bundle, an ONNX model or a torch net.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", metavar="MODEL|BUNDLE", help="a .fts file, or what fts-convert takes as MODEL")
    parser.add_argument("--nodes", action="store_true", help="one line a node")
    parser.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1x3x256x256", help="for a model: force sizes"
    )
    parser.add_argument(
        "--skip-pass", action="append", default=[], metavar="NAME", help="for a model: leave a pass out"
    )
    parser.add_argument(
        "--engine", metavar="NAME", help="for a model: what an engine lacks, by its documents; a wrong name lists them"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    args = parser.parse_args(argv)
    return run_command("fts inspect", lambda: _inspect(args))


def _inspect(args: argparse.Namespace) -> int:
    if args.path.endswith(".fts"):
        if args.engine:
            raise UsageError(
                f"--engine {args.engine}: for a model; the bundle {args.path!r} says itself what runs where"
            )
        from fts.commands.inspect_bundle import inspect_bundle

        return inspect_bundle(args)
    try:
        import onnx  # noqa: F401
        import onnx_graphsurgeon  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            f"inspecting a model needs the `convert` extra ({error.name} is missing): pip install 'fts-edge[convert]'"
        ) from error
    from fts_converters.commands.inspect_model import inspect_model

    return inspect_model(args)

"""How the time to clean a graph grows with its size: `python benchmarks/graph_scaling.py`.

Chain-like nets of 1,000, 2,000, 5,000 and 10,000 nodes (Conv, Relu, Add, Shape-Gather-Concat-Reshape, Constant, Identity,
and a residual Add) are written to a file, loaded, frozen and cleaned. Printed: processor seconds of each stage, and the
growth exponent, which is the slope of log(seconds) over log(nodes) by least squares: 1 is linear. `--profile N` prints
where the time goes at N nodes instead. Needs onnx (extra `convert`). Processor time leaves out what others compute, but
not that they slow this process down: run it on an idle machine.
"""

from __future__ import annotations

import argparse
import cProfile
import platform
import pstats
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from fts_converters.freeze import freeze
from fts_converters.load import load_model
from fts_converters.passes import clean

SIZES = (1_000, 2_000, 5_000, 10_000)
CHANNELS, SIDE_PX = 4, 8
SHAPE = (1, CHANNELS, SIDE_PX, SIDE_PX)


def chain(nodes_wanted: int) -> ModelProto:
    """Blocks of 16 nodes, (1, 4, 8, 8) in and out, until there are enough."""
    rng = np.random.default_rng(0)
    weights = [
        rng.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32) / (9 * CHANNELS) ** 0.5 for _ in range(4)
    ]
    initializers = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    nodes: list[NodeProto] = []
    last, block = "x", 0
    while len(nodes) < nodes_wanted:
        nodes.extend(_block(block, last, f"h{block}"))
        last = f"h{block}"
        block += 1
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", CHANNELS, "height", "width"))],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, ("n", "c", "h", "w"))],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _block(i: int, source: str, target: str) -> list[NodeProto]:
    def name(stem: str) -> str:
        return f"{stem}_{i}"

    def constant(stem: str, array: object) -> NodeProto:
        return helper.make_node("Constant", [], [name(stem)], value=numpy_helper.from_array(np.asarray(array)))

    return [
        helper.make_node("Conv", [source, f"w{i % 4}"], [name("conv")], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", [name("conv")], [name("relu")]),
        helper.make_node("Shape", [name("relu")], [name("shape")]),
        constant("zero", np.int64(0)),
        helper.make_node("Gather", [name("shape"), name("zero")], [name("n")]),
        constant("axis", np.array([0])),
        helper.make_node("Unsqueeze", [name("n"), name("axis")], [name("n1")]),
        constant("rest", np.array([CHANNELS, SIDE_PX * SIDE_PX])),
        helper.make_node("Concat", [name("n1"), name("rest")], [name("to")], axis=0),
        helper.make_node("Reshape", [name("relu"), name("to")], [name("flat")]),
        constant("half", np.float32(0.5)),
        helper.make_node("Mul", [name("flat"), name("half")], [name("scaled")]),
        helper.make_node("Identity", [name("scaled")], [name("same")]),
        constant("back", np.array(SHAPE)),
        helper.make_node("Reshape", [name("same"), name("back")], [name("image")]),
        helper.make_node("Add", [name("image"), source], [target]),
    ]


def measure(path: str) -> tuple[tuple[float, float, float], int]:
    """Processor seconds of load, freeze, clean; nodes left."""
    start = time.process_time()
    model = load_model(path)
    loaded = time.process_time()
    freeze(model, {"x": SHAPE}, {})
    frozen = time.process_time()
    clean(model)
    cleaned = time.process_time()
    return (loaded - start, frozen - loaded, cleaned - frozen), len(model.graph.nodes)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N")
    parser.add_argument("--profile", type=int, metavar="N", help="the functions that take longest, at N nodes")
    args = parser.parse_args()
    print(
        f"{platform.machine()}, Python {platform.python_version()}, onnx {onnx.__version__}, one run a size, processor time"
    )
    sizes = (args.profile,) if args.profile else tuple(args.sizes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chain.onnx"
        _write(path, 100)
        measure(str(path))  # imports and first calls
        totals = []
        for size in sizes:
            _write(path, size)
            if args.profile:
                _profile(str(path))
                return 0
            (load_s, freeze_s, clean_s), left = measure(str(path))
            totals.append(load_s + freeze_s + clean_s)
            print(
                f"{size:6d} nodes -> {left:6d}: load {load_s:7.2f} s, freeze {freeze_s:7.2f} s, clean {clean_s:7.2f} s, "
                f"together {totals[-1]:7.2f} s",
                flush=True,
            )
    if len(sizes) > 1:
        print(f"growth exponent {np.polyfit(np.log(sizes), np.log(totals), 1)[0]:.2f}")
    return 0


def _write(path: Path, size: int) -> None:
    path.write_bytes(chain(size).SerializeToString())


def _profile(path: str) -> None:
    profile = cProfile.Profile()
    profile.runcall(measure, path)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(30)


if __name__ == "__main__":
    sys.exit(main())

"""How much memory it takes to clean a net above 2 GiB: `python benchmarks/large_net_memory.py`.

A net with external data (Conv, BatchNormalization, Identity, a Shape-Gather-Concat-Reshape, Gemm and MatMul with factors
and summands behind them) is written to a temporary folder, and loaded, frozen and cleaned in a child process. Printed: the
greatest resident memory of that process over the size of the net, the same after the cleaned net has been run, and the
largest difference between its output and that of the file as it is, run by onnxruntime without optimisation in another
child. Needs onnx (extra `convert`), disk space of the net's size, and four times its size in memory to compare.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fts_converters import light_proto
from fts_converters.freeze import freeze
from fts_converters.load import load_model
from fts_converters.passes import clean

# Shares of the size: three convolutions, four Gemm and four MatMul.
CONVOLUTIONS, LAYERS = 3, 8
SIDE_PX = 2
NET, DATA, INPUT = "net.onnx", "net.data", "x.npy"


class Writer:
    """Weights go to the data file as they come: the net is never in memory."""

    def __init__(self, folder: Path) -> None:
        self.rng = np.random.default_rng(0)
        self.file = open(folder / DATA, "wb")  # noqa: SIM115 - closed by `write_net`
        self.initializers: list[TensorProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.last = "x"

    def large(self, name: str, shape: tuple[int, ...]) -> str:
        """An external tensor of variance 2 / fan-in: a random block again and again, so that writing is quick."""
        count = int(np.prod(shape))
        block = self.rng.standard_normal(min(count, 2**20)).astype(np.float32) * (2 * shape[0] / count) ** 0.5
        tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", DATA), ("offset", self.file.tell()), ("length", 4 * count)):
            tensor.external_data.add(key=key, value=str(value))
        for start in range(0, count, len(block)):
            self.file.write(block[: count - start].astype(np.float32).tobytes())
        self.initializers.append(tensor)
        return name

    def small(self, name: str, values: Any) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def vector(self, name: str, length: int) -> str:
        return self.small(name, self.rng.uniform(0.5, 1.5, length).astype(np.float32))

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> None:
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, [self.last, *inputs], [output], **attributes))
        self.last = output


def write_net(folder: Path, size_bytes: int) -> None:
    """A net of about that size; half of it in the layers whose weights are folded into."""
    # Bytes: 3 convolutions of 4 * 9 * c^2 and 8 layers of 4 * (4 c)^2.
    channels = max(4, round((size_bytes / (4 * (9 * CONVOLUTIONS + 16 * LAYERS))) ** 0.5))
    width = channels * SIDE_PX**2
    w = Writer(folder)
    with w.file:
        for i in range(CONVOLUTIONS):
            w.add("Conv", w.large(f"conv{i}", (channels, channels, 3, 3)), pads=[1, 1, 1, 1])
            w.add("BatchNormalization", *(w.vector(f"norm{i}_{k}", channels) for k in range(4)))
            w.add("Relu")
            w.add("Identity")
        image = w.last
        w.add("Shape")
        w.add("Gather", w.small("first", np.array([0])))
        w.add("Concat", w.small("rest", np.array([width])), axis=0)
        shape, w.last = w.last, image
        w.add("Reshape", shape)
        for i in range(LAYERS // 2):
            w.add("Gemm", w.large(f"gemm{i}", (width, width)), transB=1)
            w.add("Mul", w.vector(f"factor{i}", width))
            w.add("Relu")
        for i in range(LAYERS // 2):
            w.add("MatMul", w.large(f"matmul{i}", (width, width)))
            w.add("Add", w.vector(f"summand{i}", width))
            w.add("Identity")
    shape_in = (1, channels, SIDE_PX, SIDE_PX)
    graph = helper.make_graph(
        w.nodes,
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", *shape_in[1:]))],
        [helper.make_tensor_value_info(w.last, TensorProto.FLOAT, ("batch", width))],
        w.initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / NET).write_bytes(model.SerializeToString())
    np.save(folder / INPUT, np.random.default_rng(1).standard_normal(shape_in).astype(np.float32))


def cleaned(folder: Path) -> dict[str, Any]:
    """Load, freeze, clean; then run the result. Peaks in bytes."""
    x = np.load(folder / INPUT)
    model = load_model(str(folder / NET))
    before = len(model.graph.nodes)
    freeze(model, {"x": x.shape}, {})
    clean(model)
    clean_peak = peak_bytes()
    net = model.to_light()
    from fts.engines.onnxruntime_session import open_session

    (output,) = open_session(net.proto.SerializeToString(), weights=net.weights).run({"x": x})
    np.save(folder / "cleaned.npy", output)
    return {
        "nodes_before": before,
        "nodes_after": len(model.graph.nodes),
        "clean_peak_bytes": clean_peak,
        "run_peak_bytes": peak_bytes(),
    }


def source(folder: Path) -> dict[str, Any]:
    """Run the file as it is."""
    from fts.engines.onnxruntime_session import import_onnxruntime

    ort = import_onnxruntime()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(folder / NET), options, providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {"x": np.load(folder / INPUT)})
    np.save(folder / "source.npy", output)
    return {}


def peak_bytes() -> int:
    """Greatest resident memory of this process so far; unlike that of getrusage, nothing of its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size-mb", type=float, default=2500, metavar="N", help="of the net, in 10^6 bytes (2500)")
    parser.add_argument("--message-limit", type=int, metavar="BYTES", help="take messages to end there, not at 2 GiB")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    parser.add_argument("--stage", choices=("cleaned", "source"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="where to write the net (a temporary folder)")
    args = parser.parse_args()
    if args.message_limit is not None:
        light_proto.LIMIT_BYTES = args.message_limit
    if args.stage:
        print(json.dumps({"cleaned": cleaned, "source": source}[args.stage](args.folder)))
        return 0
    with tempfile.TemporaryDirectory(dir=args.folder) as temporary:
        figures = _figures(Path(temporary), args)
    if args.json:
        print(json.dumps(figures, sort_keys=True))
        return 0
    size = figures["size_bytes"]
    print(f"{platform.machine()}, Python {platform.python_version()}, onnx {onnx.__version__}, one run")
    print(
        f"{size / 1e9:.3f} GB, {figures['nodes_before']} nodes -> {figures['nodes_after']}: load, freeze and clean peak at "
        f"{figures['clean_peak_bytes'] / size:.2f} x the size, then running it at {figures['run_peak_bytes'] / size:.2f} x; "
        f"largest difference {figures['difference']:.1e} of the range"
    )
    return 0


def _figures(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    write_net(folder, int(args.size_mb * 1e6))
    limit = [] if args.message_limit is None else ["--message-limit", str(args.message_limit)]
    figures: dict[str, Any] = {"size_bytes": sum((folder / name).stat().st_size for name in (NET, DATA))}
    for stage in ("cleaned", "source"):
        command = [sys.executable, __file__, "--stage", stage, "--folder", str(folder), *limit]
        figures.update(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
    a, b = (np.load(folder / f"{name}.npy").astype(np.float64) for name in ("source", "cleaned"))
    if a.shape != b.shape:
        raise SystemExit(f"shape {a.shape} became {b.shape}")
    figures["range"] = float(a.max() - a.min())
    figures["difference"] = float(np.abs(a - b).max()) / figures["range"]
    return figures


if __name__ == "__main__":
    sys.exit(main())

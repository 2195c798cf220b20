"""What `model.infer` costs on top of onnxruntime: `python benchmarks/runtime_overhead.py`.

Each net is run through `model.infer` and through `session.run(names, feeds)` of a session with the same options, in
turn, in one process, so that both see the same machine. Both get the same arrays. Printed: the two medians, their
ratio, and their difference. Needs onnx (extra `convert`). Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import fts
from fts.bundle.write import write_bundle
from fts.engines.threads import available_cpus
from fts.vocabulary.manifest import (
    FORMAT_VERSION,
    PORTABLE_MEMBER,
    EngineEntry,
    InputEntry,
    Manifest,
    OutputEntry,
    Requirements,
)
from fts.vocabulary.plan import Plan
from fts.vocabulary.tensor_spec import TensorSpec


@dataclass(frozen=True)
class Net:
    """A chain of 3x3 convolutions, (1, 3, size, size) in and out."""

    name: str
    size: int
    channels: int
    layers: int

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(name="x", dtype="float32", shape=(1, 3, self.size, self.size))

    def model(self) -> bytes:
        rng = np.random.default_rng(0)
        widths = [3, *[self.channels] * (self.layers - 1), 3]
        nodes, weights = [], []
        names = ["x", *[f"h{i}" for i in range(1, self.layers)], "y"]
        for i in range(self.layers):
            array = rng.standard_normal((widths[i + 1], widths[i], 3, 3), dtype=np.float32) / (3 * widths[i] ** 0.5)
            weights.append(numpy_helper.from_array(array, f"w{i}"))
            nodes.append(helper.make_node("Conv", [names[i], f"w{i}"], [names[i + 1]], pads=[1] * 4))
        value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3, self.size, self.size]) for n in ("x", "y")]
        graph = helper.make_graph(nodes, "chain", value[:1], value[1:], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


NETS = (
    Net("no work, 3x64x64", 64, 3, 1),
    Net("about 1 ms, 3x64x64", 64, 16, 6),
    Net("5 ms or more, 3x128x128", 128, 32, 8),
    Net("20 ms or more, 3x256x256", 256, 32, 8),
)


def bundle_of(net: Net, model: bytes, folder: Path) -> Path:
    """A cpu-fp32 bundle of one net."""
    path = folder / "net.cpu-fp32.fts"
    engine = EngineEntry(kind="onnxruntime-cpu", member=PORTABLE_MEMBER, state="built", precision="fp32")
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        target="cpu-fp32",
        requires=Requirements(),
        members=(),
        inputs=(InputEntry(spec=net.spec, kind="tensor"),),
        outputs=(OutputEntry(spec=TensorSpec(name="y", dtype="float32", shape=net.spec.shape), kind="tensor"),),
        rungs=(),
        engines=(engine,),
        plan=Plan(target="cpu-fp32", dialect="", nodes=()),
        quality={"budget": "none", "met": True},
        golden={},
        provenance={},
    )
    write_bundle(path, manifest, {PORTABLE_MEMBER: model})
    return path


def plain_session(model: bytes, threads: int) -> Any:
    """An onnxruntime session with the options that fts sets."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def medians_ms(calls: tuple[Callable[[], object], Callable[[], object]], seconds: float) -> tuple[float, float, int]:
    """Median of each call in ms, and the number of rounds; the order alternates from round to round."""
    times: tuple[list[float], list[float]] = ([], [])
    for call in calls * 5:
        call()
    end = time.perf_counter() + seconds
    rounds = 0
    while time.perf_counter() < end or rounds < 20:
        for which in (0, 1) if rounds % 2 else (1, 0):
            begin = time.perf_counter()
            calls[which]()
            times[which].append((time.perf_counter() - begin) * 1e3)
        rounds += 1
    return statistics.median(times[0]), statistics.median(times[1]), rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="time spent on each net")
    parser.add_argument("--threads", type=int, default=available_cpus(), help="intra-op threads of both")
    args = parser.parse_args()
    print(f"onnxruntime {onnxruntime.__version__}, {args.threads} threads")
    print(f"{'net':<26}{'infer p50 ms':>14}{'run p50 ms':>12}{'ratio':>8}{'difference us':>15}{'rounds':>8}")
    for net in NETS:
        model = net.model()
        feeds = {"x": np.random.default_rng(1).random(net.spec.static_shape, dtype=np.float32)}
        session = plain_session(model, args.threads)
        with tempfile.TemporaryDirectory() as folder:
            loaded = fts.load(bundle_of(net, model, Path(folder)), strict=True, threads=args.threads)
        np.testing.assert_array_equal(loaded.infer(feeds)["y"], session.run(["y"], feeds)[0])
        ours, plain, rounds = medians_ms(
            (lambda m=loaded, f=feeds: m.infer(f), lambda s=session, f=feeds: s.run(["y"], f)), args.seconds
        )
        print(f"{net.name:<26}{ours:>14.3f}{plain:>12.3f}{ours / plain:>8.3f}{(ours - plain) * 1e3:>15.1f}{rounds:>8}")


if __name__ == "__main__":
    main()

"""A bench for the conversion core: a net from ONNX text, calibrated on seeded noise, planned, encoded and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from fts.engines.onnxruntime_session import open_session
from fts.vocabulary.plan import Plan
from fts_calibration.recovery.weight_update import WeightUpdate
from fts_calibration.statistics.collect import collect_statistics
from fts_calibration.statistics.statistics import Statistics
from fts_converters.model import Model, model_from_proto
from fts_converters.passes.name_nodes import name_nodes
from fts_converters.quantize.encode_qdq import Encoded, encode_qdq
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.plan_nodes import channel_tensors, plan_nodes, tensors_to_calibrate
from fts_converters.quantize.units import Candidates, find_candidates
from fts_devices.onnxruntime_cpu.integer_kernels import KernelReport, integer_kernels
from fts_devices.profiles import load_profile

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """One net, encoded and run on its own calibration data."""

    index: GraphIndex
    candidates: Candidates
    plan: Plan
    statistics: Statistics
    encoded: Encoded
    kernels: KernelReport
    fp32: list[list[np.ndarray]]
    int8: list[list[np.ndarray]]

    def precision(self, name: str) -> str:
        return self.plan.by_name()[name].precision

    def reason(self, name: str) -> str:
        return self.plan.by_name()[name].reason

    def error(self, output: int = 0) -> float:
        """Greatest difference between encoded and FP32 output over the calibration data."""
        pairs = zip(self.fp32, self.int8, strict=True)
        return max(float(np.abs(a[output].astype(np.float64) - b[output]).max(initial=0.0)) for a, b in pairs)

    def sqnr_db(self, output: int = 0) -> float:
        a = np.concatenate([r[output].astype(np.float64).ravel() for r in self.fp32])
        b = np.concatenate([r[output].astype(np.float64).ravel() for r in self.int8])
        return float(10 * np.log10(np.mean(a**2) / max(float(np.mean((a - b) ** 2)), 1e-300)))

    def scale(self, tensor: str) -> float:
        """The grid's step of a per-tensor encoded tensor."""
        return float(self.constant(f"{tensor}_scale"))

    def constant(self, name: str) -> np.ndarray:
        found = [t for t in self.encoded.model.graph.initializer if t.name == name]
        return numpy_helper.to_array(found[0])


class Bench:
    """Makers of nets, data and trials."""

    @staticmethod
    def net(text: str, opset: int = 17, **constants: np.ndarray) -> onnx.ModelProto:
        """Parse `text`, whose constants are named only, and add them; nodes get names where they have none."""
        ir = 8 if opset < 19 else 9 if opset < 21 else 10
        header = f'<ir_version: {ir}, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
        proto = parser.parse_model(header + text)
        if not any(n.domain == "com.microsoft" for n in proto.graph.node):
            del proto.opset_import[1:]
        for name, value in constants.items():
            proto.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        for position, node in enumerate(proto.graph.node):
            node.name = node.name or f"{node.op_type}_{position}"
        return proto

    @staticmethod
    def model(proto: onnx.ModelProto) -> Model:
        return model_from_proto(proto, source="net.onnx", source_sha256="0" * 64)

    @staticmethod
    def noise(*shape: int, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> np.ndarray:
        return (np.random.default_rng(seed).normal(size=shape) * scale + shift).astype(np.float32)

    @classmethod
    def feeds(cls, proto: onnx.ModelProto, count: int = 3) -> list[dict[str, np.ndarray]]:
        """Seeded noise for every float input."""
        return [
            {
                i.name: cls.noise(*(d.dim_value for d in i.type.tensor_type.shape.dim), seed=100 * s + p)
                for p, i in enumerate(proto.graph.input)
            }
            for s in range(count)
        ]

    @staticmethod
    def run(proto: onnx.ModelProto, feed: Arrays, *, exact: bool = False) -> list[np.ndarray]:
        return open_session(proto.SerializeToString(), threads=1, exact_u8s8=exact).run(feed)

    @classmethod
    def trial(
        cls,
        proto: onnx.ModelProto,
        feeds: Sequence[Arrays] | None = None,
        *,
        dialect: str = "any",
        kept_float: Mapping[str, str] | None = None,
        fine: Mapping[str, str] | None = None,
        update: WeightUpdate = WeightUpdate.NONE,
    ) -> Trial:
        """Calibrate, plan all in INT8, encode, check, and run both nets."""
        model = cls.model(proto)
        name_nodes(model)
        index = GraphIndex(model.to_proto())
        profile = load_profile("cpu-int8")
        form = profile.dialects[dialect]
        candidates = find_candidates(index, profile)
        plan = plan_nodes(index, candidates, profile, form, kept_float=kept_float or {}, fine=fine or {})
        feeds = cls.feeds(proto) if feeds is None else feeds
        units = candidates.units.values()
        outputs = [o.name for o in index.model.graph.output if index.dtype(o.name) == "float32"]
        tensors = tensors_to_calibrate(units, index, outputs)
        statistics = collect_statistics(index.model, feeds, tensors, channel_tensors(units, index))
        encoded = encode_qdq(index, candidates, plan, statistics, form, update)
        onnx.checker.check_model(encoded.model, full_check=True)
        data = encoded.model.SerializeToString()
        float_session = open_session(proto.SerializeToString(), threads=1)
        int8_session = open_session(data, threads=1, exact_u8s8=True)
        macs = {n.name: n.macs for n in plan.nodes if n.macs}
        return Trial(
            index=index,
            candidates=candidates,
            plan=plan,
            statistics=statistics,
            encoded=encoded,
            kernels=integer_kernels(data, macs),
            fp32=[float_session.run(f) for f in feeds],
            int8=[int8_session.run(f) for f in feeds],
        )


@pytest.fixture(scope="session")
def bench() -> type[Bench]:
    return Bench

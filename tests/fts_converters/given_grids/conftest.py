"""A net that came with Q/DQ, by way of a file, load, freeze and cleaning, in the form of each dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.fts_converters.given_grids.quantized_nets import STYLES, Arrays, feeds
from tests.generators.run_plain import run_plain

from fts.engines.onnxruntime_session import open_session
from fts.vocabulary.plan import Plan
from fts_converters.freeze import freeze
from fts_converters.given_grids.clean_given import cleaned_given
from fts_converters.given_grids.take_over import GivenNet, encoded_given, holds_grids, plan_given
from fts_converters.load import load_model
from fts_converters.passes.name_nodes import name_nodes
from fts_devices.onnxruntime_cpu.integer_kernels import KernelReport, integer_kernels
from fts_devices.profiles import load_profile


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Taken:
    """A net taken over.

    Attributes:
        source: As it came.
        given: All its forms.
        plan: For the dialect.
        encoded: For the dialect.
        kernels: What onnxruntime makes of it.
        samples: Inputs.
        references: The net as it came, node by node.
        outputs: The encoded graph as it runs on this machine, exactly where its instructions are missing.
    """

    source: onnx.ModelProto
    given: GivenNet
    plan: Plan
    encoded: onnx.ModelProto
    kernels: KernelReport
    samples: list[Arrays]
    references: list[list[np.ndarray]]
    outputs: list[list[np.ndarray]]

    def integer_nodes(self) -> set[str]:
        """Nodes planned as int8."""
        return {n.name for n in self.plan.nodes if n.precision == "int8"}


TakeOver = Callable[..., Taken]


@pytest.fixture(scope="session")
def taken_style(take_over: TakeOver) -> Callable[..., Taken]:
    """Nets of STYLES by name and dialect, each made once."""
    return cache(lambda style, dialect="any": take_over(STYLES[style](), dialect))


@pytest.fixture(scope="session")
def take_over(tmp_path_factory: pytest.TempPathFactory) -> TakeOver:
    path = tmp_path_factory.mktemp("given") / "net.onnx"

    def run(source: onnx.ModelProto, dialect: str = "any", samples: list[Arrays] | None = None) -> Taken:
        profile = load_profile("cpu-int8")
        form = profile.dialects[dialect]
        samples = list(feeds(source)) if samples is None else samples
        onnx.save(source, path)
        model = load_model(str(path))
        freeze(model, {n: a.shape for n, a in samples[0].items()}, {})
        name_nodes(model)
        assert holds_grids(model)
        before = model.original or model.to_light()
        given = cleaned_given(model, before, samples[0])
        plan = plan_given(given, profile, form)
        encoded = encoded_given(given, profile, form)
        onnx.checker.check_model(encoded, full_check=True)
        onnx.checker.check_model(given.portable, full_check=True)
        data = encoded.SerializeToString()
        # Dialect "any" claims to be exact everywhere, so it runs as an app runs it.
        session = open_session(data, threads=1, exact_u8s8=dialect == "vnni")
        return Taken(
            source=source,
            given=given,
            plan=plan,
            encoded=encoded,
            kernels=integer_kernels(data, {n.name: n.macs for n in plan.nodes if n.macs}),
            samples=samples,
            references=[run_plain(source, s) for s in samples],
            outputs=[session.run(s) for s in samples],
        )

    return run


def constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Initializers and Constant nodes by name."""
    found = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            found[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return found


def activation_scales(model: onnx.ModelProto) -> set[float]:
    """Scales of all Q nodes of tensors that are computed."""
    known = constants(model)
    quantizers = [n for n in model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] not in known]
    return {float(known[n.input[1]].reshape(())) for n in quantizers if known[n.input[1]].size == 1}

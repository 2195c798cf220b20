"""Law: a random net quantized by onnxruntime's own tool, in both of its forms, is taken over exactly."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fts_converters.given_grids.conftest import TakeOver
from tests.fts_converters.given_grids.quantized_nets import Arrays, quantized_by_onnxruntime
from tests.fts_converters.quantize.test_random_graphs import SIDE, nets
from tests.generators.run_plain import run_plain

from fts.engines.onnxruntime_session import open_session
from fts.errors import EngineError

quantization = pytest.importorskip("onnxruntime.quantization")
# Root mean square of the difference, of the output's range. The encoded graph as it is written: half a step of 8 bits, a few
# elements fall over because the bias is rounded. As kernels run it: they round some ties the other way in every layer, and
# convolutions with a gain above 1 make steps of a step: 0.85 steps were seen in 36 elements.
HALF_A_STEP = 0.5 / 255
KERNELS = 3 / 255


def with_plain_names(net: onnx.ModelProto) -> onnx.ModelProto:
    """onnxruntime's tool makes names that these nets have already (field case F26)."""
    names = {o: f"v{p}" for p, n in enumerate(net.graph.node) for o in n.output}
    for node in net.graph.node:
        node.input[:] = [names.get(i, i) for i in node.input]
        node.output[:] = [names[o] for o in node.output]
    for value in net.graph.output:
        value.name = names[value.name]
    return net


@st.composite
def options(draw: st.DrawFn) -> dict[str, object]:
    signed = draw(st.booleans())
    kinds = quantization.QuantType
    weight = kinds.QInt8 if signed else draw(st.sampled_from([kinds.QInt8, kinds.QUInt8]))
    return {
        "quant_format": draw(st.sampled_from(list(quantization.QuantFormat))),
        "per_channel": draw(st.booleans()),
        "activation_type": kinds.QInt8 if signed else kinds.QUInt8,
        "weight_type": weight,
        "extra_options": {"ActivationSymmetric": draw(st.booleans())},
    }


def feeds() -> list[Arrays]:
    rng = np.random.default_rng(1)
    return [{"x": rng.normal(size=(1, 3, SIDE, SIDE)).astype(np.float32)} for _ in range(3)]


def _check(take_over: TakeOver, net: onnx.ModelProto, how: dict[str, object], dialect: str) -> bool:
    """False when there is nothing to take over, or onnxruntime cannot make or run the net itself."""
    samples = feeds()
    quantized = quantized_by_onnxruntime(with_plain_names(net), samples, **how)
    if not any("uantizeLinear" in n.op_type for n in quantized.graph.node):
        return False
    try:
        # Integer operators run with exact sums here: without, onnxruntime's own reference would saturate.
        is_integer = how["quant_format"] is quantization.QuantFormat.QOperator
        session = open_session(quantized.SerializeToString(), threads=1, exact_u8s8=True, fuses_qdq=is_integer)
        references = [session.run(s) for s in samples]
    except EngineError:
        return False
    taken = take_over(quantized, dialect, samples)
    planned = {n.name for n in taken.plan.nodes if n.precision == "int8" and n.macs}
    assert set(taken.kernels.integer_nodes) == planned
    assert taken.kernels.unmatched == ()
    as_written = [run_plain(taken.encoded, s) for s in samples]
    for outputs, bound in ((as_written, HALF_A_STEP), (taken.outputs, KERNELS)):
        for reference, output in zip(references, outputs, strict=True):
            assert all(_off(a, b) <= bound for a, b in zip(reference, output, strict=True))
    return True


def _off(reference: np.ndarray, output: np.ndarray) -> float:
    """Root mean square of the difference, of the range; an output with few steps moves by a whole one where one falls over."""
    assert (reference.shape, reference.dtype) == (output.shape, output.dtype)
    span = float(np.ptp(reference)) or float(np.abs(reference).max()) or 1.0
    coarse = max(1.0, 1 / (10 * len(np.unique(reference)) * HALF_A_STEP))
    return float(np.sqrt(np.mean((reference - output) ** 2))) / span / coarse


@pytest.mark.parametrize("dialect", ["any", "vnni"])
def test_random_nets_of_onnxruntimes_tool_are_taken_over(take_over: TakeOver, dialect: str):
    checked = []

    @given(net=nets(longest=7), how=options())
    @settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def check(net: onnx.ModelProto, how: dict[str, object]) -> None:
        checked.append(_check(take_over, net, how, dialect))

    check()
    assert sum(checked) > len(checked) / 2


@pytest.mark.slow
def test_many_random_nets_of_onnxruntimes_tool_are_taken_over(take_over: TakeOver):
    @given(net=nets(longest=12), how=options(), dialect=st.sampled_from(["any", "vnni"]))
    @settings(max_examples=400, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def check(net: onnx.ModelProto, how: dict[str, object], dialect: str) -> None:
        _check(take_over, net, how, dialect)

    check()

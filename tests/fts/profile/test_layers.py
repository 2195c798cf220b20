"""Kernels of onnxruntime's profile, told by source node and scaled."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from fts.errors import EngineError
from fts.profile.layers import (
    ENGINE_OWN,
    UNATTRIBUTED,
    Kernel,
    KernelTimes,
    kernel_times_from_profile,
    layer_table,
    ran_as,
    source_name,
)
from fts.profile.profiled_session import ProfiledSession
from fts.profile.tensor_producers import tensor_producers
from fts.vocabulary.plan import NodePlan

SETTLING = 3


def node(name: str, op_type: str = "Conv", precision: str = "int8") -> NodePlan:
    return NodePlan(name=name, op_type=op_type, precision=precision, engine="onnxruntime-cpu", reason="because")


def kernel(name: str, op_type: str, ran: str, ms: float) -> Kernel:
    return Kernel(name=name, op_type=op_type, ran=ran, ms=ms)


def profile(runs: list[tuple[int, dict[str, int]]]) -> str:
    """A profile of runs: (whole time, kernel "NAME/op" to time), all in microseconds."""
    events, ts = [{"cat": "Session", "name": "session_initialization", "dur": 999, "ts": 0}], 1000
    for total, kernels in runs:
        inner = ts + 1
        for key, dur in kernels.items():
            name, _, op = key.rpartition("/")
            arguments = {"op_name": op, "output_type_shape": [{"float": [1, 3]}]}
            events.append({"cat": "Node", "name": f"{name}_kernel_time", "dur": dur, "ts": inner, "args": arguments})
            events.append({"cat": "Node", "name": f"{name}_fence_after", "dur": 50, "ts": inner, "args": {}})
            inner += dur
        events.append({"cat": "Session", "name": "model_run", "dur": total, "ts": ts})
        ts += total + 10
    return json.dumps(events)


def test_sums_a_run_and_leaves_what_no_kernel_took():
    found = kernel_times_from_profile(profile([(1000, {"a/Conv": 600, "b/Relu": 300})] * 6), producers={})
    assert [(k.name, k.op_type, k.ms) for k in found.kernels] == [("a", "Conv", 0.6), ("b", "Relu", 0.3)]
    assert found.total_ms == 1.0
    assert found.attributed_share == pytest.approx(0.9)


def test_a_kernel_called_after_its_tensor_is_led_back_to_its_node():
    text = profile([(1000, {"t1_nchwc/Conv": 600, "t2_nchwc/Conv": 300})] * 6)
    found = kernel_times_from_profile(text, producers={"t1": "conv"})
    assert [k.name for k in found.kernels] == ["conv", "t2_nchwc"]


def test_producers_are_those_that_the_onnx_package_reads():
    model = onnx.load_from_string(chain(3))
    model.graph.node[1].name = ""
    model.graph.node[2].output.append("second")
    expected = {o: n.name for n in model.graph.node if n.name for o in n.output}
    assert tensor_producers(model.SerializeToString()) == expected
    assert len(expected) == 3


def test_settling_runs_and_the_slower_half_do_not_count():
    slow, quick = (5000, {"a/Conv": 4000}), (1000, {"a/Conv": 900})
    found = kernel_times_from_profile(profile([*[slow] * SETTLING, slow, quick, slow, quick]), producers={})
    assert (found.total_ms, found.frames, found.kernels[0].ms) == (1.0, 2, 0.9)


def test_a_profile_without_a_run_is_refused():
    with pytest.raises(EngineError, match="no complete run"):
        kernel_times_from_profile(profile([]), producers={})


@pytest.mark.parametrize(
    ("op_type", "types", "ran"),
    [
        ("QLinearConv", ["uint8"], "int8"),
        ("QLinearAdd", ["uint8"], "int8"),
        ("ConvInteger", ["int32"], "int8"),
        ("MatMulInteger", ["int32"], "int8"),
        ("QGemm", ["uint8"], "int8"),
        ("DynamicQuantizeMatMul", ["float"], "int8"),
        ("MaxPool", ["uint8"], "int8"),
        ("MaxPool", ["float"], "float"),
        ("Conv", ["float"], "float"),
        ("Shape", [], "float"),
        ("QuantizeLinear", ["uint8"], "conversion"),
        ("DequantizeLinear", ["float"], "conversion"),
    ],
)
def test_arithmetic_is_told_by_the_kernel_that_ran(op_type, types, ran):
    assert ran_as(op_type, types) == ran


@pytest.mark.parametrize(
    ("kernel_name", "source"),
    [
        ("conv_1", "conv_1"),
        ("conv_1_token_7", "conv_1"),
        ("conv_10_token_7", "conv_10"),
        ("conv_1_nchwc", "conv_1"),
        ("conv_1_weight_QuantizeLinear", "conv_1"),
        ("/dec/conv.2/Conv_DequantizeLinear#3", "/dec/conv.2/Conv"),
        ("conv_100", None),
        ("ReorderOutput", None),
        ("", None),
    ],
)
def test_a_kernel_is_led_back_to_the_longest_name_that_it_extends(kernel_name, source):
    assert source_name(kernel_name, {"conv_1", "conv_10", "/dec/conv.2/Conv"}) == source


def test_rows_add_up_to_the_unprofiled_time_with_the_inflation_beside_them():
    run = KernelTimes(
        total_ms=20.0,
        frames=5,
        kernels=(
            kernel("c_input_QuantizeLinear", "QuantizeLinear", "conversion", 5.0),
            kernel("c_token_4", "QLinearConv", "int8", 4.0),
            kernel("r", "Relu", "float", 8.0),
            kernel("Transpose", "Transpose", "float", 1.0),
        ),
    )
    table = layer_table([run, run], [node("c"), node("r", "Relu", "fp32")], unprofiled_ms=10.0)
    assert table.inflation == 2.0
    assert table.attributed_share == pytest.approx(0.9)
    assert [r.name for r in table.rows] == ["c", "r", ENGINE_OWN, UNATTRIBUTED]
    assert [r.ms for r in table.rows] == pytest.approx([4.5, 4.0, 0.5, 1.0])
    assert sum(r.ms for r in table.rows) == pytest.approx(10.0)
    conv = table.rows[0]
    assert (conv.planned, conv.ran, conv.kernels) == ("int8", "int8", ("QuantizeLinear", "QLinearConv"))
    assert conv.conversion_ms == pytest.approx(2.5)
    assert not any(r.unsteady for r in table.rows)


def test_a_node_planned_as_int8_that_ran_in_float_shows_both():
    run = KernelTimes(total_ms=1.0, frames=5, kernels=(kernel("c", "Conv", "float", 1.0),))
    row = layer_table([run, run], [node("c")], unprofiled_ms=1.0).rows[0]
    assert (row.planned, row.ran) == ("int8", "float")


@pytest.mark.parametrize(("other_ms", "unsteady"), [(5.5, False), (6.2, True)])
def test_a_share_that_changed_by_more_than_a_fifth_is_marked(other_ms, unsteady):
    runs = [
        KernelTimes(total_ms=100.0, frames=5, kernels=(kernel("c", "Conv", "float", ms),)) for ms in (5.0, other_ms)
    ]
    assert layer_table(runs, [node("c")], unprofiled_ms=100.0).rows[0].unsteady is unsteady


def test_a_kernel_seen_in_one_run_alone_is_unsteady():
    runs = [
        KernelTimes(total_ms=10.0, frames=5, kernels=(kernel("a", "Conv", "float", 9.0),)),
        KernelTimes(
            total_ms=10.0, frames=5, kernels=(kernel("a", "Conv", "float", 8.0), kernel("b", "Add", "float", 1.0))
        ),
    ]
    rows = {r.name: r for r in layer_table(runs, [node("a"), node("b")], unprofiled_ms=10.0).rows}
    assert rows["b"].share == pytest.approx(0.05)
    assert rows["b"].unsteady


def chain(layers: int) -> bytes:
    """Convolutions of 16 channels at 96x96, with names."""
    rng = np.random.default_rng(0)
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16, 96, 96]) for n in ("t0", f"t{layers}")]
    graph = helper.make_graph(
        [
            helper.make_node("Conv", [f"t{i}", f"w{i}"], [f"t{i + 1}"], name=f"layer_{i}", pads=[1] * 4)
            for i in range(layers)
        ],
        "chain",
        tensors[:1],
        tensors[1:],
        [numpy_helper.from_array(rng.random((16, 16, 3, 3), np.float32), f"w{i}") for i in range(layers)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def test_layers_of_a_real_session_are_told_by_their_names_and_cover_its_time(tmp_path):
    model = chain(6)
    session = ProfiledSession(model, tmp_path, threads=1, exact_u8s8=False)
    feed = {"t0": np.random.default_rng(1).random((1, 16, 96, 96), np.float32)}
    for _ in range(23):
        session.run(feed)
    times = kernel_times_from_profile(session.finish().read_text(), producers=tensor_producers(model))
    assert times.frames == 10
    assert 0.85 <= times.attributed_share <= 1.05
    table = layer_table([times, times], [node(f"layer_{i}", precision="fp32") for i in range(6)], unprofiled_ms=1.0)
    assert {f"layer_{i}" for i in range(6)} <= {r.name for r in table.rows}
    assert all(r.ran == "float" for r in table.rows if r.name.startswith("layer_"))

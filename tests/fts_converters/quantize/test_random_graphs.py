"""Law: whatever the graph, the encoded net loads, runs in integers what the plan says, and keeps names and shapes."""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

SIDE = 6
STEPS = (
    "conv", "conv_relu", "conv_clip", "depthwise", "pointwise", "add", "mul", "add_self", "mul_self", "concat", "concat_self",
    "add_constant", "sigmoid", "leaky", "relu", "average", "global", "max", "transpose", "reshape", "softmax", "resize", "neg",
    "identity", "slice", "matmul",
)  # fmt: skip
FLOAT_TWINS = frozenset({"Conv", "MatMul", "Gemm", "FusedConv", "FusedGemm", "FusedMatMul", "MatMulIntegerToFloat"})


class Builder:
    """Adds one step after another; all tensors are (1, C, SIDE, SIDE) so that any two can meet."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.channels = {"x": 3}

    def constant(self, values: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def floats(self, *shape: int, scale: float = 0.4) -> str:
        return self.constant((self.rng.normal(size=shape) * scale).astype(np.float32))

    def node(self, op_type: str, inputs: list[str], channels: int, **attributes: object) -> str:
        # Names in the manner of generated ones (F26).
        name = ("t{0}", "t{0}_quantized", "t{0}_float", "t{0}_dequantized")[len(self.nodes) % 4].format(
            len(self.nodes) // 4
        )
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=f"n{len(self.nodes)}", **attributes))
        self.channels[name] = channels
        return name

    def conv(self, source: str, out: int, kernel: int = 3, group: int = 1) -> str:
        into = self.channels[source]
        inputs = [source, self.floats(out, into // group, kernel, kernel)]
        if self.rng.random() < 0.7:
            inputs.append(self.floats(out))
        pads = [kernel // 2] * 4
        return self.node("Conv", inputs, out, pads=pads, group=group)

    def step(self, kind: str, first: int, second: int) -> None:
        names = list(self.channels)
        a = names[first % len(names)]
        same = [n for n in names if self.channels[n] == self.channels[a]]
        b, c = same[second % len(same)], self.channels[a]
        if kind in ("conv", "conv_relu", "conv_clip"):
            h = self.conv(a, 1 + second % 4)
            if kind == "conv_relu":
                self.node("Relu", [h], self.channels[h])
            if kind == "conv_clip":
                bounds = [self.constant(np.float32(0)), self.constant(np.float32(0.8))]
                self.node("Clip", [h, *bounds], self.channels[h])
        elif kind == "depthwise":
            self.conv(a, c, group=c)
        elif kind == "pointwise":
            self.conv(a, 3, kernel=1)
        elif kind in ("add", "mul"):
            self.node(kind.capitalize(), [a, b], c)
        elif kind in ("add_self", "mul_self"):
            self.node(kind.split("_")[0].capitalize(), [a, a], c)
        elif kind in ("concat", "concat_self"):
            other = names[second % len(names)] if kind == "concat" else a
            self.node("Concat", [a, other], c + self.channels[other], axis=1)
        elif kind == "add_constant":
            self.node("Add", [self.floats(1, c, 1, 1), a], c)
        elif kind == "average":
            self.node("AveragePool", [a], c, kernel_shape=[3, 3], pads=[1] * 4)
        elif kind == "global":
            self.node("Mul", [a, self.node("GlobalAveragePool", [a], -1)], c)
        elif kind == "max":
            self.node("MaxPool", [a], c, kernel_shape=[3, 3], pads=[1] * 4)
        elif kind == "transpose":
            self.node("Transpose", [a], c, perm=[0, 1, 3, 2])
        elif kind == "reshape":
            flat = self.node("Reshape", [a, self.constant(np.array([1, c, -1]))], -1)
            self.node("Reshape", [flat, self.constant(np.array([1, c, SIDE, SIDE]))], c)
        elif kind == "resize":
            big = self.node("Resize", [a, "", self.constant(np.array([1, 1, 2, 2], np.float32))], -1, mode="nearest")
            self.node("MaxPool", [big], c, kernel_shape=[2, 2], strides=[2, 2])
        elif kind == "slice":
            half = [self.constant(np.array([v])) for v in (0, 1, 1)]
            self.node("Slice", [a, *half], 1)
        elif kind == "matmul":
            self.node("MatMul", [a, b], c)
        else:
            op_type = {"leaky": "LeakyRelu"}.get(kind, kind.capitalize())
            self.node(op_type, [a], c)

    def model(self, extra_output: int) -> onnx.ModelProto:
        real = [n for n, c in self.channels.items() if c > 0 and n != "x"]
        outputs = list(dict.fromkeys([real[-1], real[extra_output % len(real)]]))
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, self.channels[n], SIDE, SIDE]) for n in outputs],
            self.constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@st.composite
def nets(draw: st.DrawFn, longest: int = 9) -> onnx.ModelProto:
    builder = Builder(draw(st.integers(0, 99)))
    builder.step("conv", 0, draw(st.integers(0, 3)))
    for _ in range(draw(st.integers(1, longest))):
        # Mostly the newest tensor is read, so that chains grow long.
        newest = [n for n, c in builder.channels.items() if c > 0]
        kind = draw(st.sampled_from(STEPS))
        first = draw(st.sampled_from([len(newest) - 1, len(newest) - 1, draw(st.integers(0, 20))]))
        hidden = {n: builder.channels.pop(n) for n in list(builder.channels) if builder.channels[n] <= 0}
        builder.step(kind, first, draw(st.integers(0, 20)))
        builder.channels.update(hidden)
    return builder.model(draw(st.integers(0, 20)))


def float_names(net: onnx.ModelProto) -> list[str]:
    return [n.name for n in net.graph.node]


@given(net=nets(), kept=st.sets(st.integers(0, 12), max_size=4), fine=st.sets(st.integers(0, 12), max_size=6))
@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_runs_in_integers_exactly_what_the_plan_says(bench, net, kept, fine):
    names = float_names(net)
    kept_float = {names[k]: "kept for the budget" for k in kept if k < len(names)}
    finer = {names[k]: "fine for the budget" for k in fine if k < len(names)}
    trial = bench.trial(net, bench.feeds(net, 2), kept_float=kept_float, fine=finer)
    planned = {n.name for n in trial.plan.nodes if n.precision == "int8" and n.macs}
    assert set(trial.kernels.integer_nodes) == planned
    assert trial.kernels.integer_mac_share == trial.plan.planned_integer_share
    assert trial.kernels.unmatched == ()
    assert all(n.reason for n in trial.plan.nodes)
    graph = trial.encoded.model.graph
    assert [o.name for o in graph.output] == [o.name for o in net.graph.output]
    assert [i.name for i in graph.input] == [i.name for i in net.graph.input]
    tensors = [o for n in graph.node for o in n.output] + [t.name for t in graph.initializer]
    assert len(tensors) == len(set(tensors))
    assert len({n.name for n in graph.node}) == len(graph.node)
    for a, b in zip(trial.fp32[0], trial.int8[0], strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        assert np.isfinite(b).all()


@given(net=nets())
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_is_the_float_net_when_nothing_is_int8(bench, net):
    trial = bench.trial(net, bench.feeds(net, 1), kept_float={n: "all float" for n in float_names(net)})
    assert trial.plan.planned_integer_share == 0.0
    assert not any(k.startswith(("QLinear", "QGemm", "Quantize")) for k in trial.kernels.kernels)
    for a, b in zip(trial.fp32[0], trial.int8[0], strict=True):
        np.testing.assert_array_equal(a, b)  # the same nodes in the same order: the same bits

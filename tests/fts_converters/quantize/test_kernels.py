"""Every unit kind ends as the integer kernel that the profile names, in ONNX Runtime's optimised graph."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from fts_devices.onnxruntime_cpu.integer_kernels import optimised_graph


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    name: str
    body: str
    kernel: str
    count: int = 1
    opset: int = 17
    constants: dict[str, np.ndarray] = field(default_factory=dict)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * 0.3).astype(np.float32)


COMMON = {
    "w": noise(8, 3, 3, 3, seed=1),
    "w2": noise(8, 8, 3, 3, seed=2),
    "b": noise(8, seed=3),
    "v": noise(8, 3, 3, 3),
}
X = "g (float[1,3,8,8] x) => (float[1,8,H,W] y) { %s }"
BETWEEN = X % "a = Conv<pads=[1,1,1,1]>(x,w,b) %s y = Conv(t,w2)"
KINDS = [
    Kind(name="conv", body=X % "y = Conv(x,w,b)", kernel="QLinearConv"),
    Kind(name="conv with an empty bias", body=X % 'y = Conv(x,w,"")', kernel="QLinearConv"),
    Kind(name="conv relu", body=X % "h = Conv(x,w,b) y = Relu(h)", kernel="QLinearConv"),
    Kind(
        name="conv clip",
        body=X % "h = Conv(x,w,b) c = Clip(h,zero,six) y = Conv(c,w2)",
        kernel="QLinearConv",
        count=2,
        constants={"zero": np.float32(0), "six": np.float32(0.6)},
    ),
    Kind(
        name="conv clip with bounds of one element",
        body=X % "h = Conv(x,w,b) c = Clip(h,zero) y = Conv(c,w2)",
        kernel="QLinearConv",
        count=2,
        constants={"zero": np.zeros(1, np.float32)},
    ),
    Kind(name="auto_pad", body=X % 'y = Conv<auto_pad="SAME_UPPER",strides=[2,2]>(x,w,b)', kernel="QLinearConv"),
    Kind(
        name="conv 1-D",
        body="g (float[1,3,16] x) => (float[1,8,14] y) { y = Conv(x,w,b) }",
        kernel="QLinearConv",
        constants={"w": noise(8, 3, 3)},
    ),
    Kind(
        name="conv 3-D",
        body="g (float[1,3,5,6,7] x) => (float[1,8,3,4,5] y) { y = Conv(x,w,b) }",
        kernel="QLinearConv",
        constants={"w": noise(8, 3, 3, 3, 3)},
    ),
    Kind(
        name="depthwise",
        body="g (float[1,8,8,8] x) => (float[1,8,6,6] y) { y = Conv<group=8>(x,w,b) }",
        kernel="QLinearConv",
        constants={"w": noise(8, 1, 3, 3)},
    ),
    Kind(
        name="grouped",
        body="g (float[1,8,8,8] x) => (float[1,8,6,6] y) { y = Conv<group=2>(x,w,b) }",
        kernel="QLinearConv",
        constants={"w": noise(8, 4, 3, 3)},
    ),
    Kind(
        name="one output channel",
        body="g (float[1,3,8,8] x) => (float[1,1,6,6] y) { y = Conv(x,w,b) }",
        kernel="QLinearConv",
        constants={"w": noise(1, 3, 3, 3), "b": noise(1)},
    ),
    *(
        Kind(
            name=f"gemm {form}",
            body=f"g (float[2,8] x) => (float[2,5] y) {{ y = Gemm<transB={trans}>(x,w{bias}) }}",
            kernel="QGemm",
            constants={"w": noise(5, 8) if trans else noise(8, 5), "b": noise(*shape)},
        )
        for form, trans, bias, shape in (
            ("plain", 0, ",b", (5,)),
            ("transB", 1, ",b", (5,)),
            ("bias of two axes", 1, ",b", (1, 5)),
            ("without bias", 1, "", (5,)),
        )
    ),
    *(
        Kind(
            name=f"matmul {form}",
            body=f"g (float{left} x) => (float{out} y) {{ y = MatMul({reads}) }}",
            kernel="QLinearMatMul",
            constants={"w": weight},
        )
        for form, left, out, reads, weight in (
            ("with a weight", "[2,3,8]", "[2,3,5]", "x,w", noise(8, 5)),
            ("with a vector", "[2,3,8]", "[2,3]", "x,w", noise(8)),
            ("of a vector", "[8]", "[5]", "x,w", noise(8, 5)),
            ("with a stack of weights", "[2,3,8]", "[2,3,5]", "x,w", noise(2, 8, 5)),
            ("with the weight on the left", "[2,8,3]", "[2,5,3]", "w,x", noise(5, 8)),
            ("of one tensor twice", "[8,8]", "[8,8]", "x,x", noise(1)),
        )
    ),
    Kind(
        name="matmul of two inputs",
        body="g (float[2,4,8] x, float[2,8,4] z) => (float[2,4,4] y) { y = MatMul(x,z) }",
        kernel="QLinearMatMul",
    ),
    Kind(name="add", body=BETWEEN % "c = Conv<pads=[1,1,1,1]>(x,v) t = Add(a,c)", kernel="QLinearAdd"),
    Kind(name="add relu", body=BETWEEN % "c = Conv<pads=[1,1,1,1]>(x,v) s = Add(a,c) t = Relu(s)", kernel="QLinearAdd"),
    Kind(name="add of one tensor twice", body=BETWEEN % "t = Add(a,a)", kernel="QLinearAdd"),
    Kind(name="add a constant", body=BETWEEN % "t = Add(a,k)", kernel="QLinearAdd", constants={"k": noise(1, 8, 1, 1)}),
    Kind(name="mul of one tensor twice", body=BETWEEN % "t = Mul(a,a)", kernel="QLinearMul"),
    Kind(name="mul a scalar", body=BETWEEN % "t = Mul(k,a)", kernel="QLinearMul", constants={"k": np.float32(-0.5)}),
    Kind(
        name="concat",
        body=BETWEEN % "c = Conv<pads=[1,1,1,1]>(x,v) t = Concat<axis=1>(a,c)",
        kernel="QLinearConcat",
        constants={"w2": noise(8, 16, 3, 3)},
    ),
    Kind(
        name="concat of one tensor twice",
        body=BETWEEN % "t = Concat<axis=-3>(a,a)",
        kernel="QLinearConcat",
        constants={"w2": noise(8, 16, 3, 3)},
    ),
    Kind(
        name="concat with a constant",
        body=BETWEEN % "t = Concat<axis=1>(a,k)",
        kernel="QLinearConcat",
        constants={"w2": noise(8, 10, 3, 3), "k": noise(1, 2, 8, 8)},
    ),
    Kind(name="average pool", body=BETWEEN % "t = AveragePool<kernel_shape=[2,2]>(a)", kernel="QLinearAveragePool"),
    Kind(
        name="average pool that counts its padding",
        body=BETWEEN % "t = AveragePool<kernel_shape=[3,3],pads=[1,1,1,1],count_include_pad=1>(a)",
        kernel="QLinearAveragePool",
    ),
    Kind(
        name="global average pool",
        body=BETWEEN % "m = GlobalAveragePool(a) t = Mul(a,m)",
        kernel="QLinearGlobalAveragePool",
    ),
    Kind(name="leaky relu", body=BETWEEN % "t = LeakyRelu<alpha=0.2>(a)", kernel="QLinearLeakyRelu"),
    Kind(name="sigmoid", body=BETWEEN % "s = Sigmoid(a) t = Mul(a,s)", kernel="QLinearSigmoid"),
    Kind(name="max pool", body=BETWEEN % "t = MaxPool<kernel_shape=[3,3],pads=[1,1,1,1]>(a)", kernel="NhwcMaxPool"),
    Kind(
        name="reshape",
        body=BETWEEN % "t = Reshape(a,k)",
        kernel="Reshape",
        constants={"k": np.array([1, 8, 4, 16])},
    ),
    Kind(name="transpose", body=BETWEEN % "t = Transpose<perm=[0,1,3,2]>(a)", kernel="QLinearConv", count=2),
    Kind(
        name="unsqueeze and squeeze",
        body=BETWEEN % "u = Unsqueeze(a,k) t = Squeeze(u,k)",
        kernel="Squeeze",
        constants={"k": np.array([0])},
    ),
]
# FP32 against INT8 on noise, at 7-bit weights and two layers of 8-bit activations: 6.02 * 7 + 1.76 − the crest of a normal
# distribution (4 sigma: 12 dB + 1.25) is 31 dB for one rounding; two layers and a product take 3 + 3 more.
LEAST_SQNR_DB = 25.0


def used(kind: Kind) -> dict[str, np.ndarray]:
    words = set(re.findall(r"\w+", kind.body))
    return {name: value for name, value in {**COMMON, **kind.constants}.items() if name in words}


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_becomes_its_integer_kernel(bench, kind):
    trial = bench.trial(bench.net(kind.body, opset=kind.opset, **used(kind)))
    assert trial.kernels.kernels.get(kind.kernel, 0) == kind.count or (
        kind.kernel == "QLinearConv" and trial.kernels.kernels[kind.kernel] >= kind.count
    )
    assert trial.plan.planned_integer_share == 1.0
    assert trial.kernels.integer_mac_share == 1.0
    assert trial.kernels.unmatched == ()
    assert {n.precision for n in trial.plan.nodes} == {"int8"}
    # The only conversions left are at the borders of the net.
    assert trial.kernels.kernels["QuantizeLinear"] == len(trial.index.model.graph.input)
    assert trial.kernels.kernels["DequantizeLinear"] == len(trial.index.outputs)
    assert trial.sqnr_db() > LEAST_SQNR_DB


@pytest.mark.parametrize("opset", [13, 14, 17, 18, 19, 20, 21])
@pytest.mark.parametrize("dialect", ["any", "vnni"])
def test_becomes_integer_in_every_opset_and_dialect(bench, opset, dialect):
    net = bench.net(
        X % "h = Conv(x,w,b) r = Relu(h) y = Conv(r,w2)", opset, w=COMMON["w"], b=COMMON["b"], w2=COMMON["w2"]
    )
    trial = bench.trial(net, dialect=dialect)
    assert trial.kernels.kernels["QLinearConv"] == 2
    assert trial.sqnr_db() > LEAST_SQNR_DB


@pytest.mark.parametrize("high", [6.0, 1.0, 0.5, 1.3, 3.3333333, 5.999999])
def test_folds_a_clip_whose_upper_bound_is_reached(bench, high):
    constants = {"w": COMMON["w"] * 20, "b": COMMON["b"], "w2": COMMON["w2"], "zero": np.float32(0)}
    net = bench.net(X % "h = Conv(x,w,b) r = Clip(h,zero,high) y = Conv(r,w2)", **constants, high=np.float32(high))
    trial = bench.trial(net)
    assert trial.statistics.ranges["r"].high == np.float32(high)
    assert trial.kernels.integer_mac_share == 1.0
    assert "Clip" not in trial.kernels.kernels


@dataclass(frozen=True, kw_only=True, eq=False)
class Refused:
    name: str
    body: str
    node: str
    reason: str
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    opset: int = 17


REFUSED = [
    Refused(
        name="computed weights (F22)",
        body="g (float[1,3,8,8] x, float[1,3,1,1] s) => (float[1,8,6,6] y) { k = Mul(w,s) y = Conv(x,k,b) }",
        node="Conv_1",
        reason="its weights are computed from the input",
    ),
    Refused(
        name="computed bias",
        body="g (float[1,3,8,8] x, float[8] k) => (float[1,8,6,6] y) { y = Conv(x,w,k) }",
        node="Conv_0",
        reason="its bias is computed from the input",
    ),
    *(
        Refused(
            name=f"gemm with {attribute}",
            body=f"g (float[8,8] x) => (float[8,8] y) {{ y = Gemm<{attribute}>(x,w,b) }}",
            node="Gemm_0",
            reason="transA, alpha or beta",
            constants={"w": noise(8, 8)},
        )
        for attribute in ("alpha=0.5", "beta=2.0", "transA=1")
    ),
    Refused(
        name="gemm with one bias for all",
        body="g (float[8,8] x) => (float[8,8] y) { y = Gemm(x,w,b) }",
        node="Gemm_0",
        reason="expected one value a column",
        constants={"w": noise(8, 8), "b": noise(1)},
    ),
    Refused(
        name="dilated average pool",
        body=X % "h = Conv(x,w,b) r = AveragePool<kernel_shape=[2,2],dilations=[2,2]>(h) y = Conv(r,w2)",
        node="AveragePool_1",
        reason="dilations",
        opset=19,
    ),
    Refused(
        name="mask of infinities",
        body="g (float[2,4,8] x, float[2,8,4] z) => (float[2,4,4] y) { h = MatMul(x,z) i = Add(h,k) y = Softmax(i) }",
        node="Add_1",
        reason="infinity",
        constants={"k": np.where(np.tri(4), 0, -np.inf).astype(np.float32)},
    ),
    Refused(
        name="clip that is no relu",
        body=X % "h = Conv(x,w,b) r = Clip(h,k) y = Conv(r,w2)",
        node="Clip_1",
        reason="no integer kernel",
        constants={"k": np.float32(-0.1)},
    ),
    Refused(
        name="max pool with indices",
        body="g (float[1,3,8,8] x) => (float[1,8,3,3] y, int64[1,8,3,3] i) "
        "{ h = Conv(x,w,b) y, i = MaxPool<kernel_shape=[2,2],strides=[2,2]>(h) }",
        node="MaxPool_1",
        reason="several outputs",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.name)
def test_stays_float_with_the_reason(bench, case):
    words = set(re.findall(r"\w+", case.body))
    constants = {n: v for n, v in {**COMMON, **case.constants}.items() if n in words}
    trial = bench.trial(bench.net(case.body, case.opset, **constants))
    assert trial.precision(case.node) == "fp32"
    assert case.reason in trial.reason(case.node)
    assert trial.kernels.integer_mac_share == pytest.approx(trial.plan.planned_integer_share)
    assert trial.sqnr_db() > LEAST_SQNR_DB


# Operators between two integer convolutions, as (body, quantised operator that onnxruntime would make of it).
FUSED_ANYWAY = {
    "Sigmoid": "r = Sigmoid(h)",
    "LeakyRelu": "r = LeakyRelu(h)",
    "AveragePool": "r = AveragePool<kernel_shape=[2,2]>(h)",
    "GlobalAveragePool": "r = GlobalAveragePool(h)",
    "Softmax": "r = Softmax(h)",
    "Where": "r = Where(c,h,h)",
    "Add": "r = Add(h,h)",
    "Add behind Identity": "i = Identity(h) r = Add(i,h)",
    "Add before Relu": "a = Add(h,h) r = Relu(a)",
    "Mul": "r = Mul(h,h)",
    "Concat": "r = Concat<axis=2>(h,h)",
    "MatMul": "r = MatMul(h,h)",
    "Conv": "r = Conv(h,q,b)",
    "Conv with computed weights (F22)": "e = ReduceMean<axes=[0,2,3]>(h) u = Mul(q,e) r = Conv(h,u)",
    "Conv before Relu": "a = Conv(h,q,b) r = Relu(a)",
    "ConvTranspose": "r = ConvTranspose(h,q,b)",
}


@pytest.mark.parametrize("also_read_by_integers", [False, True], ids=["grid a channel", "grid a tensor"])
@pytest.mark.parametrize("name", FUSED_ANYWAY)
def test_runs_in_float_what_the_plan_keeps_in_float(bench, name, also_read_by_integers):
    """onnxruntime fuses DQ -> op -> Q unasked, and refused to load the graph where a DQ had one grid a channel."""
    second, z = ("z = Conv(h,p)", ", float[1,8,6,6] z") if also_read_by_integers else ("", "")
    text = f"g (float[1,3,8,8] x) => (float[1,8,H,W] y{z}) {{ h = Conv(x,w,b) {FUSED_ANYWAY[name]} y = Conv(r,p) {second} }}"
    constants = {"w": COMMON["w"], "b": COMMON["b"], "p": noise(8, 8, 1, 1)} | (
        {"c": np.array(True)} if "Where" in name else {}
    )
    constants |= {"q": noise(8, 8, 1, 1)} if "Conv" in name else {}
    net = bench.net(text, **constants)
    ends = {net.graph.node[0].name, *(n.name for n in net.graph.node if "y" in n.output or "z" in n.output)}
    between = [n.name for n in net.graph.node if n.name not in ends]
    trial = bench.trial(net, kept_float={n: "kept for the budget" for n in between})
    assert {trial.precision(n) for n in between} == {"fp32"}
    assert set(trial.kernels.kernels) & {
        "QLinearSigmoid", "QLinearLeakyRelu", "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearSoftmax", "QLinearWhere",
        "QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearMatMul", "MatMulIntegerToFloat",
    } == set()  # fmt: skip
    assert trial.kernels.integer_mac_share == pytest.approx(trial.plan.planned_integer_share)
    assert trial.sqnr_db() > LEAST_SQNR_DB


def test_weights_of_a_float_convtranspose_stay_float(bench):
    """onnxruntime would quantize them, and run the operator in float on 8-bit weights."""
    body = "h = Conv(x,w,b) r = ConvTranspose(h,q) y = Conv(r,p) z = Conv(h,p)"
    text = f"g (float[1,3,8,8] x) => (float[1,8,8,8] y, float[1,8,6,6] z) {{ {body} }}"
    net = bench.net(text, w=COMMON["w"], b=COMMON["b"], q=noise(8, 8, 3, 3), p=noise(8, 8, 1, 1))
    trial = bench.trial(net)
    assert trial.precision("ConvTranspose_1") == "fp32"
    optimised = optimised_graph(trial.encoded.model.SerializeToString())
    floats = {t.name: numpy_helper.to_array(t) for t in optimised.graph.initializer if t.data_type == TensorProto.FLOAT}
    (transposed,) = [n for n in optimised.graph.node if n.op_type == "ConvTranspose"]
    np.testing.assert_array_equal(floats[transposed.input[1]], noise(8, 8, 3, 3))

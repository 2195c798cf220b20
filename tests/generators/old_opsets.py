"""One small net per (operator, opset) for opsets 7 to 12, which the loader has to raise to 13: data on which that is judged.

The onnx package's own node tests hold models of current opsets only. A `Form` is one way an operator could be written in
a span of opsets; `old_nets()` writes it once in each opset of its span. onnxruntime runs opset 7 and newer, so every net
can be compared with itself as it came. Besides single operators: subgraphs, captured tensors, several domains, IR 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from tests.generators.run_plain import run_plain

FIRST, LAST = 7, 12
CUBE = "float[2,3,4] x"
PICTURE = "float[1,3,8,8] x"
Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Form:
    """One way to write an operator.

    Attributes:
        name: Operator and what is special, unique.
        body: ONNX text of the nodes; reads `x`, `z` and constants, makes `y`.
        since, until: Opsets in which it may be written so.
        inputs: Typed inputs of the graph.
        constants: Initializers.
        output: Element type of `y`.
    """

    name: str
    body: str
    since: int = FIRST
    until: int = LAST
    inputs: str = CUBE
    constants: Mapping[str, Array] = field(default_factory=dict)
    output: int = TensorProto.FLOAT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OldNet:
    """A net in an old opset with something to feed it.

    Attributes:
        name: `form` and opset.
        form: Its form's name.
        opset: 7 to 12.
        model: The net.
        feeds: One array an input.
    """

    name: str
    form: str
    opset: int
    model: ModelProto
    feeds: Mapping[str, Array]


def f32(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def i64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def noise(*shape: int) -> Array:
    """Seeded weights, the same for the same shape."""
    return (np.random.default_rng([11, *shape]).standard_normal(shape) * 0.5).astype(np.float32)


def _unary() -> Iterator[Form]:
    spans = {
        7: "Abs Ceil Cos Elu Exp Floor HardSigmoid Identity LeakyRelu Neg Reciprocal Relu Selu Sigmoid Sin "
        "Softplus Softsign Tanh",
        9: "Atan Erf Sign Sinh Cosh Asinh",
        10: "ThresholdedRelu",
        11: "Round",
        12: "Celu",
    }
    for since, names in spans.items():
        yield from (Form(name=op, body=f"y = {op}(x)", since=since) for op in names.split())
    for op in ("Sqrt", "Log"):
        yield Form(name=op, body=f"a = Abs(x) y = {op}(a)")


def _elementwise() -> Iterator[Form]:
    both = f"{CUBE}, float[3,1] z"
    for op in ("Add", "Sub", "Mul", "Div", "PRelu"):
        yield Form(name=op, body=f"y = {op}(x, z)", inputs=both)
    for op in ("Max", "Min", "Sum", "Mean"):
        yield Form(name=f"{op} of one shape", body=f"y = {op}(x, z, x)", inputs=f"{CUBE}, float[2,3,4] z")
        yield Form(name=f"{op} broadcast", body=f"y = {op}(x, z)", inputs=both, since=8)
    yield Form(name="Pow", body="a = Abs(x) y = Pow(a, k)", constants={"k": f32(1.5)})
    for op, since in (("Equal", 11), ("Greater", 7), ("Less", 7), ("GreaterOrEqual", 12), ("LessOrEqual", 12)):
        yield Form(name=op, body=f"y = {op}(x, z)", inputs=both, since=since, output=TensorProto.BOOL)
    yield Form(
        name="And Or Xor Not",
        body="a = Greater(x, k) b = Less(x, z) c = And(a, b) d = Or(a, c) e = Xor(d, b) y = Not(e)",
        inputs=both,
        constants={"k": f32(0.1)},
        output=TensorProto.BOOL,
    )
    yield Form(name="Where", body="a = Greater(x, k) y = Where(a, x, k)", since=9, constants={"k": f32(0.1)})
    yield Form(name="Mod", body="y = Mod<fmod=1>(x, k)", since=10, constants={"k": f32(0.7)})
    yield Form(name="Cast", body="a = Cast<to=7>(x) y = Cast<to=1>(a)")


def _attributes_that_became_inputs() -> Iterator[Form]:
    yield Form(name="Clip", body="y = Clip<min=-0.5,max=0.25>(x)", until=10)
    yield Form(name="Clip min", body="y = Clip<min=0.25>(x)", until=10)
    yield Form(name="Clip max", body="y = Clip<max=0.25>(x)", until=10)
    yield Form(name="Clip nothing", body="y = Clip(x)", until=10)
    yield Form(
        name="Clip float16",
        body="a = Cast<to=10>(x) b = Clip<min=-0.5,max=3.0e38>(a) y = Cast<to=1>(b)",
        until=10,
    )
    yield Form(
        name="Clip 11", body="y = Clip(x, k, m)", since=11, constants={"k": np.float32(-1), "m": np.float32(0.5)}
    )
    yield Form(name="Clip 11 max alone", body='y = Clip(x, "", m)', since=11, constants={"m": np.float32(0.5)})
    yield Form(name="Pad constant", body="y = Pad<pads=[0,1,2,1,0,0],value=0.5>(x)", until=10)
    yield Form(name="Pad negative", body="y = Pad<pads=[0,-1,0,0,0,-2]>(x)", until=10)
    yield Form(name="Pad reflect", body='y = Pad<mode="reflect",pads=[0,0,1,0,0,2]>(x)', until=10)
    yield Form(name="Pad edge", body='y = Pad<mode="edge",pads=[0,0,1,0,0,2]>(x)', until=10)
    yield Form(
        name="Pad float64",
        body="a = Cast<to=11>(x) b = Pad<pads=[0,1,2,1,0,0],value=0.5>(a) y = Cast<to=1>(b)",
        until=10,
    )
    yield Form(
        name="Pad 11", body="y = Pad(x, p, k)", since=11, constants={"p": i64(0, 1, 0, 0, 0, 1), "k": np.float32(2)}
    )
    yield Form(name="Slice", body="y = Slice<axes=[2,0],starts=[1,-1],ends=[-1,99]>(x)", until=9)
    yield Form(name="Slice without axes", body="y = Slice<starts=[0,1],ends=[2,3]>(x)", until=9)
    yield Form(
        name="Slice 10",
        body="y = Slice(x, s, e, a, t)",
        since=10,
        constants={"s": i64(3), "e": i64(-99), "a": i64(2), "t": i64(-2)},
    )
    yield Form(name="Split", body="a, b = Split<axis=2,split=[1,3]>(x) y = Concat<axis=2>(b, a)")
    yield Form(name="Split in equal parts", body="a, b = Split<axis=2>(x) y = Sub(a, b)")
    yield Form(name="Split without axis", body="a, b = Split(x) y = Sub(a, b)")
    yield Form(name="Squeeze", body="y = Squeeze<axes=[0,2]>(x)", inputs="float[1,3,1,4] x")
    yield Form(name="Squeeze all", body="y = Squeeze(x)", inputs="float[1,3,1,4] x")
    yield Form(name="Squeeze negative", body="y = Squeeze<axes=[-2]>(x)", inputs="float[1,3,1,4] x", since=11)
    yield Form(name="Unsqueeze", body="y = Unsqueeze<axes=[0,3]>(x)")
    yield Form(name="Unsqueeze negative", body="y = Unsqueeze<axes=[-1]>(x)", since=11)
    yield Form(name="ReduceSum", body="y = ReduceSum<axes=[1],keepdims=0>(x)")
    yield Form(name="ReduceSum all", body="y = ReduceSum<keepdims=1>(x)")
    yield Form(name="ReduceSum negative", body="y = ReduceSum<axes=[-1,0]>(x)", since=11)
    yield Form(name="TopK", body="y, i = TopK<k=2,axis=2>(x)", until=9)
    yield Form(name="TopK last axis", body="v, i = TopK<k=3>(x) y = Cast<to=1>(i)", until=9)
    yield Form(name="TopK 10", body="y, i = TopK<axis=1>(x, k)", since=10, until=10, constants={"k": i64(2)})
    yield Form(name="TopK 11", body="y, i = TopK<largest=0>(x, k)", since=11, constants={"k": i64(2)})
    yield Form(name="Dropout", body="y = Dropout<ratio=0.3>(x)", until=11)
    yield Form(name="Dropout with a mask nobody reads", body="y, m = Dropout<ratio=0.3>(x)", until=11)
    yield Form(name="Dropout 12", body="y = Dropout(x, r)", since=12, constants={"r": np.float32(0.3)})


def _softmax_family() -> Iterator[Form]:
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        yield Form(name=f"{op} without axis", body=f"y = {op}(x)")
        for axis in (0, 1, 2):
            yield Form(name=f"{op} axis {axis}", body=f"y = {op}<axis={axis}>(x)")
        yield Form(name=f"{op} axis -2", body=f"y = {op}<axis=-2>(x)", since=11)
        yield Form(name=f"{op} of a matrix", body=f"y = {op}<axis=1>(x)", inputs="float[5,7] x")
        yield Form(name=f"{op} of unknown sizes", body=f"y = {op}<axis=1>(x)", inputs="float[N,3,M] x")
    yield Form(name="Softmax float64", body="a = Cast<to=11>(x) b = Softmax<axis=1>(a) y = Cast<to=1>(b)")
    yield Form(
        name="Softmax of a name used twice", body="x_rows = Neg(x) a = Softmax<axis=1>(x_rows) y = Add(a, x_rows)"
    )


def _shapes_and_elements() -> Iterator[Form]:
    yield Form(name="Reshape", body="y = Reshape(x, s)", constants={"s": i64(0, -1)})
    yield Form(name="Flatten", body="y = Flatten<axis=2>(x)")
    yield Form(name="Transpose", body="y = Transpose<perm=[2,0,1]>(x)")
    yield Form(name="Concat", body="y = Concat<axis=1>(x, x)")
    yield Form(name="Tile", body="y = Tile(x, r)", constants={"r": i64(1, 2, 1)})
    yield Form(name="Expand", body="y = Expand(x, s)", since=8, inputs="float[3,1] x", constants={"s": i64(2, 3, 4)})
    yield Form(name="Shape Size", body="a = Shape(x) b = Size(x) c = Mul(a, b) y = Cast<to=1>(c)")
    yield Form(name="Constant", body="k = Constant<value=float[1] {2.5}>() y = Mul(x, k)")
    yield Form(
        name="ConstantOfShape", body="a = Shape(x) b = ConstantOfShape<value=float[1] {2}>(a) y = Add(x, b)", since=9
    )
    yield Form(name="Gather", body="y = Gather<axis=1>(x, i)", constants={"i": i64(2, 0)})
    yield Form(
        name="GatherElements",
        body="y = GatherElements(x, i)",
        since=11,
        inputs="float[3,2] x",
        constants={"i": np.array([[0, 2]])},
    )
    yield Form(name="GatherND", body="y = GatherND(x, i)", since=11, constants={"i": np.array([[0, 2], [1, 1]])})
    yield Form(
        name="Scatter",
        body="y = Scatter<axis=0>(x, i, u)",
        since=9,
        until=10,
        inputs="float[3,2] x",
        constants={"i": np.array([[1, 2]]), "u": np.array([[8, 9]], np.float32)},
    )
    yield Form(
        name="ScatterElements",
        body="y = ScatterElements<axis=1>(x, i, u)",
        since=11,
        inputs="float[3,2] x",
        constants={"i": np.array([[1]]), "u": np.array([[8]], np.float32)},
    )
    yield Form(
        name="ScatterND", body="y = ScatterND(x, i, u)", since=11, constants={"i": np.array([[1]]), "u": noise(1, 3, 4)}
    )
    for op in ("DepthToSpace", "SpaceToDepth"):
        yield Form(name=op, body=f"y = {op}<blocksize=2>(x)", inputs="float[1,8,4,6] x")
    yield Form(
        name="DepthToSpace CRD", body='y = DepthToSpace<blocksize=2,mode="CRD">(x)', since=11, inputs="float[1,8,4,6] x"
    )
    yield Form(
        name="OneHot",
        body="a = Cast<to=7>(x) y = OneHot<axis=1>(a, d, v)",
        since=9,
        constants={"d": i64(3), "v": f32(-1, 2)},
    )
    yield Form(name="NonZero", body="a = NonZero(x) y = Cast<to=1>(a)", since=9)
    yield Form(
        name="Compress", body="y = Compress<axis=2>(x, k)", since=9, constants={"k": np.array([True, False, True])}
    )
    yield Form(name="EyeLike", body="y = EyeLike<k=1>(x)", since=9, inputs="float[3,4] x")
    yield Form(name="CumSum", body="y = CumSum(x, a)", since=11, constants={"a": np.array(1)})
    yield Form(name="Range", body="r = Range(f, t, s) y = Add(x, r)", since=11,
               constants={"f": np.float32(0), "t": np.float32(4), "s": np.float32(1)})  # fmt: skip
    yield Form(name="ReverseSequence", body="y = ReverseSequence(x, n)", since=10, constants={"n": i64(1, 2, 0)})
    yield Form(name="Einsum", body='y = Einsum<equation="bij,bkj->bik">(x, x)', since=12)


def _reductions() -> Iterator[Form]:
    for kind in ("L1", "L2", "Max", "Mean", "Min", "Prod", "SumSquare", "LogSumExp"):
        op = f"Reduce{kind}"
        yield Form(name=op, body=f"y = {op}<axes=[0,2]>(x)")
        yield Form(name=f"{op} all", body=f"y = {op}<keepdims=0>(x)")
    for op in ("ArgMax", "ArgMin"):
        yield Form(name=op, body=f"y = {op}<axis=1>(x)", output=TensorProto.INT64)


def _layers() -> Iterator[Form]:
    conv = {"w": noise(4, 3, 3, 3), "b": noise(4)}
    yield Form(name="Conv", body="y = Conv<pads=[1,1,0,0],strides=[2,1]>(x, w, b)", inputs=PICTURE, constants=conv)
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield Form(
            name=f"Conv {auto}",
            body=f'y = Conv<auto_pad="{auto}",strides=[2,2]>(x, w)',
            inputs=PICTURE,
            constants={"w": conv["w"]},
        )
    transposed = {"w": noise(3, 4, 3, 3)}
    yield Form(
        name="ConvTranspose",
        body="y = ConvTranspose<strides=[2,2],output_padding=[1,0]>(x, w)",
        inputs=PICTURE,
        constants=transposed,
    )
    yield Form(
        name="ConvTranspose output_shape",
        body="y = ConvTranspose<strides=[2,2],output_shape=[16,15]>(x, w)",
        inputs=PICTURE,
        constants=transposed,
    )
    yield Form(name="MatMul", body="y = MatMul(x, w)", constants={"w": noise(4, 5)})
    gemm = {"w": noise(4, 7), "b": noise(4)}
    yield Form(
        name="Gemm", body="y = Gemm<transB=1,alpha=0.5,beta=2.0>(x, w, b)", inputs="float[5,7] x", constants=gemm
    )
    yield Form(
        name="Gemm without C",
        body="y = Gemm<transB=1>(x, w)",
        inputs="float[5,7] x",
        constants={"w": gemm["w"]},
        since=11,
    )
    norm = {"s": noise(3), "b": noise(3), "m": noise(3), "v": np.abs(noise(3)) + np.float32(0.1)}
    yield Form(
        name="BatchNormalization",
        body="y = BatchNormalization<epsilon=0.001>(x, s, b, m, v)",
        inputs=PICTURE,
        constants=norm,
    )
    yield Form(
        name="BatchNormalization spatial=1",
        body="y = BatchNormalization<spatial=1>(x, s, b, m, v)",
        inputs=PICTURE,
        constants=norm,
        until=8,
    )
    each = {n: (np.abs(noise(3, 4, 5)) + np.float32(0.1) if n == "v" else noise(3, 4, 5)) for n in norm}
    yield Form(
        name="BatchNormalization spatial=0",
        body="y = BatchNormalization<spatial=0,epsilon=0.01>(x, s, b, m, v)",
        inputs="float[2,3,4,5] x",
        constants=each,
        until=8,
    )
    yield Form(
        name="InstanceNormalization",
        body="y = InstanceNormalization(x, s, b)",
        inputs=PICTURE,
        constants={"s": norm["s"], "b": norm["b"]},
    )
    yield Form(name="LRN", body="y = LRN<size=3>(x)", inputs=PICTURE)
    yield Form(name="MeanVarianceNormalization", body="y = MeanVarianceNormalization(x)", inputs=PICTURE, since=9)
    yield Form(name="LpNormalization", body="y = LpNormalization<axis=1>(x)", inputs=PICTURE)
    for op in ("MaxPool", "AveragePool", "LpPool"):
        yield Form(name=op, body=f"y = {op}<kernel_shape=[3,3],strides=[2,2],pads=[1,1,1,1]>(x)", inputs=PICTURE)
        yield Form(
            name=f"{op} SAME_LOWER", body=f'y = {op}<kernel_shape=[2,2],auto_pad="SAME_LOWER">(x)', inputs=PICTURE
        )
    yield Form(
        name="AveragePool with padding",
        body="y = AveragePool<kernel_shape=[3,3],pads=[1,0,1,0],count_include_pad=1>(x)",
        inputs=PICTURE,
    )
    for op in ("MaxPool", "AveragePool"):
        yield Form(
            name=f"{op} ceil_mode",
            body=f"y = {op}<kernel_shape=[3,3],strides=[2,2],ceil_mode=1>(x)",
            inputs=PICTURE,
            since=10,
        )
    yield Form(
        name="MaxPool with indices",
        body="v, i = MaxPool<kernel_shape=[2,2],strides=[2,2]>(x) y = Cast<to=1>(i)",
        inputs=PICTURE,
        since=8,
    )
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield Form(name=op, body=f"y = {op}(x)", inputs=PICTURE)
    lstm = {"w": noise(1, 16, 4), "r": noise(1, 16, 4)}
    yield Form(name="LSTM", body="a, h, y = LSTM<hidden_size=4>(x, w, r)", inputs="float[5,2,4] x", constants=lstm)
    yield Form(
        name="LSTM with gaps",
        body='a, y = LSTM<hidden_size=4>(x, w, r, "", "", h)',
        inputs="float[5,2,4] x, float[1,2,4] h",
        constants=lstm,
    )
    yield Form(
        name="GRU",
        body="y = GRU<hidden_size=4,linear_before_reset=1>(x, w, r)",
        inputs="float[5,2,4] x",
        constants={"w": noise(1, 12, 4), "r": noise(1, 12, 4)},
    )
    boxes = {"r": np.array([[0, 0, 4, 4], [1, 1, 7, 6]], np.float32), "i": i64(0, 0)}
    yield Form(
        name="RoiAlign",
        body="y = RoiAlign<output_height=2,output_width=2>(x, r, i)",
        since=10,
        inputs=PICTURE,
        constants=boxes,
    )


def _resampling() -> Iterator[Form]:
    for mode in ("nearest", "linear"):
        for factor in ("2.0", "1.5"):
            yield Form(
                name=f"Upsample {mode} {factor}",
                body=f'y = Upsample<mode="{mode}",scales=[1.0,1.0,{factor},{factor}]>(x)',
                inputs=PICTURE,
                until=8,
            )
            scales = {"s": f32(1, 1, float(factor), float(factor))}
            yield Form(
                name=f"Upsample 9 {mode} {factor}",
                body=f'y = Upsample<mode="{mode}">(x, s)',
                inputs=PICTURE,
                since=9,
                until=9,
                constants=scales,
            )
        for factor in (2, 3, 1.5, 0.5, 0.7):
            scales = {"s": f32(1, 1, factor, factor)}
            yield Form(
                name=f"Resize 10 {mode} {factor}",
                body=f'y = Resize<mode="{mode}">(x, s)',
                inputs=PICTURE,
                since=10,
                until=10,
                constants=scales,
            )
    yield Form(
        name="Resize 10 grows and shrinks",
        body='y = Resize<mode="nearest">(x, s)',
        inputs=PICTURE,
        since=10,
        until=10,
        constants={"s": f32(1, 1, 2, 0.7)},
    )
    yield Form(
        name="Resize 10 of a Constant node",
        body="s = Constant<value=float[4] {1,1,0.7,0.7}>() y = Resize(x, s)",
        inputs=PICTURE,
        since=10,
        until=10,
    )
    yield Form(
        name="Resize 10 of computed scales",
        body="a = Shape(x) b = Cast<to=1>(a) c = Div(k, b) s = Concat<axis=0>(o, c) d = Slice(s, f, t)"
        ' y = Resize<mode="linear">(x, d)',
        inputs=PICTURE, since=10, until=10,
        constants={"k": f32(1, 3, 20, 12), "o": np.zeros(0, np.float32), "f": i64(0), "t": i64(4)},
    )  # fmt: skip
    yield Form(
        name="Upsample 9 of computed scales",
        body='s = Mul(k, k) y = Upsample<mode="nearest">(x, s)',
        inputs=PICTURE,
        since=9,
        until=9,
        constants={"k": f32(1, 1, 1.5, 1.5)},
    )
    yield Form(
        name="Resize 11",
        body='y = Resize<mode="cubic",coordinate_transformation_mode="align_corners">(x, r, s)',
        inputs=PICTURE,
        since=11,
        constants={"r": np.zeros(0, np.float32), "s": f32(1, 1, 2, 2)},
    )
    yield Form(
        name="Resize 11 sizes",
        body='y = Resize<mode="nearest",nearest_mode="floor">(x, r, r, s)',
        inputs=PICTURE,
        since=11,
        constants={"r": np.zeros(0, np.float32), "s": i64(1, 3, 12, 5)},
    )


def _unknown_nearest() -> Iterator[Form]:
    """Nearest rounds the other way on axes that shrink, and here nothing but the run knows which do."""
    for factors in ((1, 3, 20, 12), (1, 3, 5, 3), (1, 3, 16, 5)):
        yield Form(
            name=f"Resize 10 nearest of computed scales to {factors}",
            body="a = Shape(x) b = Cast<to=1>(a) s = Div(k, b) y = Resize(x, s)",
            inputs=PICTURE,
            since=10,
            until=10,
            constants={"k": f32(*factors)},
        )


def _subgraphs() -> Iterator[Form]:
    """Nodes in a body are as old as the others, and read tensors of the graph around them."""
    half = "a = Clip<min=-0.5,max=0.5>(x) b = Softmax<axis=1>(a)"
    other = "c = Squeeze<axes=[0]>(one) d = Mul(x, c)"
    yield Form(
        name="If",
        body=f"one = Neg(k) s = ReduceSum<keepdims=0>(x) q = Greater(s, t) y = If(q) <"
        f"then_branch = then () => (float[2,3,4] b) {{ {half} }}, "
        f"else_branch = other () => (float[2,3,4] d) {{ {other} }}>",
        until=10, constants={"k": f32(3), "t": np.float32(0)},
    )  # fmt: skip
    yield Form(
        name="If 11",
        body="s = ReduceSum<keepdims=0>(x) q = Greater(s, t) y = If(q) <"
        "then_branch = then () => (float[2,3,4] b) { b = Softmax<axis=1>(x) }, "
        "else_branch = other () => (float[2,3,4] d) { c = Unsqueeze<axes=[0]>(x) d = Squeeze<axes=[0]>(c) }>",
        since=11, constants={"t": np.float32(0)},
    )  # fmt: skip
    yield Form(
        name="Loop",
        body="y = Loop(n, c, x) <body = step (int64 i, bool p, float[2,3,4] v) => (bool p2, float[2,3,4] w) "
        "{ p2 = Identity(p) a = Clip<min=-0.9,max=0.9>(v) b = Softmax<axis=2>(a) w = Add(b, x) }>",
        until=10, constants={"n": np.array(3), "c": np.array(True)},
    )  # fmt: skip
    yield Form(
        name="Scan 9",
        body="f, y = Scan<num_scan_inputs=1, body = step (float[4] v, float[4] e) => (float[4] w, float[4] o) "
        "{ w = Add(v, e) a = Unsqueeze<axes=[0]>(w) b = Softmax<axis=1>(a) o = Squeeze<axes=[0]>(b) }>(k, x)",
        since=9, inputs="float[5,4] x", constants={"k": f32(1, 2, 3, 4)},
    )  # fmt: skip
    scan8 = (
        "Scan<num_scan_inputs=1{}, body = step (float[4] v, float[4] e) => (float[4] w, float[4] o) "
        '{{ w = Add(v, e) o = Mul(w, k) }}>("", z, x)'
    )
    for name, direction in (("forward", ""), ("backward", ", directions=[1]")):
        for made, what in (("f, y", "outputs"), ("y, o", "state")):
            yield Form(
                name=f"Scan 8 {name} {what}", body=f"{made} = {scan8.format(direction)}", since=8, until=8,
                inputs="float[3,5,4] x, float[3,4] z", constants={"k": f32(1, 2, 3, 4)},
            )  # fmt: skip


def _hazards() -> Iterator[Form]:
    yield Form(name="contrib operator", body="a = com.microsoft.Gelu(x) y = Clip<max=0.3>(a)", until=10)
    yield Form(
        name="names that steps might make",
        body="y_bounded = Neg(x) y_0 = Abs(y_bounded) a = Clip<max=0.3>(y_0) b = Softmax(a) y = Sub(b, y_0)",
        until=10,
    )
    yield Form(
        name="shared attributes",
        body="a = Unsqueeze<axes=[0]>(x) b = Unsqueeze<axes=[0]>(x) c = Add(a, b) y = Squeeze<axes=[0]>(c)",
    )
    yield Form(name="output that is read", body="q = Softmax<axis=1>(x) y = Clip<max=0.1>(q)", until=10)


FORMS: tuple[Form, ...] = (
    *_unary(),
    *_elementwise(),
    *_attributes_that_became_inputs(),
    *_softmax_family(),
    *_shapes_and_elements(),
    *_reductions(),
    *_layers(),
    *_resampling(),
    *_unknown_nearest(),
    *_subgraphs(),
    *_hazards(),
)


def old_nets() -> Iterator[OldNet]:
    """Every form in every opset of its span; opsets below 9 in IR 3, whose initializers are inputs too."""
    for form in FORMS:
        for opset in range(max(form.since, FIRST), min(form.until, LAST) + 1):
            yield _net(form, opset)


def _net(form: Form, opset: int) -> OldNet:
    domains = f'"" : {opset}' + (', "com.microsoft" : 1, "ai.onnx.ml" : 1' if "com.microsoft" in form.body else "")
    text = f"<ir_version: {4 if opset > 8 else 3}, opset_import: [{domains}]> g ({form.inputs}) => (float[1] y) {{ {form.body} }}"
    model = parser.parse_model(text)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", form.output, None))
    rng = np.random.default_rng(5)
    sizes = {"N": 2, "M": 4}
    feeds: dict[str, Array] = {}
    for value in model.graph.input:
        shape = [d.dim_value or sizes[d.dim_param] for d in value.type.tensor_type.shape.dim]
        feeds[value.name] = rng.normal(size=shape).astype(np.float32)
    for name, array in form.constants.items():
        tensor = numpy_helper.from_array(np.asarray(array), name)
        model.graph.initializer.append(tensor)
        if model.ir_version < 4:
            model.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))
    rank = run_plain(model, feeds)[0].ndim
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", form.output, [f"d{i}" for i in range(rank)]))
    return OldNet(name=f"{form.name}, opset {opset}", form=form.name, opset=opset, model=model, feeds=feeds)

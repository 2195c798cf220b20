"""Each operator with each of its attributes, alone in a net, against ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.fts_calibration.train.agreement import OPERATOR_TOLERANCE, check_agreement

pytest.importorskip("torch", reason="the torch extra is not installed")

Array = npt.NDArray[Any]
IR_VERSION = 10


@dataclass(frozen=True, kw_only=True)
class Case:
    """A node. Inputs are shapes of random float32 tensors, arrays (which become initializers), or None if left out."""

    op: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 20
    outputs: int = 1
    low: float = -3.0

    def __str__(self) -> str:
        given = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op}-{self.opset}({','.join(str(i).replace(chr(10), ' ') for i in self.inputs)};{given})"


def c(op: str, *inputs: Any, opset: int = 20, outputs: int = 1, low: float = -3.0, **attributes: Any) -> Case:
    return Case(op=op, inputs=inputs, attributes=attributes, opset=opset, outputs=outputs, low=low)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def scalar(value: float, dtype: Any = np.float32) -> Array:
    return np.array(value, dtype)


X, X1, X3 = (2, 4, 9, 7), (2, 4, 9), (1, 2, 5, 6, 7)
MASK = np.array([[True, False, True]])
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4) - 5

CONVOLUTION = (
    c("Conv", X, (6, 4, 3, 3)),
    c("Conv", X, (6, 4, 3, 3), (6,), pads=[1, 1, 1, 1], strides=[2, 1]),
    c("Conv", X, (6, 4, 3, 2), (6,), pads=[0, 1, 2, 0], dilations=[2, 1]),
    c("Conv", X, (8, 2, 3, 3), (8,), group=2, kernel_shape=[3, 3]),
    c("Conv", X, (4, 1, 3, 3), group=4, pads=[1, 1, 1, 1]),
    c("Conv", X, (6, 4, 4, 4), auto_pad="SAME_UPPER", strides=[2, 2]),
    c("Conv", X, (6, 4, 4, 4), auto_pad="SAME_LOWER", strides=[2, 3]),
    c("Conv", X, (6, 4, 2, 2), auto_pad="VALID"),
    c("Conv", X1, (6, 4, 3), (6,), pads=[2, 0]),
    c("Conv", X3, (3, 2, 2, 3, 3), (3,), pads=[1, 1, 1, 0, 1, 1], strides=[1, 2, 2]),
    c("ConvTranspose", X, (4, 6, 3, 3), (6,)),
    c("ConvTranspose", X, (4, 3, 3, 3), (6,), group=2, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    c("ConvTranspose", X, (4, 6, 3, 2), strides=[3, 2], pads=[0, 1, 2, 0], dilations=[2, 1]),
    c("ConvTranspose", X, (4, 6, 3, 3), (6,), strides=[3, 3], output_padding=[2, 2]),
    c("ConvTranspose", X, (4, 6, 3, 3), (6,), strides=[2, 2], output_shape=[18, 14]),
    c("ConvTranspose", X, (4, 6, 4, 4), strides=[2, 2], output_shape=[19, 15], auto_pad="SAME_UPPER"),
    c("ConvTranspose", X, (4, 6, 4, 3), strides=[2, 2], auto_pad="SAME_LOWER"),
    c("ConvTranspose", X1, (4, 2, 3), (2,), strides=[2]),
    c("ConvTranspose", X3, (2, 3, 2, 2, 2), strides=[2, 2, 2]),
)
LINEAR = (
    c("Gemm", (3, 4), (4, 5), (5,)),
    c("Gemm", (4, 3), (5, 4), (3, 1), transA=1, transB=1, alpha=0.5, beta=2.0),
    c("Gemm", (3, 4), (4, 5)),
    c("MatMul", (2, 3, 4), (4, 5)),
    c("MatMul", (2, 1, 3, 4), (3, 4, 2)),
    c("MatMul", (4,), (4, 5)),
    c("Einsum", (2, 3, 4), (2, 5, 4), equation="bij, bkj -> bki"),
    c("Einsum", (2, 3, 4), (4, 5), equation="...j,jk"),
)
NORMS = (
    c("BatchNormalization", X, (4,), (4,), (4,), np.array([1, 2, 0.5, 0.001], np.float32), epsilon=1e-3),
    c("BatchNormalization", (3, 4), (4,), (4,), (4,), np.array([1, 2, 0.5, 3], np.float32), opset=9, momentum=0.5),
    c("InstanceNormalization", X, (4,), (4,)),
    c("InstanceNormalization", X1, (4,), (4,), epsilon=0.1),
    c("LayerNormalization", X, (7,), (7,)),
    c("LayerNormalization", X, (4, 9, 7), axis=1, epsilon=1e-2),
    c("GroupNormalization", X, (2,), (2,), opset=18, num_groups=2),
    c("GroupNormalization", X, (4,), (4,), opset=21, num_groups=2, epsilon=0.1),
    c("RMSNormalization", X, (7,), opset=23),
    c("LRN", X, size=3),
    c("LRN", X, size=5, alpha=0.5, beta=0.6, bias=2.0),
    c("LpNormalization", X, axis=1, p=1),
    c("LpNormalization", X),
    c("MeanVarianceNormalization", X),
    c("MeanVarianceNormalization", X, axes=[1, 3]),
)
ACTIVATIONS = (
    *(c(op, X) for op in ("Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Gelu", "Elu", "Celu", "Selu")),
    *(c(op, X) for op in ("Mish", "Softplus", "Softsign", "Tanh", "ThresholdedRelu", "Softmax", "LogSoftmax")),
    c("LeakyRelu", X, alpha=-0.3),
    c("PRelu", X, (4, 1, 1)),
    c("PRelu", X, (7,)),
    c("PRelu", X, (1,)),
    c("HardSigmoid", X, alpha=1 / 6, beta=0.25),
    c("Gelu", X, approximate="tanh"),
    c("Elu", X, alpha=0.3),
    c("Celu", X, alpha=0.3),
    c("Selu", X, alpha=0.3, gamma=2.0),
    c("ThresholdedRelu", X, alpha=0.3),
    c("Clip", X, scalar(-1), scalar(0.5)),
    c("Clip", X, None, scalar(0.5)),
    c("Clip", X, scalar(-1)),
    c("Clip", X, opset=13),
    c("Clip", X, opset=9, min=-1.0, max=0.5),
    c("Clip", X, scalar(1), scalar(-1)),
    c("Softmax", X, axis=1),
    c("Softmax", X, opset=11),
    c("Softmax", X, opset=11, axis=2),
    c("Softmax", X, opset=11, axis=-1),
    c("LogSoftmax", X, opset=11, axis=0),
)
ARITHMETIC = (
    *(c(op, X, (4, 1, 1)) for op in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Equal", "Less", "Greater")),
    *(c(op, X) for op in ("Abs", "Neg", "Sign", "Exp", "Erf", "Floor", "Ceil", "Sin", "Cos", "Tan", "Atan", "IsNaN")),
    *(c(op, X, low=0.1) for op in ("Log", "Sqrt", "Reciprocal")),
    *(c(op, X, (7,), (4, 1, 1)) for op in ("Min", "Max", "Sum", "Mean")),
    c("Pow", X, scalar(2)),
    c("Pow", X, scalar(2, np.int64)),
    c("Pow", X, scalar(0.5), low=0.1),
    c("Pow", (2, 2), ints(3)),
    c("Div", ints(-7, 7, 7), ints(2, 2, -2)),
    c("Mod", ints(-7, 7, 7), ints(2, 4, -4)),
    c("Mod", X, (7,), fmod=1),
    *(c(op, floats(-0.9, 0, 0.3, 1)) for op in ("Asin", "Acos", "Sinh", "Cosh")),
    c("Round", floats(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.4)),
    c("Sign", floats(-2, 0, 3)),
    c("Where", MASK, (2, 3), (1, 3)),
    c("Not", MASK),
    *(c(op, MASK, ~MASK[:, ::-1]) for op in ("And", "Or", "Xor")),
    c("IsInf", floats(-np.inf, 1, np.inf), detect_negative=0),
    c("LessOrEqual", ints(1, 2, 3), ints(2, 2, 2)),
    c("GreaterOrEqual", ints(1, 2, 3), ints(2, 2, 2)),
)
SUMS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare")
REDUCTIONS = (
    *(c(op, X, ints(1, -1)) for op in SUMS),
    *(c(op, (2, 3, 4), keepdims=0) for op in SUMS),
    *(c(op, X, opset=11, axes=[2, 3], keepdims=0) for op in SUMS),
    *(c(op, X, low=0.1, opset=13, axes=[1]) for op in ("ReduceLogSum", "ReduceLogSumExp")),
    c("ReduceSum", X, noop_with_empty_axes=1),
    c("ReduceSumSquare", X, noop_with_empty_axes=1),
    c("ReduceSum", np.arange(6).reshape(2, 3), ints(0)),
    c("ReduceMax", np.arange(6).reshape(2, 3), ints(0)),
    c("ArgMax", X, axis=1),
    c("ArgMin", X, axis=-1, keepdims=0),
    c("ArgMax", floats(1, 3, 3, 2), select_last_index=1),
    c("CumSum", X, scalar(1, np.int64)),
    c("CumSum", X, scalar(2, np.int64), exclusive=1, reverse=1),
)
POOLS = (
    *(
        c(op, X, kernel_shape=[3, 2], **attributes)
        for op in ("MaxPool", "AveragePool")
        for attributes in (
            {},
            {"strides": [2, 2]},
            {"strides": [2, 2], "ceil_mode": 1},
            {"strides": [2, 3], "ceil_mode": 1, "pads": [1, 0, 1, 1]},
            {"strides": [9, 7], "ceil_mode": 1, "pads": [0, 0, 1, 1]},  # the last window would begin behind the input
            {"pads": [1, 0, 2, 1], "strides": [2, 1]},
            {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
            {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
            {"auto_pad": "VALID"},
        )
    ),
    c("MaxPool", X, kernel_shape=[3, 2], dilations=[2, 3], pads=[1, 1, 1, 1]),
    c("AveragePool", X, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    c("AveragePool", X, kernel_shape=[3, 3], pads=[1, 0, 2, 1], strides=[2, 2], count_include_pad=1, opset=11),
    c("AveragePool", X, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], count_include_pad=1, ceil_mode=1),
    c("MaxPool", X1, kernel_shape=[2], ceil_mode=1, strides=[2]),
    c("AveragePool", X1, kernel_shape=[2], pads=[1, 0]),
    c("MaxPool", X3, kernel_shape=[2, 2, 2]),
    c("AveragePool", X3, kernel_shape=[2, 2, 2], pads=[1, 0, 1, 0, 1, 1]),
    *(c(op, shape) for op in ("GlobalAveragePool", "GlobalMaxPool") for shape in (X, X1)),
)
PADS = (
    *(c("Pad", X, ints(0, 0, 2, 3, 0, 0, 1, 2), mode=mode) for mode in ("constant", "reflect", "edge")),
    *(c("Pad", X, ints(0, 1, -2, 3, 0, 2, 1, -2), mode=mode) for mode in ("constant", "reflect", "edge")),
    c("Pad", X, ints(0, 0, 2, 3, 0, 0, 1, 2), opset=19, mode="wrap"),
    c("Pad", X, ints(0, 1, 2, 0, 0, 0, 0, 4), scalar(1.5)),
    c("Pad", X, ints(2, 3, 1, 0), None, ints(-1, 1), opset=18, mode="edge"),
    c("Pad", X, opset=9, pads=[0, 0, 1, 1, 0, 0, 2, 0], value=0.5),
    c("Pad", (2, 8), ints(1, 2, 0, 3), mode="reflect"),
)
UP, DOWN, ODD = floats(1, 1, 2, 3), floats(1, 1, 0.5, 0.4), floats(1, 1, 1.7, 0.6)
TRANSFORMS = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
RESIZES = (
    *(
        c("Resize", X, None, scales, mode=mode, coordinate_transformation_mode=transform)
        for mode in ("nearest", "linear", "cubic")
        for transform in TRANSFORMS
        for scales in (UP, DOWN, ODD)
    ),
    *(
        c("Resize", X, None, scales, mode="nearest", coordinate_transformation_mode=transform, nearest_mode=nearest)
        for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        for transform in ("half_pixel", "asymmetric")
        for scales in (UP, DOWN, ODD)
    ),
    c("Resize", X, None, None, ints(2, 4, 20, 5), mode="linear"),
    c("Resize", X, None, None, ints(2, 4, 1, 5), mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
    c("Resize", X, None, None, ints(2, 4, 1, 1), mode="linear", coordinate_transformation_mode="align_corners"),
    c("Resize", X, None, None, ints(20, 5), opset=18, mode="cubic", axes=[2, 3]),
    c("Resize", X, None, ODD, opset=19, mode="linear", coordinate_transformation_mode="half_pixel_symmetric"),
    c("Resize", X, None, UP, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
    *(c("Resize", X, s, opset=10, mode=mode) for mode in ("nearest", "linear") for s in (UP, DOWN, ODD)),
)
REARRANGEMENTS = (
    c("Concat", X, (2, 1, 9, 7), axis=1),
    c("Concat", X, X, axis=-1),
    c("Split", X, outputs=3, opset=18, axis=2, num_outputs=3),
    c("Split", X, outputs=2, opset=18, axis=3, num_outputs=2),
    c("Split", X, ints(1, 3), outputs=2, axis=1),
    c("Split", X, outputs=2, opset=11, axis=1, split=[3, 1]),
    c("Split", X, outputs=2, opset=11, axis=1),
    c("Slice", X, ints(1, -5), ints(2**62, -1), ints(2, 3)),
    c("Slice", X, ints(-1, 1), ints(-(2**62), 6), ints(2, 3), ints(-2, 2)),
    c("Slice", X, ints(1, 1), ints(2, 3)),
    c("Slice", X, opset=9, starts=[1, 0], ends=[3, -1], axes=[1, 3]),
    c("Reshape", X, ints(0, -1, 7)),
    c("Reshape", X, ints(2, 2, 2, 63)),
    *(c("Flatten", X, axis=axis) for axis in (0, 1, 2, -1, 4)),
    c("Squeeze", (1, 3, 1), ints(-1)),
    c("Squeeze", (1, 3, 1)),
    c("Squeeze", (1, 3, 1), opset=11, axes=[0]),
    c("Unsqueeze", (2, 3), ints(0, -1)),
    c("Unsqueeze", (2, 3), opset=11, axes=[3, 1]),
    c("Transpose", X, perm=[0, 2, 3, 1]),
    c("Transpose", X),
    c("Expand", (3, 1), ints(2, 1, 4)),
    c("Tile", (2, 3), ints(2, 3)),
    c("DepthToSpace", (1, 8, 2, 3), blocksize=2),
    c("DepthToSpace", (1, 8, 2, 3), blocksize=2, mode="CRD"),
    c("SpaceToDepth", (1, 2, 4, 6), blocksize=2),
    c("Identity", X),
    c("Dropout", X),
    c("Dropout", X, opset=11, ratio=0.3),
)
INDEXING = (
    c("Gather", X, ints(0, -1), axis=1),
    c("Gather", X, np.array([[0, 2], [-3, 1]], np.int32), axis=-2),
    c("Gather", X, scalar(1, np.int64)),
    c("GatherElements", TABLE, np.array([[0, -1], [2, 1], [1, 1]]), axis=1),
    c("Trilu", TABLE),
    c("Trilu", TABLE, scalar(1, np.int64), upper=0),
)
SHAPES = (
    c("Cast", floats(-2.7, -0.5, 0, 2.7), to=onnx.TensorProto.INT64),
    c("Cast", floats(-2.7, 0, 2.7), to=onnx.TensorProto.BOOL),
    c("Cast", ints(1, 2), to=onnx.TensorProto.FLOAT),
    c("Cast", X, to=onnx.TensorProto.FLOAT16),
    c("Cast", X, to=onnx.TensorProto.DOUBLE),
    c("Shape", X),
    c("Shape", X, opset=15, start=1, end=-1),
    c("Size", X),
    c("ConstantOfShape", ints(2, 3)),
    c("ConstantOfShape", ints(2, 3), value=helper.make_tensor("v", onnx.TensorProto.INT64, [1], [7])),
    c("Range", scalar(1, np.int64), scalar(8, np.int64), scalar(3, np.int64)),
    c("Range", scalar(1), scalar(-2), scalar(-0.5)),
)
CASES = (
    *CONVOLUTION,
    *LINEAR,
    *NORMS,
    *ACTIVATIONS,
    *ARITHMETIC,
    *REDUCTIONS,
    *POOLS,
    *PADS,
    *RESIZES,
    *REARRANGEMENTS,
    *INDEXING,
    *SHAPES,
)


def model_of(case: Case) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The node alone in a net, and something to feed it with."""
    rng = np.random.default_rng(5)
    names, infos, initializers, feeds = [], [], [], {}
    for i, given in enumerate(case.inputs):
        name = "" if given is None else f"in{i}"
        names.append(name)
        if isinstance(given, tuple):
            infos.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, given))
            feeds[name] = rng.uniform(case.low, 3, given).astype(np.float32)
        elif given is not None:
            initializers.append(numpy_helper.from_array(given, name))
    outputs = [f"out{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, **case.attributes)
    infos_out = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([node], "one_node", infos, infos_out, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=IR_VERSION)
    return model, feeds


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_computes_what_onnxruntime_does(case: Case) -> None:
    model, feeds = model_of(case)
    check_agreement(model, [feeds], OPERATOR_TOLERANCE)


def test_every_operator_of_the_table_has_a_case() -> None:
    from fts_calibration.train.operators import OPERATORS

    assert set(OPERATORS) - {case.op for case in CASES} == set()

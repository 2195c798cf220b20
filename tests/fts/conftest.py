"""Little nets and bundles of them, written on the spot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from fts.bundle.tensors_npz import npz_bytes
from fts.bundle.write import write_bundle
from fts.vocabulary.evidence import Evidence
from fts.vocabulary.manifest import (
    FORMAT_VERSION,
    PORTABLE_MEMBER,
    EngineEntry,
    InputEntry,
    Manifest,
    OutputEntry,
    Requirements,
    RungEntry,
    encoded_member,
)
from fts.vocabulary.plan import NodePlan, Plan
from fts.vocabulary.preprocessing import Preprocessing
from fts.vocabulary.tensor_spec import TensorSpec

SIZE = 32

NEGATIVE = f"""<ir_version: 8, opset_import: ["" : 13]>
negative (float[1,3,{SIZE},{SIZE}] x) => (float[1,3,{SIZE},{SIZE}] y) <float one = {{1.0}}> {{ y = Sub (one, x) }}"""

AGED = f"""<ir_version: 8, opset_import: ["" : 13]>
aged (float[1,3,{SIZE},{SIZE}] x, float[1,1] age) => (float[1,3,{SIZE},{SIZE}] y, float[1,1] twice) {{
  y = Mul (x, age)
  twice = Add (age, age)
}}"""


def onnx_bytes(text: str) -> bytes:
    """A serialized model from ONNX text."""
    return parser.parse_model(text).SerializeToString()


def pointwise_qdq(weights: np.ndarray, *, encoded: bool) -> bytes:
    """A 1x1 convolution (1, C, 32, 32) -> (1, 3, 32, 32) of s8 weights: in FP32, or as Q/DQ in whole units.

    Both compute the same but for the rounding of x to 1/255 and of y to `y_step`: the weights are integers.
    """
    channels = weights.shape[1]
    y_step = np.float32(channels * 127 / 255)
    shape = [1, channels, SIZE, SIZE]
    constants = {
        "w8": weights.astype(np.int8).reshape(3, channels, 1, 1),
        "w_scale": np.ones(3, np.float32),
        "w_zero": np.zeros(3, np.int8),
        "w": weights.astype(np.float32).reshape(3, channels, 1, 1),
        "x_scale": np.float32(1 / 255),
        "y_scale": y_step,
        "zero": np.uint8(0),
        "y_scale_in": y_step,
    }
    if encoded:
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "x_scale", "zero"], ["xq"]),
            helper.make_node("DequantizeLinear", ["xq", "x_scale", "zero"], ["xd"]),
            helper.make_node("DequantizeLinear", ["w8", "w_scale", "w_zero"], ["wd"], axis=0),
            helper.make_node("Conv", ["xd", "wd"], ["c"]),
            helper.make_node("QuantizeLinear", ["c", "y_scale", "zero"], ["cq"]),
            helper.make_node("DequantizeLinear", ["cq", "y_scale", "zero"], ["cd"]),
            helper.make_node("Div", ["cd", "y_scale_in"], ["y"]),
        ]
    else:
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Div", ["c", "y_scale"], ["y"])]
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "pointwise",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items() if k in used],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return model.SerializeToString()


def image_input(name: str = "x", channels: int = 3, fit: str = "stretch", **spec: Any) -> InputEntry:
    """A picture input of the little nets."""
    return InputEntry(
        spec=TensorSpec(name=name, dtype="float32", shape=(1, channels, SIZE, SIZE)),
        kind="image",
        preprocessing=Preprocessing(fit=fit),  # type: ignore[arg-type]
    )


def tensor_input(name: str, shape: tuple[int, ...], default: Any = None, dtype: str = "float32") -> InputEntry:
    """A raw tensor input."""
    return InputEntry(spec=TensorSpec(name=name, dtype=dtype, shape=shape), kind="tensor", default=default)


def image_output(name: str = "y", high: float = 1.0) -> OutputEntry:
    """A picture output in [0, high]."""
    spec = TensorSpec(name=name, dtype="float32", shape=(1, 3, SIZE, SIZE))
    return OutputEntry(spec=spec, kind="image", range=(0.0, high))


def tensor_output(name: str, shape: tuple[int, ...]) -> OutputEntry:
    """A raw tensor output."""
    return OutputEntry(spec=TensorSpec(name=name, dtype="float32", shape=shape), kind="tensor")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A bundle to write; the default is a negative of a picture, with one encoded and one portable engine."""

    portable: bytes = field(default_factory=lambda: onnx_bytes(NEGATIVE))
    encoded: bytes | None = field(default_factory=lambda: onnx_bytes(NEGATIVE))
    target: str = "cpu-int8"
    kind: str = "onnxruntime-cpu"
    isa: tuple[str, ...] = ()
    onnxruntime: str = "1.19"
    inputs: tuple[InputEntry, ...] = field(default_factory=lambda: (image_input(),))
    outputs: tuple[OutputEntry, ...] = field(default_factory=lambda: (image_output(),))
    met: bool = True
    extra: Mapping[str, bytes] = field(default_factory=dict)

    def manifest(self) -> Manifest:
        """The manifest, without its list of members."""
        portable = EngineEntry(kind="onnxruntime-cpu", member=PORTABLE_MEMBER, state="built", precision="fp32")
        own = EngineEntry(
            kind=self.kind,
            member=encoded_member(self.target),
            state="built",
            precision="int8",
            requires=Requirements(isa=self.isa, onnxruntime=self.onnxruntime),
            evidence=Evidence(tag="measured", by="onnxruntime 1.32.0 CPUExecutionProvider"),
        )
        return Manifest(
            format_version=FORMAT_VERSION,
            target=self.target,
            requires=Requirements(isa=self.isa, onnxruntime=self.onnxruntime),
            members=(),
            inputs=self.inputs,
            outputs=self.outputs,
            rungs=(RungEntry(id="32x32", height_px=SIZE, width_px=SIZE, member=PORTABLE_MEMBER),),
            engines=(own, portable) if self.encoded is not None else (portable,),
            plan=Plan(
                target=self.target,
                dialect="onnxruntime-x86-vnni",
                nodes=(
                    NodePlan(name="n", op_type="Sub", precision="fp32", engine="onnxruntime-cpu", reason="no kernel"),
                ),
            ),
            quality={
                "budget": "psnr>=30",
                "met": self.met,
                "split": "verify",
                "metrics": [{"output": "y", "metric": "psnr", "min": 28.5, "mean": 31.25, "n": 3}],
            },
            golden={"samples": 1, "limits": {"y": 0.01}},
            provenance={"tools": {"fts": "0.1.0", "onnxruntime": "1.32.0"}, "versions_note": "plain text"},
        )

    def members(self) -> dict[str, bytes]:
        """Every member but the manifest."""
        members = {PORTABLE_MEMBER: self.portable, **self.extra}
        if self.encoded is not None:
            members[encoded_member(self.target)] = self.encoded
        members["golden.npz"] = npz_bytes({"in/0/x": np.zeros((1, 3, 2, 2), np.float32)})
        members["report/report.json"] = b'{"schema_version": 1}\n'
        return members

    def write(self, path: Path) -> Path:
        """Write the bundle."""
        write_bundle(path, self.manifest(), self.members())
        return path


@dataclass(frozen=True)
class Kit:
    """What tests of fts build with."""

    Recipe = Recipe
    NEGATIVE = NEGATIVE
    AGED = AGED
    SIZE = SIZE
    onnx_bytes = staticmethod(onnx_bytes)
    pointwise_qdq = staticmethod(pointwise_qdq)
    image_input = staticmethod(image_input)
    tensor_input = staticmethod(tensor_input)
    image_output = staticmethod(image_output)
    tensor_output = staticmethod(tensor_output)

    def aged(self, default: Any = None, **changes: Any) -> Recipe:
        """A net with a picture and a number: y = x * age, and twice the age as a tensor."""
        net = onnx_bytes(AGED)
        return Recipe(
            portable=net,
            encoded=net,
            inputs=(image_input(), tensor_input("age", (1, 1), default)),
            outputs=(image_output(), tensor_output("twice", (1, 1))),
            **changes,
        )

    def saturating(self, **changes: Any) -> Recipe:
        """A net whose sums saturate at 16 bits on x86 without VNNI."""
        weights = np.full((3, 3), 127)
        return Recipe(
            portable=pointwise_qdq(weights, encoded=False), encoded=pointwise_qdq(weights, encoded=True), **changes
        )


@pytest.fixture(scope="session")
def kit() -> Kit:
    return Kit()


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A sound bundle."""
    return Recipe().write(tmp_path / "net.cpu-int8.fts")


@pytest.fixture
def frame() -> np.ndarray:
    """A BGR frame of 48 rows and 64 columns."""
    return np.random.default_rng(7).integers(0, 256, (48, 64, 3), dtype=np.uint8)

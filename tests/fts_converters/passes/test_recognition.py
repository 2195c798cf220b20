"""Passes do what they are for: each spelling becomes the one operator, and each refusal says why.

That nothing changes in meaning is the business of `test_laws.py`; here the values are compared once more, all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from tests.generators.run_plain import run_plain

from fts.errors import UsageError
from fts_converters.model import Model, model_from_proto
from fts_converters.passes import CleanResult, clean

# Of the output's largest magnitude: float32 sums in another order.
ROUNDING = 1e-5


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """A graph in ONNX text, constants that are filled in by name, and the operators it should become."""

    id: str
    text: str
    becomes: tuple[str, ...]
    opset: int = 20
    constants: dict[str, np.ndarray] = field(default_factory=dict)


def noise(*shape: int, low: float = -1.0, high: float = 1.0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def f(value: float) -> np.ndarray:
    return np.float32(value)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


EPS = {"two": f(2), "eps": f(1e-5)}
BN = {k: noise(4, low=0.5, high=2, seed=i) for i, k in enumerate(("g", "b", "m", "v"))}
CONV = {"w": noise(4, 3, 3, 3)}

SPELLINGS = (
    Spelling(
        id="layer norm by Pow and Div",
        text="""g (float[1,5,8] x) => (float[1,5,8] y) { m=ReduceMean<axes=[-1]>(x) d=Sub(x,m) q=Pow(d,two)
            v=ReduceMean<axes=[-1]>(q) e=Add(v,eps) s=Sqrt(e) n=Div(d,s) z=Mul(n,g) y=Add(z,b) }""",
        constants={**EPS, "g": noise(8), "b": noise(8, seed=1)},
        becomes=("LayerNormalization",),
        opset=17,
    ),
    Spelling(
        id="instance norm by Mul and Reciprocal",
        text="""g (float[1,4,6,6] x) => (float[1,4,6,6] y) { m=ReduceMean<axes=[2,3]>(x) d=Sub(x,m) q=Mul(d,d)
            v=ReduceMean<axes=[2,3]>(q) e=Add(v,eps) s=Sqrt(e) i=Reciprocal(s) n=Mul(i,d) y=Mul(n,g) }""",
        constants={"eps": f(1e-5), "g": noise(4, 1, 1)},
        becomes=("InstanceNormalization",),
        opset=17,
    ),
    Spelling(
        id="instance norm by Div of one, with live parameters",
        text="""g (float[1,4,6,6] x, float[1,4,1,1] g, float[1,4,1,1] b) => (float[1,4,6,6] y) {
            m=ReduceMean<axes=[2,3]>(x) d=Sub(x,m) q=Pow(d,two) v=ReduceMean<axes=[2,3]>(q) e=Add(v,eps) s=Sqrt(e)
            i=Div(one,s) n=Mul(d,i) z=Mul(n,g) y=Add(z,b) }""",
        constants={**EPS, "one": f(1)},
        becomes=("Reshape", "Reshape", "InstanceNormalization"),
        opset=17,
    ),
    Spelling(
        id="hard swish through a division",
        text="g (float[1,4] x) => (float[1,4] y) { a=Add(x,k3) c=Clip(a,k0,k6) h=Div(c,k6) y=Mul(x,h) }",
        constants={"k3": f(3), "k0": f(0), "k6": f(6)},
        becomes=("HardSwish",),
    ),
    Spelling(
        id="hard swish divided last",
        text="g (float[1,4] x) => (float[1,4] y) { a=Add(x,k3) c=Clip(a,k0,k6) h=Mul(x,c) y=Div(h,k6) }",
        constants={"k3": f(3), "k0": f(0), "k6": f(6)},
        becomes=("HardSwish",),
    ),
    Spelling(
        id="hard sigmoid",
        text="g (float[1,4] x) => (float[1,4] y) { a=Add(x,k3) c=Clip(a,k0,k6) y=Div(c,k6) }",
        constants={"k3": f(3), "k0": f(0), "k6": f(6)},
        becomes=("HardSigmoid",),
    ),
    Spelling(
        id="gelu by erf",
        text="g (float[1,9] x) => (float[1,9] y) { a=Div(x,s) e=Erf(a) p=Add(e,o) q=Mul(x,p) y=Mul(q,h) }",
        constants={"s": f(2**0.5), "o": f(1), "h": f(0.5)},
        becomes=("Gelu",),
    ),
    Spelling(
        id="gelu by tanh",
        text="""g (float[1,9] x) => (float[1,9] y) { c3=Pow(x,t) c=Mul(k,c3) i=Add(x,c) j=Mul(i,r) e=Tanh(j) p=Add(e,o)
            q=Mul(h,x) y=Mul(q,p) }""",
        constants={"t": f(3), "k": f(0.044715), "r": f((2 / np.pi) ** 0.5), "o": f(1), "h": f(0.5)},
        becomes=("Gelu",),
    ),
    Spelling(
        id="pixel shuffle",
        text="g (float[1,8,3,5] x) => (float[1,2,6,10] y) { s=Reshape(x,a) t=Transpose<perm=[0,1,4,2,5,3]>(s) y=Reshape(t,b) }",
        constants={"a": ints(1, 2, 2, 2, 3, 5), "b": ints(1, 2, 6, 10)},
        becomes=("DepthToSpace",),
    ),
    Spelling(
        id="depth to space of TensorFlow",
        text="g (float[1,8,3,5] x) => (float[1,2,6,10] y) { s=Reshape(x,a) t=Transpose<perm=[0,3,4,1,5,2]>(s) y=Reshape(t,b) }",
        constants={"a": ints(1, 2, 2, 2, 3, 5), "b": ints(1, 2, 6, 10)},
        becomes=("DepthToSpace",),
    ),
    Spelling(
        id="space to depth",
        text="g (float[1,2,6,10] x) => (float[1,8,3,5] y) { s=Reshape(x,a) t=Transpose<perm=[0,3,5,1,2,4]>(s) y=Reshape(t,b) }",
        constants={"a": ints(1, 2, 3, 2, 5, 2), "b": ints(1, 8, 3, 5)},
        becomes=("SpaceToDepth",),
    ),
    Spelling(
        id="weighted sum of styles",
        text="g (float[26] x) => (float[8] y) { u=Unsqueeze(x,a) p=Mul(u,w) y=ReduceSum<keepdims=0>(p,z) }",
        constants={"a": ints(1), "w": noise(26, 8), "z": ints(0)},
        becomes=("MatMul",),
    ),
    Spelling(
        id="pad, norm, factor and shift go into the convolution",
        text="""g (float[1,3,6,6] x) => (float[1,4,6,6] y) { p=Pad(x,pads) c=Conv(p,w) n=BatchNormalization(c,g,b,m,v)
            q=Mul(n,k) y=Sub(h,q) }""",
        constants={**CONV, **BN, "pads": ints(0, 0, 1, 1, 0, 0, 1, 1), "k": noise(1, 4, 1, 1), "h": f(0.3)},
        becomes=("Conv",),
    ),
    Spelling(
        id="norm behind a grouped transposed convolution",
        text="""g (float[1,4,6,6] x) => (float[1,4,13,13] y) { c=ConvTranspose<strides=[2,2],group=2>(x,w)
            y=BatchNormalization(c,g,b,m,v) }""",
        constants={"w": noise(4, 2, 3, 3), **BN},
        becomes=("ConvTranspose",),
    ),
    Spelling(
        id="bias in front of an instance norm",
        text="g (float[1,3,8,8] x) => (float[1,4,6,6] y) { c=Conv(x,w,b) y=InstanceNormalization(c,g,v) }",
        constants={**CONV, **BN},
        becomes=("Conv", "InstanceNormalization"),
    ),
    Spelling(
        id="branch that is taken",
        text="""g (float[1,4] x) => (float[1,4] y) { a=Mul(x,two) y=If(c)<
            then_branch=t () => (float[1,4] q) { z=Add(a,x) q=Relu(z) }, else_branch=e () => (float[1,4] r) { r=Neg(a) }> }""",
        constants={"two": f(2), "c": np.array(True)},
        becomes=("Mul", "Add", "Relu"),
    ),
    Spelling(
        id="chains that cancel",
        text="""g (float[1,4] x) => (float[1,4] y) { a=Identity(x) b=Transpose<perm=[1,0]>(a) c=Transpose<perm=[1,0]>(b)
            d=Cast<to=1>(c) e=Reshape(d,s) h=Reshape(e,t) y=Relu(h) }""",
        constants={"s": ints(2, 2), "t": ints(1, 4)},
        becomes=("Relu",),
    ),
    Spelling(
        id="operands without elements",
        text="g (float[1,3,8,8] x) => (float[1,4,6,6] y) { h=Concat<axis=1>(x,k) y=Conv(h,w) }",
        constants={**CONV, "k": noise(1, 0, 8, 8)},
        becomes=("Conv",),
    ),
    Spelling(
        id="the same twice",
        text="g (float[1,4] x) => (float[1,4] y) { a=Exp(x) b=Exp(x) p=Neg(a) q=Neg(b) y=Add(p,q) }",
        becomes=("Exp", "Neg", "Add"),
    ),
)  # fmt: skip


def net(spelling: Spelling) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {spelling.opset}]>\n{spelling.text}')
    for name, value in spelling.constants.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    onnx.checker.check_model(model)
    return model


def cleaned(model: onnx.ModelProto, **options: object) -> tuple[Model, CleanResult]:
    own = model_from_proto(model, source="net", source_sha256="")
    return own, clean(own, **options)  # type: ignore[arg-type]


def refusals(result: CleanResult, name: str) -> list[str]:
    return [r.reason for record in result.records if record.name == name for r in record.refusals]


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda s: s.id)
def test_a_spelling_becomes_the_operator(spelling: Spelling) -> None:
    model = net(spelling)
    own, result = cleaned(model)
    assert sorted(n.op for n in own.graph.nodes) == sorted(spelling.becomes)
    assert result.is_changed
    feeds = {
        i.name: noise(*(d.dim_value for d in i.type.tensor_type.shape.dim), low=-4, high=4, seed=9)
        for i in model.graph.input
    }
    for a, b in zip(run_plain(model, feeds), run_plain(own.to_proto(), feeds), strict=True):
        assert float(np.abs(a - b).max()) <= ROUNDING * float(np.abs(a).max())


def test_the_bias_in_front_of_a_norm_is_gone() -> None:
    own, _ = cleaned(net(next(s for s in SPELLINGS if s.id.startswith("bias in front"))))
    (conv,) = (n for n in own.graph.nodes if n.op == "Conv")
    assert len(conv.inputs) == 2


@pytest.mark.parametrize(
    ("text", "constants", "opset", "name", "reason"),
    [
        (
            "g (float[1,3,8,8] x) => (float[1,4,6,6] y, float[1,4,6,6] c) { c=Conv(x,w) y=BatchNormalization(c,g,b,m,v) }",
            {**CONV, **BN}, 17, "fold_batchnorm", "read by others too",
        ),
        (
            """g (float[1,2,6,6] x, float[1,2,6,6] z) => (float[1,4,6,6] y) { c=Concat<axis=1>(x,z)
                y=BatchNormalization(c,g,b,m,v) }""",
            BN, 17, "fold_batchnorm", "joins 'x' too, which no weights make",
        ),
        (
            "g (float[1,3,6,6] x) => (float[1,4,6,6] y) { p=Pad<mode=\"reflect\">(x,pads) y=Conv(p,w) }",
            {**CONV, "pads": ints(0, 0, 1, 1, 0, 0, 1, 1)}, 17, "fold_pad_into_conv", "it pads by reflect",
        ),
        (
            "g (float[1,3,6,6] x) => (float[1,4,6,6] y) { p=Pad(x,pads,one) y=Conv(p,w) }",
            {**CONV, "pads": ints(0, 0, 1, 1, 0, 0, 1, 1), "one": f(1)}, 17, "fold_pad_into_conv", "it pads with 1",
        ),
        (
            """g (float[1,4] x, bool c) => (float[1,4] y) { y=If(c)<then_branch=t () => (float[1,4] q) { q=Relu(x) },
                else_branch=e () => (float[1,4] r) { r=Neg(x) }> }""",
            {}, 17, "inline_if", "computed from the input",
        ),
    ],
)  # fmt: skip
def test_what_is_left_alone_has_a_reason(
    text: str, constants: dict[str, np.ndarray], opset: int, name: str, reason: str
) -> None:
    _, result = cleaned(net(Spelling(id="", text=text, constants=constants, opset=opset, becomes=())))
    assert any(reason in r for r in refusals(result, name)), refusals(result, name)


def test_inner_values_that_others_read_keep_a_norm_spelled_out() -> None:
    text = """g (float[1,4,6,6] x) => (float[1,4,6,6] y, float[1,4,1,1] s) { m=ReduceMean<axes=[2,3]>(x) d=Sub(x,m) q=Mul(d,d)
        v=ReduceMean<axes=[2,3]>(q) e=Add(v,eps) s=Sqrt(e) y=Div(d,s) }"""
    own, _ = cleaned(net(Spelling(id="", text=text, constants={"eps": f(1e-5)}, opset=17, becomes=())))
    assert "InstanceNormalization" not in [n.op for n in own.graph.nodes]


def test_a_pass_that_is_skipped_does_nothing_and_an_unknown_one_is_refused() -> None:
    spelling = next(s for s in SPELLINGS if s.id == "pixel shuffle")
    own, result = cleaned(net(spelling), skip=["recognise_pixel_shuffle", "merge_rearrangements"])
    assert [n.op for n in own.graph.nodes] == ["Reshape", "Transpose", "Reshape"]
    assert "recognise_pixel_shuffle" not in [r.name for r in result.records]
    with pytest.raises(UsageError, match="recognise_pixel_shuffel: there is no such pass; passes: remove_dead_code"):
        cleaned(net(spelling), skip=["recognise_pixel_shuffel"])

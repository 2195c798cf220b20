"""Lowering for an engine: only what it lacks, only what helps, and a list of the rest that says what to do."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest
from onnx import parser
from tests.generators.laws import check_law
from tests.generators.lowering_cases import KINDS, lowering_case
from tests.generators.random_graphs import Case

from fts_converters.lower import LOWERINGS, TARGETS, lower
from fts_converters.lower.unsupported import unsupported_nodes
from fts_converters.model import Model, model_from_proto
from fts_devices.op_support import engine_names, load_engine_ops
from fts_devices.profiles import target_names


def _model(text: str) -> Model:
    proto = onnx.shape_inference.infer_shapes(parser.parse_model(text), data_prop=True)
    return model_from_proto(proto, source="net", source_sha256="")


def _net(body: str, *, opset: int = 18, inputs: str = "float[1,4,6,6] x", outputs: str = "float[1,4,6,6] y") -> str:
    return f'<ir_version: 8, opset_import: ["" : {opset}]> net ({inputs}) => ({outputs}) {{ {body} }}'


def _source(case: Case) -> Model:
    return model_from_proto(case.model, source="case", source_sha256="")


@pytest.mark.parametrize("name", LOWERINGS)
def test_all_lowerings_of_an_engine_together_keep_the_function(name: str) -> None:
    def run(model: Model) -> bool:
        before = model.to_proto().SerializeToString(deterministic=True)
        lower(model, name)
        return model.to_proto().SerializeToString(deterministic=True) != before

    for kind in KINDS:
        for seed in range(1000, 1006):
            check_law(run, lowering_case(kind, seed), source=_source)


@pytest.mark.parametrize("name", engine_names())
def test_lowering_never_adds_a_node_that_the_engine_lacks(name: str) -> None:
    engine = load_engine_ops(name)
    fewer: Counter[str] = Counter()
    for kind in KINDS:
        for seed in range(1000, 1008):
            model = _source(lowering_case(kind, seed))
            before = Counter(n.op_type for n in unsupported_nodes(model, engine))
            lower(model, name)
            after = Counter(n.op_type for n in unsupported_nodes(model, engine))
            # a tensor of many axes that is an input or output stays, with the Reshape that is put behind it
            assert not set(after - before) - {"Reshape"}, (kind, seed, before, after)
            fewer[kind] += sum(before.values()) > sum(after.values())
    assert (sum(fewer.values()) > 0) == bool(LOWERINGS[name])


def test_names_are_targets_or_engines() -> None:
    assert set(LOWERINGS) == TARGETS | set(engine_names())
    assert set(target_names()) >= TARGETS


def test_an_engine_with_the_operator_keeps_it() -> None:
    text = _net("y = InstanceNormalization (x, s, b)", inputs="float[1,4,6,6] x, float[4] s, float[4] b")
    model = _model(text)
    assert lower(model, "qnn-htp") == ()
    assert [n.op for n in model.graph.nodes] == ["InstanceNormalization"]
    model = _model(text)
    lower(model, "litert-cpu")
    assert "InstanceNormalization" not in [n.op for n in model.graph.nodes]
    assert unsupported_nodes(model, load_engine_ops("litert-cpu")) == ()


def test_a_replacement_that_the_engine_does_not_take_is_not_made_and_the_reason_is_kept() -> None:
    model = _model(_net("[act] y = Mish (x)"))
    refusals = lower(model, "tensorrt-dla")
    assert [n.op for n in model.graph.nodes] == ["Mish"]
    (left,) = unsupported_nodes(model, load_engine_ops("tensorrt-dla"), refusals)
    assert (left.node, left.op_type, left.attribute) == ("act", "Mish", "")
    assert left.reason == "it has no Mish"
    assert left.not_lowered == "its replacement needs Neg in a form that the engine does not take"
    assert left.nearest == "this node on the GPU of the same module"


def test_what_is_lacking_names_the_attribute_and_what_works() -> None:
    body = '[up] y = Resize <mode = "cubic"> (x, , s)'
    model = _model(_net(body, inputs="float[1,4,6,6] x, float[4] s", outputs="float[1,4,?,?] y"))
    refusals = lower(model, "tensorrt")
    (left,) = unsupported_nodes(model, load_engine_ops("tensorrt"), refusals)
    assert (left.node, left.attribute) == ("up", "mode")
    assert left.reason == "mode is cubic; taken: nearest, linear"
    assert left.not_lowered == "its sizes are not known"
    assert left.nearest == "mode nearest, linear; or this node on another engine before or behind it"


def test_tensors_of_six_axes_disappear_between_their_reshapes() -> None:
    body = """
      a = Reshape (x, s)
      t = Transpose <perm = [0, 2, 4, 3, 5, 1]> (a)
      r = Relu (t)
      y = Reshape (r, e)
    """
    text = _net(body, outputs="float[1,144] y").replace(
        ") {", ") <int64[6] s = {1, 4, 2, 3, 2, 3}, int64[2] e = {1, 144}> {"
    )
    model = _model(text)
    assert lower(model, "qnn-htp") == ()
    ranks = [len(t.shape) for n in model.graph.nodes for t in (*n.inputs, *n.outputs) if t.shape is not None]
    assert max(ranks) <= 5
    assert unsupported_nodes(model, load_engine_ops("qnn-htp")) == ()


def test_an_einsum_becomes_an_operator_with_an_integer_kernel_for_cpu_int8_and_keeps_its_name() -> None:
    inputs = "float[2,3,4] x"
    text = _net('[mix] y = Einsum <equation = "bij,jk->bik"> (x, w)', inputs=inputs, outputs="float[2,3,2] y")
    model = _model(text.replace(") {", ") <float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {"))
    lower(model, "cpu-int8")
    (product,) = [n for n in model.graph.nodes if n.op == "MatMul"]
    assert product.name == "mix"
    assert [len(t.shape) for t in product.inputs] == [2, 2]
    model = _model(_net('y = Einsum <equation = "bij->b"> (x)', inputs=inputs, outputs="float[2] y"))
    lower(model, "cpu-int8")
    assert [n.op for n in model.graph.nodes] == ["Einsum"]


def test_a_scalar_stays_a_scalar() -> None:
    model = _model(_net("y = Softsign (x)", inputs="float x", outputs="float y"))
    lower(model, "qnn-htp")
    assert [n.op for n in model.graph.nodes] == ["Abs", "Add", "Div"]
    onnx.checker.check_model(model.to_proto(), full_check=True)

"""What the module offers: parameters by name, gradients, any tensor watched or altered, refusals that name what lacks."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.fts_calibration.train.agreement import NET_TOLERANCE, check_agreement

from fts.errors import ModelError, UnsupportedOpError

torch = pytest.importorskip("torch", reason="the torch extra is not installed")

from fts_calibration.train.twin import Twin  # noqa: E402

NET = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[1, 2, 6, 6] x) => (float[1, 3] y, float[1, 4, 6, 6] activated)
<float[4] scale = {1.0, 0.5, 2.0, 1.5}, float[4] shift = {0.1, 0.0, -0.1, 0.2}, float half = {0.5}>
{
    kernel = Constant <value_floats = [0.5]> ()
    convolved = Conv <pads = [1, 1, 1, 1]> (x, W, B)
    normed = InstanceNormalization (convolved, scale, shift)
    activated = LeakyRelu (normed)
    halved = Mul (activated, half)
    scaled = Mul (halved, kernel)
    pooled = GlobalAveragePool (scaled)
    flat = Flatten (pooled)
    y = Gemm (flat, head, bias)
}
"""


def net() -> onnx.ModelProto:
    """Small, with names of weights that torch would not take."""
    rng = np.random.default_rng(3)
    model = onnx.parser.parse_model(NET)
    model.graph.node[1].input[1:] = ["conv.weight", "conv.bias"]  # the parser takes no dots
    shapes = {"conv.weight": (4, 2, 3, 3), "conv.bias": (4,), "head": (4, 3), "bias": (3,)}
    for name, shape in shapes.items():
        model.graph.initializer.append(numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name))
    return model


def feeds(seed: int = 0) -> dict[str, torch.Tensor]:
    return {"x": torch.from_numpy(np.random.default_rng(seed).normal(size=(1, 2, 6, 6)).astype(np.float32))}


def test_outputs_come_in_the_order_of_the_graph_and_agree() -> None:
    assert list(Twin(net())(feeds())) == ["y", "activated"]
    check_agreement(net(), [{"x": feeds()["x"].numpy()}], NET_TOLERANCE)


def test_weights_are_parameters_under_their_names_and_constants_are_not() -> None:
    twin = Twin(net())
    assert set(twin.weights) == {"conv.weight", "conv.bias", "scale", "shift", "head", "bias"}
    assert len(list(twin.parameters())) == 6
    assert len(list(twin.buffers())) == 2


def test_weights_may_stand_beside_the_message() -> None:
    light = net()
    weight = next(t for t in light.graph.initializer if t.name == "conv.weight")
    value = numpy_helper.to_array(weight)
    weight.CopyFrom(TensorProto(name=weight.name, dims=weight.dims, data_type=weight.data_type))
    weight.data_location = TensorProto.EXTERNAL
    found = Twin(light, {"conv.weight": value})(feeds())["y"]
    assert torch.equal(found, Twin(net())(feeds())["y"])
    with pytest.raises(ModelError, match=r"'conv\.weight' has its data outside"):
        Twin(light)


def test_training_does_not_write_into_the_callers_arrays() -> None:
    value = np.ones((4, 2, 3, 3), np.float32)
    twin = Twin(net(), {"conv.weight": value})
    with torch.no_grad():
        twin.weights["conv.weight"].zero_()
    assert (value == 1).all()


def test_a_watched_tensor_is_returned_beside_the_outputs() -> None:
    found = Twin(net())(feeds(), watch=["convolved", "x", "conv.weight", "half"])
    assert list(found) == ["y", "activated", "convolved", "x", "conv.weight", "half"]
    assert found["convolved"].shape == (1, 4, 6, 6)


@pytest.mark.parametrize("name", ["x", "conv.weight", "half", "convolved", "y"])
def test_an_altered_tensor_is_what_its_readers_and_the_outputs_see(name: str) -> None:
    twin = Twin(net())
    plain = twin(feeds(), watch=[name])
    altered = twin(feeds(), watch=[name], alter={name: lambda t: t * 0})
    assert not altered[name].any()
    assert not torch.equal(altered["y"], plain["y"])


def test_fake_quantization_of_a_weight_lets_the_gradient_through() -> None:
    def straight_through(t: torch.Tensor) -> torch.Tensor:
        return t + ((t * 16).round() / 16 - t).detach()

    twin = Twin(net())
    found = twin(feeds(), watch=["conv.weight"], alter={"conv.weight": straight_through})
    assert torch.equal(found["conv.weight"] * 16, (found["conv.weight"] * 16).round())
    found["activated"].square().sum().backward()
    assert twin.weights["conv.weight"].grad.abs().max() > 0


def test_gradients_agree_with_finite_differences() -> None:
    twin = Twin(net()).double()
    x = feeds()["x"].double().requires_grad_()
    names = list(twin.weights)

    def run(image: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        alter = {name: lambda _, value=value: value for name, value in zip(names, values, strict=True)}
        return twin({"x": image}, alter=alter)["y"]

    weights = [twin.weights[name].detach().clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(run, (x, *weights))


@pytest.mark.parametrize(
    ("op", "attributes", "others"),
    [
        ("ConvTranspose", {"strides": [2, 2], "pads": [1, 0, 1, 1]}, [np.ones((2, 2, 3, 3))]),
        ("MaxPool", {"kernel_shape": [3, 3], "ceil_mode": 1, "strides": [2, 2]}, []),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 0, 1, 1]}, []),
        ("Pad", {"mode": "reflect"}, [np.array([0, 0, 1, 2, 0, 0, 2, 1])]),
        ("Resize", {"mode": "cubic"}, [None, np.array([1, 1, 1.5, 2], np.float32)]),
        ("SpaceToDepth", {"blocksize": 2}, []),
        ("LpNormalization", {"axis": 1}, []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_gradients_of_an_operator_agree_with_finite_differences(
    op: str, attributes: dict[str, object], others: list[np.ndarray | None]
) -> None:
    names = ["x", *("" if value is None else f"c{i}" for i, value in enumerate(others))]
    constants = [numpy_helper.from_array(v, f"c{i}") for i, v in enumerate(others) if v is not None]
    node = helper.make_node(op, names, ["y"], **attributes)
    twin = Twin(one_node(node, constants))
    x = torch.from_numpy(np.random.default_rng(1).permutation(2 * 2 * 4 * 4).reshape(2, 2, 4, 4) / 16.0 - 2.01)
    assert torch.autograd.gradcheck(lambda image: twin({"x": image})["y"], (x.requires_grad_(),))


def one_node(
    node: onnx.NodeProto, constants: list[TensorProto] | None = None, opset: int = 20, domain: str = ""
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)])


@pytest.mark.parametrize(
    ("op", "attributes", "found"),
    [
        ("GridSample", {}, "this operator"),
        ("Relu", {"consumed_inputs": [0]}, "attribute 'consumed_inputs' at opset 20"),
        ("Resize", {"coordinate_transformation_mode": "tf_crop_and_resize"}, "coordinate_transformation_mode="),
        ("Resize", {"antialias": 1}, "antialias=1"),
        ("Resize", {"keep_aspect_ratio_policy": "not_larger"}, "keep_aspect_ratio_policy="),
        ("AveragePool", {"kernel_shape": [2, 2], "dilations": [2, 2]}, r"dilations=\[2, 2\]"),
        ("MaxPool", {"kernel_shape": [2, 2, 2, 2]}, "4 spatial axes"),
        ("BatchNormalization", {"training_mode": 1}, "training_mode=1"),
        ("Cast", {"to": TensorProto.STRING}, "to=STRING"),
    ],
)
def test_what_the_twin_lacks_is_refused_with_node_and_operator(
    op: str, attributes: dict[str, object], found: str
) -> None:
    node = helper.make_node(op, ["x"], ["y"], name="the node", **attributes)
    with pytest.raises(UnsupportedOpError, match=f"{op} 'the node': the torch twin does not have {found}") as refusal:
        Twin(one_node(node))
    assert (refusal.value.node, refusal.value.op_type) == ("the node", op)


def test_an_operator_of_another_domain_is_refused_even_if_its_name_is_known() -> None:
    node = helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")
    with pytest.raises(UnsupportedOpError, match=r"com\.microsoft::Gelu '#0'"):
        Twin(one_node(node, domain="com.microsoft", opset=1))


def test_indices_of_a_max_pool_are_refused() -> None:
    node = helper.make_node("MaxPool", ["x"], ["y", "places"], kernel_shape=[2, 2], name="pool")
    with pytest.raises(UnsupportedOpError, match="MaxPool 'pool': the torch twin does not have output 1"):
        Twin(one_node(node))


def test_wrong_calls_say_what_is_missing_or_unknown() -> None:
    twin = Twin(net())
    with pytest.raises(ValueError, match=r"feeds lack \['x'\]"):
        twin({})
    with pytest.raises(ValueError, match="no tensor 'nowhere'"):
        twin(feeds(), watch=["nowhere"])
    with pytest.raises(ValueError, match="no tensor 'nowhere'"):
        twin(feeds(), alter={"nowhere": torch.relu})

"""DepthToSpace behind an integer convolution moves integers, with the values it would have had."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.generators.run_plain import run_plain

from fts_converters.quantize.interleave_integers import interleave_integers


@pytest.mark.parametrize("mode", ["CRD", "DCR"])
@pytest.mark.parametrize("block", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_equals_the_operator(mode: str, block: int, dtype: type) -> None:
    shape = (2, 3 * block * block, 4, 5)
    node = helper.make_node("DepthToSpace", ["x"], ["y"], name="up", blocksize=block, mode=mode)
    x = np.random.default_rng(0).integers(0, 255, shape).astype(dtype)
    names, constants = iter(range(100)), []

    def constant(stem: str, values: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(values, f"{stem}{next(names)}"))
        return constants[-1].name

    nodes = interleave_integers(node, "x", "y", shape, constant, lambda stem: f"{stem}{next(names)}")
    assert len({n.name for n in nodes}) == len(nodes)
    elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [helper.make_tensor_value_info(n, elem_type, s) for n, s in (("x", shape), ("y", None))]
    nets = [
        helper.make_model(
            helper.make_graph(made, "g", ends[:1], ends[1:], held), opset_imports=[helper.make_opsetid("", 17)]
        )
        for made, held in ((nodes, constants), ([node], []))
    ]
    if dtype is np.uint8:  # what DepthToSpace of float gives, in bytes
        wide = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None))]
        nets[1] = helper.make_model(
            helper.make_graph([node], "g", wide[:1], wide[1:]), opset_imports=[helper.make_opsetid("", 17)]
        )
        np.testing.assert_array_equal(
            run_plain(nets[0], {"x": x})[0], run_plain(nets[1], {"x": x.astype(np.float32)})[0].astype(np.uint8)
        )
        return
    np.testing.assert_array_equal(run_plain(nets[0], {"x": x})[0], run_plain(nets[1], {"x": x})[0])


@pytest.mark.parametrize("behind", ["Tanh", "InstanceNormalization"])
def test_a_narrow_conv_and_a_transposed_one_interleave_integers(bench, behind: str) -> None:
    last = "y = Tanh(d)" if behind == "Tanh" else "y = InstanceNormalization(d,g,g)"
    body = f'c = Conv<pads=[1,1,1,1]>(x,w,b) d = DepthToSpace<blocksize=2,mode="CRD">(c) {last}'
    rng = np.random.default_rng(0)
    loudness = np.repeat([0.05, 1.0], 4).reshape(8, 1, 1, 1)
    proto = bench.net(
        f"g (float[1,8,12,12] x) => (float[1,2,24,24] y) {{ {body} }}",
        w=(rng.normal(size=(8, 8, 3, 3)) * loudness).astype(np.float32),
        b=rng.normal(size=8).astype(np.float32),
        g=np.ones(2, np.float32),
    )
    trial = bench.trial(proto)
    operators = [n.op_type for n in trial.encoded.model.graph.node]
    assert "DepthToSpace" not in operators
    assert operators.count("Transpose") == 2
    assert trial.sqnr_db() > 25

"""Each old net gives the same before and after it is raised to opset 13."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from onnx import parser
from tests.generators.old_opsets import OldNet, old_nets
from tests.generators.run_plain import run_plain

from fts.errors import ModelError
from fts_converters.load import load_model

# Written out by other kernels than the node's own: (x - m) / sqrt(v + e) * s + b are five roundings of one unit or less.
ULPS_WRITTEN_OUT = 8
# onnxruntime has no float16 kernels for old operators, and may leave out a cast there and back between two of them.
FLOAT16_ULPS = 1


@pytest.fixture(scope="module")
def by_form() -> dict[str, list[OldNet]]:
    forms = defaultdict(list)
    for old in old_nets():
        forms[old.form].append(old)
    return forms


def bound(form: str, reference: np.ndarray) -> float:
    if "spatial=0" in form:
        return ULPS_WRITTEN_OUT * float(np.spacing(np.abs(reference).max()))
    return FLOAT16_ULPS * float(np.spacing(np.abs(reference).max().astype(np.float16))) if "float16" in form else 0.0


@pytest.mark.parametrize("part", range(8))
def test_an_old_net_computes_the_same_in_opset_13(by_form, tmp_path, part):
    path = tmp_path / "net.onnx"
    for form in sorted(by_form)[part::8]:
        for old in by_form[form]:
            path.write_bytes(old.model.SerializeToString())
            loaded = load_model(str(path))
            assert loaded.opset == 13, old.name
            (before,), (after,) = run_plain(old.model, old.feeds), run_plain(loaded.to_proto(), old.feeds)
            assert (before.shape, before.dtype) == (after.shape, after.dtype), old.name
            np.testing.assert_allclose(after, before, rtol=0, atol=bound(form, before), err_msg=old.name)


def test_the_nets_hold_every_opset_and_most_operators():
    nets = list(old_nets())
    assert {n.opset for n in nets} == set(range(7, 13))
    assert len(nets) >= 900
    assert len({node.op_type for n in nets for node in n.model.graph.node}) >= 120


@pytest.mark.parametrize("opset", [7, 10, 11])
def test_a_dropout_mask_that_is_read_is_refused(tmp_path, opset):
    mask = "float" if opset < 10 else "bool"
    text = f"g (float[2,3] x) => (float[2,3] y, {mask}[2,3] m) {{ y, m = Dropout(x) }}"
    model = parser.parse_model(f'<ir_version: 4, opset_import: ["" : {opset}]> {text}')
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=rf"node 'y': the mask 'm' of a Dropout of opset {opset} is used"):
        load_model(str(tmp_path / "net.onnx"))


def test_a_scan_with_sequence_lengths_is_refused(tmp_path):
    body = "step (float[4] v, float[4] e) => (float[4] w, float[4] o) { w = Add(v, e) o = Neg(w) }"
    scan = f"y, q = Scan<num_scan_inputs=1, body = {body}>(n, z, x)"
    text = f"g (int64[3] n, float[3,5,4] x, float[3,4] z) => (float[3,4] y) {{ {scan} }}"
    model = parser.parse_model(f'<ir_version: 4, opset_import: ["" : 8]> {text}')
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"node 'y': Scan of opset 8 with sequence lengths \('n'\)"):
        load_model(str(tmp_path / "net.onnx"))


def test_a_node_that_cannot_be_raised_is_named(tmp_path):
    """Dropout that drops, as opset 6 can say, has no meaning in inference."""
    text = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Dropout<is_test=0>(a) }"
    model = parser.parse_model(f'<ir_version: 4, opset_import: ["" : 6]> {text}')
    model.graph.node[1].name = "drop"
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"node 'drop' \(Dropout, opset 6\): opset 6 cannot be brought to opset 13"):
        load_model(str(tmp_path / "net.onnx"))

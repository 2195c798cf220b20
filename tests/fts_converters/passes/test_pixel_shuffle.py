"""Permutations between space and channels become DepthToSpace and SpaceToDepth, however their axes are written."""

from __future__ import annotations

import numpy as np
import pytest
from tests.generators.run_plain import run_plain

from fts_converters.passes import clean

N = np.float32
# (shape, split, perm, shape after, operator, mode)
SHUFFLES = {
    "PyTorch": ((2, 8, 3, 5), (2, 2, 2, 2, 3, 5), (0, 1, 4, 2, 5, 3), (2, 2, 6, 10), "DepthToSpace", "CRD"),
    "TensorFlow": ((2, 8, 3, 5), (2, 2, 2, 2, 3, 5), (0, 3, 4, 1, 5, 2), (2, 2, 6, 10), "DepthToSpace", "DCR"),
    "blocks of three": ((1, 18, 3, 5), (1, 2, 3, 3, 3, 5), (0, 1, 4, 2, 5, 3), (1, 2, 9, 15), "DepthToSpace", "CRD"),
    "no batch axis": ((1, 8, 3, 5), (2, 2, 2, 3, 5), (0, 3, 1, 4, 2), (1, 2, 6, 10), "DepthToSpace", "CRD"),
    "batch and channels in one": ((2, 8, 3, 5), (4, 2, 2, 3, 5), (0, 3, 1, 4, 2), (2, 2, 6, 10), "DepthToSpace", "CRD"),
    "one channel": (
        (2, 4, 3, 5),
        (2, 2, 2, 3, 5),
        (0, 3, 1, 4, 2),
        (2, 1, 6, 10),
        "DepthToSpace",
        "DCR",
    ),  # both the same here
    "space to depth": ((2, 2, 6, 10), (2, 2, 3, 2, 5, 2), (0, 3, 5, 1, 2, 4), (2, 8, 3, 5), "SpaceToDepth", None),
    "of one channel": ((2, 1, 6, 10), (2, 1, 3, 2, 5, 2), (0, 1, 3, 5, 2, 4), (2, 4, 3, 5), "SpaceToDepth", None),
}
OTHERS = {
    "rows and columns swapped": ((2, 8, 3, 3), (2, 2, 2, 2, 3, 3), (0, 1, 5, 2, 4, 3), (2, 2, 6, 6)),
    "blocks swapped": ((2, 8, 3, 5), (2, 2, 2, 2, 3, 5), (0, 1, 4, 3, 5, 2), (2, 2, 6, 10)),
    "another split": ((2, 8, 4, 4), (2, 2, 2, 2, 4, 4), (0, 1, 2, 4, 3, 5), (2, 2, 8, 8)),
}


def _net(bench, shape, split, perm, after):
    text = f"""g (float[{",".join(map(str, shape))}] x) => (float[{",".join(map(str, after))}] y) {{
        s=Reshape(x,a) t=Transpose<perm=[{",".join(map(str, perm))}]>(s) y=Reshape(t,b) }}"""
    return bench.net(text, 13, a=np.array(split), b=np.array(after))


@pytest.mark.parametrize("name", SHUFFLES)
def test_a_shuffle_is_one_operator(name, bench):
    shape, split, perm, after, op, mode = SHUFFLES[name]
    net = _net(bench, shape, split, perm, after)
    model = bench.model(net)
    clean(model)
    assert [(n.op, n.attrs.get("mode")) for n in model.graph.nodes] == [(op, mode)]
    x = {"x": np.arange(np.prod(shape), dtype=N).reshape(shape)}
    np.testing.assert_array_equal(run_plain(model.to_proto(), x)[0], run_plain(net, x)[0])


@pytest.mark.parametrize("name", OTHERS)
def test_another_permutation_stays(name, bench):
    model = bench.model(_net(bench, *OTHERS[name]))
    clean(model)
    assert not {n.op for n in model.graph.nodes} & {"DepthToSpace", "SpaceToDepth"}


UNSHUFFLE = "s=Reshape(x,a) t=Transpose<perm=[0,1,3,5,2,4]>(s) u=Reshape(t,b)"
SIZES = {"a": np.array([2, 3, 3, 2, 5, 2]), "b": np.array([2, 12, 3, 5])}


def test_a_pixel_unshuffle_goes_into_the_convolution_behind_it(bench):
    text = f"g (float[2,3,6,10] x) => (float[2,4,3,5] y) {{ {UNSHUFFLE} y=Conv<pads=[1,1,1,1]>(u,w,c) }}"
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((4, 12, 3, 3)).astype(N), "c": rng.standard_normal(4).astype(N)}
    net = bench.net(text, 13, **SIZES, **weights)
    model = bench.model(net)
    clean(model)
    assert [n.op for n in model.graph.nodes] == ["SpaceToDepth", "Conv"]
    x = {"x": rng.standard_normal((2, 3, 6, 10)).astype(N)}
    expected = run_plain(net, x)[0]
    # 108 products in another order
    np.testing.assert_allclose(
        run_plain(model.to_proto(), x)[0], expected, atol=1e-6 * float(np.abs(expected).max()) * 10
    )


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        (f"{UNSHUFFLE} y=Relu(u)", "float[2,12,3,5] y"),
        (f"{UNSHUFFLE} y=Conv<group=2>(u,w2)", "float[2,4,3,5] y"),
        (f"{UNSHUFFLE} y=Conv(u,w) z=Neg(u)", "float[2,4,3,5] y, float[2,12,3,5] z"),
    ],
)
def test_a_pixel_unshuffle_for_other_readers_is_reported(body, outputs, bench):
    given = {"w": np.ones((4, 12, 1, 1), N), "w2": np.ones((4, 6, 1, 1), N)}
    used = {k: v for k, v in given.items() if f",{k})" in body}
    model = bench.model(bench.net(f"g (float[2,3,6,10] x) => ({outputs}) {{ {body} }}", 13, **SIZES, **used))
    result = clean(model)
    assert "SpaceToDepth" not in [n.op for n in model.graph.nodes]
    assert ["PixelUnshuffle" in f.reason for r in result.records for f in r.refusals] == [True]

"""Chains that only move elements become the shortest equal one; numpy is the judge."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.generators.run_plain import run_plain

from fts_converters.passes import clean
from fts_converters.passes.fold_constants import fold_constants
from fts_converters.passes.merge_rearrangements import (
    Arrangement,
    identity,
    merge_rearrangements,
    reshaped,
    shortest,
    transposed,
)


def applied(x: np.ndarray, steps) -> np.ndarray:
    for step in steps:
        if step.op in ("Reshape", "Transpose"):
            x = x.reshape(step.numbers) if step.op == "Reshape" else x.transpose(step.numbers)
        else:
            n, c, h, w = x.shape
            b = step.block
            if step.op == "SpaceToDepth":
                x = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
            elif step.mode == "DCR":
                x = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
            else:
                x = x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
            x = x.reshape(step.shape)
    return x


@pytest.mark.parametrize("seed", range(200))
def test_the_shortest_form_moves_elements_as_the_chain_does(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(rng.choice((1, 2, 4, 6))) for _ in range(rng.integers(2, 5)))
    x = y = np.arange(math.prod(shape)).reshape(shape)
    current: Arrangement | None = identity(shape)
    for _ in range(rng.integers(1, 5)):
        if rng.random() < 0.5:
            perm = rng.permutation(y.ndim)
            following = transposed(current, [int(p) for p in perm])
            y = y.transpose(perm)
        else:
            flat = [int(f) for n in y.shape for f in ((2, n // 2) if n % 2 == 0 and rng.random() < 0.6 else (n,))]
            y = y.reshape(flat if len(flat) < 7 else (-1,))
            following = reshaped(current, y.shape)
        if following is None:
            return
        current = following
    steps = shortest(shape, current, 17)
    assert len(steps) <= 3
    np.testing.assert_array_equal(applied(x, steps), y)


CHAINS = {
    "there and back": ("a=Reshape(x,s1) b=Transpose<perm=[0,2,1,3,4]>(a) c=Reshape(b,s2) d=Reshape(c,s3) "
                       "e=Transpose<perm=[0,2,1,3,4]>(d) f=Reshape(e,s2) y=Neg(f)", [1, 8, 4, 6], ["Neg"]),
    "one permutation": ("a=Reshape(x,s4) b=Transpose<perm=[0,2,1]>(a) c=Reshape(b,s5) y=Neg(c)", [1, 4, 6, 8],
                        ["Transpose", "Neg"]),
    "pixel shuffle with ones": ("a=Reshape(x,s6) b=Unsqueeze(a,z) c=Transpose<perm=[0,1,2,5,3,6,4]>(b) d=Squeeze(c,z) "
                                "e=Reshape(d,s7) y=Neg(e)", [1, 2, 8, 12], ["DepthToSpace", "Neg"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_chains_become_one_operator(bench, name):
    text, shape, becomes = CHAINS[name]
    sizes = ",".join(map(str, shape))
    sized = {
        "s1": [1, 2, 4, 4, 6], "s2": [1, 8, 4, 6], "s3": [1, 4, 2, 4, 6], "s4": [1, 8, 24], "s5": [1, 4, 6, 8],
        "s6": [1, 2, 2, 2, 4, 6], "s7": [1, 2, 8, 12], "z": [1],
    }  # fmt: skip
    net = bench.net(
        f"g (float[1,8,4,6] x) => (float[{sizes}] y) {{ {text} }}", **{k: np.array(v) for k, v in sized.items()}
    )
    model = bench.model(net)
    clean(model)
    assert [n.op for n in model.graph.nodes] == becomes
    feed = bench.feeds(net, 1)[0]
    np.testing.assert_array_equal(run_plain(model.to_proto(), feed)[0], run_plain(net, feed)[0])


def test_a_value_in_between_that_is_read_stays(bench):
    text = """g (float[2,3,4] x) => (float[2,3,4] y, float[3,2,4] z) { a = Transpose<perm=[1,0,2]>(x)
        b = Transpose<perm=[1,0,2]>(a)
        y = Neg(b) z = Neg(a) }"""
    model = bench.model(bench.net(text))
    fold_constants(model)
    assert merge_rearrangements(model)
    assert sorted(n.op for n in model.graph.nodes) == ["Neg", "Neg", "Transpose"]
    assert not merge_rearrangements(model)

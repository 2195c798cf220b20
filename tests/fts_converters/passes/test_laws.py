"""The laws of graph passes on random graphs: every pass of `DEFAULT_PASSES`, the loader, and the whole pipeline.

`check_law` says what is checked; a failure names the seed, and `random_graph(seed)` gives the graph again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.generators.laws import LawBroken, check_law, is_changed, loaded_model, model_of, shaped_model
from tests.generators.random_graphs import Case, random_graph
from tests.generators.run_plain import run_plain

from fts_converters.load import load_model
from fts_converters.lower import LOWERINGS
from fts_converters.model import Model
from fts_converters.passes import DEFAULT_PASSES, clean

FAST_SEEDS = range(200)
SLOW_SEEDS = range(200, 2200)
SLOW_PART = 200  # graphs a test
PASSES = dict(DEFAULT_PASSES)
LOWERING = {name: run for lowerings in LOWERINGS.values() for name, run in lowerings}
Source = Callable[[Case], Model]


def _nothing(_model: Model) -> bool:
    return False


def _check(transform: Callable[[Model], object], source: Source, seeds: range) -> None:
    for seed in seeds:
        check_law(transform, _case(seed), source=source)


def _check_lowerings(seeds: range) -> None:
    """Most graphs do not hold what a lowering replaces; that those were left untouched is seen without running them."""
    for seed in seeds:
        case = _case(seed)
        untouched = shaped_model(case)
        before = untouched.to_proto().SerializeToString(deterministic=True)
        for run in LOWERING.values():
            if run(untouched).is_changed:
                check_law(run, case, source=shaped_model)
                untouched = shaped_model(case)
        assert untouched.to_proto().SerializeToString(deterministic=True) == before, case


def _check_where_it_changes(name: str, run: Callable[[Model], object], case: Case) -> None:
    """Where a pass changes nothing and says so, the net has kept its values, and is not run to see it."""
    model = model_of(case)
    before = _nodes_and_constants(model)
    if not is_changed(run(model)) and _nodes_and_constants(model) == before:
        return
    try:
        check_law(run, case, source=model_of)
    except LawBroken as broken:
        raise LawBroken(f"{name}: {broken}") from broken


def _nodes_and_constants(model: Model) -> bytes:
    """All but the shapes of inner tensors, which a pass may infer without changing the net."""
    proto = model.to_proto()
    del proto.graph.value_info[:]
    return proto.SerializeToString(deterministic=True)


@lru_cache(maxsize=256)
def _case(seed: int) -> Case:
    """The same object again, so that its reference outputs and tolerance are measured once for all fast tests."""
    return random_graph(seed)


@pytest.mark.parametrize("source", [loaded_model, model_of], ids=["loaded", "generated"])
def test_loading_and_saving_keep_the_laws(source: Source) -> None:
    _check(_nothing, source, FAST_SEEDS)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_the_laws(name: str) -> None:
    _check(PASSES[name], model_of, FAST_SEEDS)


def test_lowerings_keep_the_laws() -> None:
    _check_lowerings(FAST_SEEDS)


def test_the_pipeline_keeps_the_laws() -> None:
    _check(clean, loaded_model, FAST_SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("first", SLOW_SEEDS[::SLOW_PART])
def test_passes_lowerings_and_the_pipeline_keep_the_laws_on_more_graphs(first: int) -> None:
    """Graph by graph, so that each is made and measured once for all of them."""
    for seed in range(first, first + SLOW_PART):
        case = _case(seed)
        check_law(_nothing, case, source=loaded_model)
        check_law(_nothing, case, source=model_of)
        for name, run in PASSES.items():
            _check_where_it_changes(name, run, case)
        _check_lowerings(range(seed, seed + 1))
        check_law(clean, case, source=loaded_model)


@pytest.mark.parametrize(("op", "opset"), [("Upsample", 9), ("Resize", 10)])
def test_loading_keeps_resampling_before_opset_11(op: str, opset: int, tmp_path: Path) -> None:
    """onnx's version converter leaves Resize at half_pixel, and Upsample was asymmetric."""
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "scales"], ["y"], mode="linear")],
        "resample",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 5, 5))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2, 10, 10))],
        [numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")],
    )
    net = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=4)
    path = tmp_path / "net.onnx"
    onnx.save(net, path)
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 5)).astype(np.float32)
    after = load_model(str(path)).to_proto()
    # the same operator, up to the order of three float32 products
    np.testing.assert_allclose(run_plain(after, {"x": x})[0], run_plain(net, {"x": x})[0], atol=1e-6)

"""The laws of graph passes on random graphs: every pass of `DEFAULT_PASSES`, the loader, and the whole pipeline."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fts_converters.model import Model
from fts_converters.passes import DEFAULT_PASSES, clean
from tests.generators.laws import check_law, loaded_model, model_of
from tests.generators.random_graphs import random_graph

FAST_SEEDS = range(200)
SLOW_SEEDS = range(200, 2200)
PASSES = dict(DEFAULT_PASSES)


def _nothing(_model: Model) -> bool:
    return False


def _check_block(transform: Callable[[Model], object], source: str, seeds: range) -> None:
    make = {"loaded": loaded_model, "generated": model_of}[source]
    for seed in seeds:
        check_law(transform, random_graph(seed), source=make)


@pytest.mark.parametrize("source", ["loaded", "generated"])
def test_loading_and_saving_keep_the_laws(source: str) -> None:
    _check_block(_nothing, source, FAST_SEEDS)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_the_laws(name: str) -> None:
    _check_block(PASSES[name], "generated", FAST_SEEDS)


def test_the_pipeline_keeps_the_laws() -> None:
    _check_block(clean, "loaded", FAST_SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["loaded", "generated"])
def test_loading_and_saving_keep_the_laws_on_more_graphs(source: str) -> None:
    _check_block(_nothing, source, SLOW_SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_the_laws_on_more_graphs(name: str) -> None:
    _check_block(PASSES[name], "generated", SLOW_SEEDS)


@pytest.mark.slow
def test_the_pipeline_keeps_the_laws_on_more_graphs() -> None:
    _check_block(clean, "loaded", SLOW_SEEDS)

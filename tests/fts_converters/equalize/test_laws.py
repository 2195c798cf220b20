"""The laws of passes for equalize, and a stronger one: with any factors at all, every bit of every output stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.generators.laws import check_law, loaded_model
from tests.generators.linked_graphs import random_linked_graph
from tests.generators.random_graphs import Case, random_graph
from tests.generators.run_plain import run_plain

from fts_calibration.statistics.collect import collect_statistics
from fts_converters.equalize.channel_groups import ChannelGroups, channel_groups
from fts_converters.equalize.factors import Factors, factors_of_groups
from fts_converters.equalize.factors_from_ranges import factors_from_ranges
from fts_converters.equalize.factors_from_weights import factors_from_weights
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.equalize import equalize
from fts_converters.quantize.graph_index import GraphIndex

Generator = Callable[[int], Case]
FAST_SEEDS = range(100)
SLOW_SEEDS = range(100, 2100)
GENERATORS = pytest.mark.parametrize("generator", [random_linked_graph, random_graph], ids=["linked", "all kinds"])


def any_factors(groups: ChannelGroups, seed: int) -> Factors:
    """One factor from 2^-6 to 2^6 for each free group that no norm reads."""
    exponents = np.random.default_rng(seed).integers(-6, 7, groups.count)
    exponents[list(groups.blocked)] = 0
    for norm in groups.norms:
        exponents[norm.ids] = 0
    return factors_of_groups(groups, exponents)


def equalize_from_weights(model: Model) -> PassResult:
    return equalize(model, factors_from_weights(channel_groups(model)))


def equalize_from_ranges(case: Case) -> Callable[[Model], PassResult]:
    """Ranges are measured anew for each application."""

    def run(model: Model) -> PassResult:
        groups, index = channel_groups(model), GraphIndex(model.to_proto())
        ranks = {n: len(index.shape(n) or ()) for n, c in groups.channels.items() if c.axis == 1}
        statistics = collect_statistics(index.model, [case.feeds], sorted(ranks), ranks)
        return equalize(model, factors_from_ranges(groups, statistics))

    return run


def check_any_factors(generator: Generator, seeds: range) -> int:
    """Number of cases in which something was scaled."""
    scaled = 0
    for seed in seeds:
        case = generator(seed)
        model = loaded_model(case)
        before = run_plain(model.to_proto(), case.feeds)
        factors = any_factors(channel_groups(model), seed)
        result = equalize(model, factors)
        assert result.is_changed == bool(factors.exponents), (case, result.refusals)
        assert result.refusals == (), case
        for a, b in zip(before, run_plain(model.to_proto(), case.feeds), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=str(case))
        scaled += result.is_changed
    return scaled


@pytest.mark.parametrize(
    ("generator", "least"), [(random_linked_graph, 80), (random_graph, 15)], ids=["linked", "all kinds"]
)
def test_any_factors_keep_every_bit(generator: Generator, least: int) -> None:
    assert check_any_factors(generator, FAST_SEEDS) >= least


@GENERATORS
def test_factors_from_weights_keep_the_laws(generator: Generator) -> None:
    for seed in FAST_SEEDS:
        check_law(equalize_from_weights, generator(seed))


def test_factors_from_ranges_keep_the_laws() -> None:
    for seed in FAST_SEEDS[:30]:
        case = random_linked_graph(seed)
        check_law(equalize_from_ranges(case), case)


@pytest.mark.slow
@GENERATORS
def test_any_factors_keep_every_bit_on_more_graphs(generator: Generator) -> None:
    check_any_factors(generator, SLOW_SEEDS)


@pytest.mark.slow
@GENERATORS
def test_factors_from_weights_keep_the_laws_on_more_graphs(generator: Generator) -> None:
    for seed in SLOW_SEEDS[:500]:
        check_law(equalize_from_weights, generator(seed))


@pytest.mark.slow
def test_factors_from_ranges_keep_the_laws_on_more_graphs() -> None:
    for seed in SLOW_SEEDS[:500]:
        case = random_linked_graph(seed)
        check_law(equalize_from_ranges(case), case)

"""The generated graphs and the tolerance catch wrong rewrites: without this proof a passing law would say nothing."""

from __future__ import annotations

from functools import cache

import onnx
import pytest
from onnx import ModelProto
from tests.generators.laws import is_within
from tests.generators.mutants import MUTANTS, Mutant
from tests.generators.random_graphs import Case, random_graph
from tests.generators.run_plain import run_plain
from tests.generators.tolerance import tolerance

SEEDS = 1500
TRIES = 16


@cache
def _case(seed: int) -> Case:
    return random_graph(seed)


def _is_caught(case: Case, wrong: ModelProto) -> bool:
    reference = run_plain(case.model, case.feeds)
    try:
        outputs = run_plain(wrong, case.feeds)
    except Exception:  # noqa: BLE001 - whatever onnxruntime raises, the law notices
        return True
    bounds = tolerance(case, reference)
    return any(
        y.shape != r.shape or y.dtype != r.dtype or not is_within(y, r, bound)
        for y, r, bound in zip(outputs, reference, bounds, strict=True)
    )


def _verdicts(mutant: Mutant) -> list[bool]:
    """For the first cases that the mutant applies to: was it caught?"""
    verdicts: list[bool] = []
    for case in map(_case, range(SEEDS)):
        wrong = ModelProto()
        wrong.CopyFrom(case.model)
        if mutant(wrong):
            verdicts.append(_is_caught(case, wrong))
            if len(verdicts) == TRIES:
                break
    return verdicts


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.__name__)
def test_a_wrong_rewrite_is_caught_on_generated_graphs(mutant: Mutant) -> None:
    verdicts = _verdicts(mutant)
    assert len(verdicts) >= 3, "the first seeds hardly hold what this rewrite goes wrong on"
    # some places are dead branches, or values where the two agree
    assert sum(verdicts) >= max(1, len(verdicts) // 8), verdicts


def test_there_are_at_least_25_mutants() -> None:
    assert len({m.__name__ for m in MUTANTS}) >= 25


def test_the_original_is_not_caught() -> None:
    for case in map(_case, range(100)):
        copy = onnx.ModelProto()
        copy.CopyFrom(case.model)
        assert not _is_caught(case, copy)

from __future__ import annotations

import numpy as np
import onnx
from tests.generators.linked_graphs import STEPS, random_linked_graph
from tests.generators.run_plain import run_plain

SEEDS = range(150)


def test_graphs_are_valid_run_and_stay_finite() -> None:
    for seed in SEEDS:
        case = random_linked_graph(seed)
        onnx.checker.check_model(case.model, full_check=True)
        for output in run_plain(case.model, case.feeds):
            assert np.isfinite(output).all(), case


def test_the_same_seed_gives_the_same_bytes() -> None:
    first, second = (random_linked_graph(3).model.SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


def test_every_step_occurs() -> None:
    seen = set().union(*(random_linked_graph(seed).patterns for seed in SEEDS))
    assert {step.__name__ for step in STEPS} <= seen
    assert {"head_conv", "head_flatten", "head_pooled", "read_output"} <= seen

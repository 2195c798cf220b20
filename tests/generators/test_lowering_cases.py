"""The generator of operators to lower keeps its promises: deterministic, valid, runnable, shapes known, forms covered."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from tests.generators.lowering_cases import KINDS, lowering_case
from tests.generators.run_plain import run_plain

SEEDS = range(40)


def test_a_seed_gives_the_same_case_again() -> None:
    a, b = lowering_case("einsum_case", 3), lowering_case("einsum_case", 3)
    assert a.model.SerializeToString(deterministic=True) == b.model.SerializeToString(deterministic=True)
    assert all(np.array_equal(a.feeds[n], b.feeds[n]) for n in a.feeds)


@pytest.mark.parametrize("kind", KINDS)
def test_cases_are_valid_and_run_as_declared(kind: str) -> None:
    for seed in SEEDS:
        case = lowering_case(kind, seed)
        onnx.checker.check_model(case.model, full_check=True)
        for value, y in zip(case.model.graph.output, run_plain(case.model, case.feeds), strict=True):
            assert tuple(d.dim_value for d in value.type.tensor_type.shape.dim) == y.shape, (kind, seed)
            assert y.dtype.kind != "f" or np.isfinite(y).all(), (kind, seed)


def test_resizes_and_grids_come_in_every_form() -> None:
    forms: Counter[str] = Counter()
    for kind in ("resize_case", "grid_sample_constant", "grid_sample_computed"):
        for seed in range(300):
            for node in lowering_case(kind, seed).model.graph.node:
                for a in node.attribute:
                    forms[f"{a.name}={onnx.helper.get_attribute_value(a)!r}"] += node.op_type in (
                        "Resize",
                        "GridSample",
                    )
    for wanted in ("mode=b'cubic'", "mode=b'nearest'", "mode=b'linear'", "antialias=1", "exclude_outside=1",
                   "coordinate_transformation_mode=b'tf_crop_and_resize'", "padding_mode=b'reflection'",
                   "nearest_mode=b'ceil'", "align_corners=1", "cubic_coeff_a=-0.5"):  # fmt: skip
        assert forms[wanted] >= 5, wanted

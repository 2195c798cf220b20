"""The onnx package's backend node tests survive load -> passes -> save; `backend_nodes_excluded.json` lists the rest.

A new failure and a model that survives although listed are both failures of the test, so that the table stays true.
After a wanted change: `python -m tests.fts_converters.write_backend_nodes_excluded` from the repository's root.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.fts_converters.backend_nodes import RUNTIME, SURVIVES, all_cases, outcome, sample_cases, versions

TABLE = Path(__file__).with_name("backend_nodes_excluded.json")
KNOWN_FAULTS: frozenset[str] = frozenset()


def _check(cases: list[Any]) -> None:
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    is_same_install = table["versions"] == versions()
    differences = {}
    for case in cases:
        found, listed = outcome(case), table["excluded"].get(case.name, SURVIVES)
        # what onnxruntime cannot run itself changes with its version, and is no matter of this project
        if not is_same_install and (found.startswith(RUNTIME) or listed.startswith(RUNTIME)):
            continue
        if found != listed:
            differences[case.name] = {"listed": listed, "found": found}
    assert differences == {}


def test_a_sample_of_the_node_models_survives_or_is_listed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the onnx package overflows and divides by zero on purpose
        cases = sample_cases()
    assert len(cases) >= 300
    _check(cases)


@pytest.mark.slow
def test_every_node_model_survives_or_is_listed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = all_cases()
    assert len(cases) >= 1500
    _check(cases)


def test_the_faults_in_the_table_are_the_known_ones() -> None:
    excluded = json.loads(TABLE.read_text(encoding="utf-8"))["excluded"]
    assert sorted(n for n, reason in excluded.items() if reason.startswith("fault")) == sorted(KNOWN_FAULTS)

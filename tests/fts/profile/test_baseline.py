"""Conditions of --fail-if."""

from __future__ import annotations

import json

import pytest

from fts.errors import UsageError
from fts.profile.baseline import (
    Condition,
    check_comparable,
    conditions_from_text,
    differences,
    read_baseline,
    violations,
)


def document(p50=10.0, p90=12.0, p99=20.0, state="ok", **scenario):
    percentiles = [
        {
            "percent": p,
            "n": 300,
            "state": state if p == 99 else "ok",
            "value_ms": v if p != 99 or state == "ok" else None,
        }
        for p, v in ((50, p50), (90, p90), (99, p99))
    ]
    return {
        "latency": {"percentiles": percentiles},
        "scenario": {"name": "closed", "threads": 2, **scenario},
        "machine": {"cpu_model": "A", "onnxruntime": "1.32.0"},
    }


def found(text, new, old=None):
    return violations(conditions_from_text(text), new, old)


def test_conditions_are_read():
    assert conditions_from_text("p90>1.05x, p50 > 12ms") == (
        Condition(percent=90, limit=1.05, unit="x"),
        Condition(percent=50, limit=12.0, unit="ms"),
    )


@pytest.mark.parametrize("text", ["", "p90", "p90>1.05", "p95>2x", "p90<1x", "p90>-1x", "p90>1.05x,", "mean>3ms"])
def test_other_conditions_are_refused_with_an_example(text):
    with pytest.raises(UsageError, match=r"p90>1\.05x"):
        conditions_from_text(text)


def test_a_slower_percentile_is_a_sentence_with_both_figures():
    (sentence,) = found("p90>1.05x", document(p90=12.7), document(p90=12.0))
    assert sentence == "--fail-if p90>1.05x: p90 went from 12.000 ms to 12.700 ms, 1.058x."


def test_within_the_limit_nothing_is_said():
    assert found("p90>1.05x,p50>10ms,p99>20ms", document(p90=12.6), document(p90=12.0)) == ()


def test_an_absolute_limit_needs_no_baseline():
    assert found("p50>9.5ms", document()) == ("--fail-if p50>9.5ms: p50 is 10.000 ms.",)


def test_too_few_frames_fail_because_nothing_can_be_said():
    (sentence,) = found("p99>50ms", document(state="n too small"))
    assert "300 frames are too few for p99" in sentence


def test_lost_frames_exceed_every_limit():
    (sentence,) = found("p99>1000000ms", document(state="lost"))
    assert "frames were lost" in sentence


def test_a_baseline_without_the_figure_decides_nothing():
    (sentence,) = found("p99>2x", document(), document(state="n too small"))
    assert "the baseline has no p99" in sentence


def test_another_scenario_is_not_compared():
    with pytest.raises(UsageError, match=r"old\.json: was measured with --scenario open@30, this is closed"):
        check_comparable(document(name="open@30"), "closed", "old.json")
    check_comparable(document(), "closed", "old.json")


def test_another_machine_or_other_threads_are_noted():
    other = document(threads=4)
    other["machine"]["cpu_model"] = "B"
    assert differences(document(), other) == ("cpu B became A", "threads 4 became 2")
    assert differences(document(), document()) == ()


def test_a_baseline_is_read_from_json(tmp_path):
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document()))
    assert read_baseline(str(path))["scenario"]["name"] == "closed"


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"latency": {"percentiles": []}}'])
def test_another_file_is_no_baseline(tmp_path, text):
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="is not what fts-profile --json writes"):
        read_baseline(str(path))


def test_a_missing_baseline_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none\.json: cannot be read"):
        read_baseline(str(tmp_path / "none.json"))

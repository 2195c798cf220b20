"""The hand-made reports and profiles of these tests are such as the published schema allows."""

from __future__ import annotations

from importlib.resources import files

import pytest

from ...fts.bundle.test_schema import problems, schema
from . import samples

MADE = [("report.schema.json", samples.report), ("report.schema.json", samples.large_report)]
if files("fts").joinpath("schema").joinpath("profile.schema.json").is_file():
    MADE.append(("profile.schema.json", samples.profile))


@pytest.mark.parametrize(("name", "make"), MADE)
def test_the_samples_are_valid(name, make):
    rules = schema(name)
    assert list(problems(make(), rules, rules)) == []


@pytest.mark.parametrize(
    "histogram",
    [
        {"tensor": "x", "low": 0.0, "high": 1.0},
        {"tensor": "x", "low": 0.0, "high": 1.0, "counts": []},
        {"tensor": "x", "low": 0.0, "high": 1.0, "counts": [-1]},
        {"tensor": "x", "low": 0.0, "high": 1.0, "counts": [1], "clip": [0.0]},
        {"tensor": "x", "low": 0.0, "high": 1.0, "counts": [1], "tag": "guessed"},
    ],
)
def test_a_histogram_that_the_page_cannot_draw_is_no_valid_report(histogram):
    rules = schema("report.schema.json")
    assert list(problems(samples.report(histograms=[histogram]), rules, rules))

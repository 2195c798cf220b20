"""The JSON schemas and the parser say the same, seen without a schema library."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from fts.bundle.manifest_json import json_from_manifest, manifest_from_json
from fts.errors import BundleManifestError
from fts.vocabulary.manifest import MemberEntry

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
         "null": type(None)}  # fmt: skip


def schema(name: str) -> dict[str, Any]:
    return json.loads(files("fts").joinpath("schema", name).read_text())


def problems(value: Any, rule: dict[str, Any], root: dict[str, Any], path: str = "$") -> Iterator[str]:
    """Where a value breaks a schema: the few keywords that ours use."""
    if "$ref" in rule:
        rule = root["$defs"][rule["$ref"].rpartition("/")[2]]
    if "anyOf" in rule:
        if all(list(problems(value, option, root, path)) for option in rule["anyOf"]):
            yield f"{path}: none of the options"
        return
    kind = rule.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        yield f"{path}: no {kind}"
        return
    if "enum" in rule and value not in rule["enum"]:
        yield f"{path}: not in the list"
    if "const" in rule and value != rule["const"]:
        yield f"{path}: not {rule['const']}"
    if isinstance(value, str):
        if len(value) < rule.get("minLength", 0) or len(value) > rule.get("maxLength", 10**9):
            yield f"{path}: length"
        if "pattern" in rule and not re.search(rule["pattern"], value):
            yield f"{path}: pattern"
    if isinstance(value, (int, float)) and not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        yield f"{path}: range"
    if isinstance(value, list):
        if not rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", 10**9):
            yield f"{path}: number of items"
        for i, item in enumerate(value):
            yield from problems(item, rule.get("items", {}), root, f"{path}[{i}]")
    if isinstance(value, dict):
        yield from (f"{path}.{key}: missing" for key in rule.get("required", []) if key not in value)
        for key, item in value.items():
            if key in rule.get("properties", {}):
                yield from problems(item, rule["properties"][key], root, f"{path}.{key}")
            elif rule.get("additionalProperties") is False:
                yield f"{path}.{key}: unknown"


def objects(value: Any, rule: dict[str, Any], root: dict[str, Any], path: tuple[str | int, ...] = ()) -> Iterator[Any]:
    """(path, required keys) of every object in a document for which the schema lists keys."""
    if "$ref" in rule:
        rule = root["$defs"][rule["$ref"].rpartition("/")[2]]
    if "anyOf" in rule:
        for option in rule["anyOf"]:
            yield from objects(value, option, root, path)
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from objects(item, rule.get("items", {}), root, (*path, i))
    if isinstance(value, dict) and "properties" in rule:
        yield path, rule["required"]
        for key, item in value.items():
            yield from objects(item, rule["properties"].get(key, {}), root, (*path, key))


@pytest.fixture
def document(kit) -> dict[str, Any]:
    recipe = kit.aged(default=[[1.0]])
    entries = tuple(MemberEntry(path=p, bytes=len(d), sha256="0" * 64) for p, d in recipe.members().items())
    return json.loads(json_from_manifest(replace(recipe.manifest(), members=entries)))


def test_a_written_manifest_is_valid_under_the_schema(document):
    rules = schema("manifest.schema.json")
    assert list(problems(document, rules, rules)) == []


def test_the_parser_requires_exactly_the_keys_that_the_schema_requires(document):
    rules = schema("manifest.schema.json")
    checked = set()
    for path, required in objects(document, rules, rules):
        place = document
        for step in path:
            place = place[step]
        for key in place:
            without = copy.deepcopy(document)
            inner = without
            for step in path:
                inner = inner[step]
            del inner[key]
            refused = contextlib.nullcontext() if key not in required else pytest.raises(BundleManifestError, match=key)
            with refused:
                manifest_from_json(json.dumps(without))
            checked.add(key)
    assert {"path", "evidence", "pad_value", "compensator", "macs", "range", "isa", "met"} <= checked


def test_every_object_of_the_document_is_covered_by_the_schema(document):
    rules = schema("manifest.schema.json")
    for name, rule in rules["$defs"].items():
        assert sorted(rule["required"]) == sorted(rule["properties"]), name


def test_a_report_with_every_field_is_valid_and_each_missing_one_is_noticed():
    rules = schema("report.schema.json")
    report = {
        "target": "cpu-int8",
        "dialect": "onnxruntime-x86-vnni",
        "calibration": {
            "files": [
                {"path": "a.png", "split": "verify", "status": "used", "reason": "", "mean_rgb": [1.0, 2.0, 3.0]},
                {"path": "b.txt", "split": None, "status": "skipped", "reason": "no picture", "mean_rgb": None},
            ],
            "ranges": [{"tensor": "x", "low": 0.0, "high": 1.0}],
        },
        "nodes": [{"name": "c", "op_type": "Conv", "precision": "int8", "engine": "e", "reason": "r", "macs": 1}],
        "metrics": [
            {
                "output": "y",
                "metric": "psnr",
                "budget": "psnr>=30",
                "min": None,
                "mean": 40.5,
                "max": None,
                "value": 40.1,
                "interval": [40.1, 40.9],
                "margin_db": 10.1,
                "n": 3,
                "met": True,
                "tag": "measured",
                "split": "verify",
            }
        ],
        "kernels": {"QLinearConv": 1},
        "sensitivity": [],
        "pareto": [],
        "sensitivity_method": None,
        "recovery": [],
        "warnings": [{"id": "default-color", "text": "color was not given: rgb"}],
        "budget": {"text": "psnr>=30", "met": True, "items": []},
        "integer_mac_share": 0.97,
        "histograms": [{"tensor": "x", "low": 0.0, "high": 1.0, "counts": [3, 4]}],
        "given_scales": {"activations": 2, "constants": 3},
    }
    assert list(problems(report, rules, rules)) == []
    for key in report:
        rest = {k: v for k, v in report.items() if k != key}
        assert list(problems(rest, rules, rules)) == [f"$.{key}: missing"]
    report["calibration"]["files"][0]["status"] = "lost"
    assert list(problems(report, rules, rules)) == ["$.calibration.files[0].status: not in the list"]


@pytest.mark.parametrize("name", ["manifest.schema.json", "report.schema.json"])
def test_the_schema_files_are_written_as_bundles_members_are(name):
    text = files("fts").joinpath("schema", name).read_text()
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=1) + "\n"

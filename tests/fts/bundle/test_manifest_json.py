from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fts.bundle.manifest_json import json_from_manifest, manifest_from_json
from fts.errors import BundleManifestError, BundleVersionError
from fts.vocabulary.evidence import Evidence
from fts.vocabulary.manifest import (
    EngineEntry,
    InputEntry,
    Manifest,
    MemberEntry,
    OutputEntry,
    Requirements,
    RungEntry,
)
from fts.vocabulary.plan import NodePlan, Plan
from fts.vocabulary.preprocessing import Preprocessing
from fts.vocabulary.tensor_spec import TensorSpec

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
PATH = st.from_regex(r"[a-z]{1,4}(/[a-z0-9._-]{0,2}[a-z]){0,1}", fullmatch=True).filter(
    lambda p: "/." not in p and "/-" not in p
)
NUMBER = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
FREE = st.dictionaries(TEXT, JSON, max_size=3)


@st.composite
def preprocessings(draw: st.DrawFn) -> Preprocessing:
    color = draw(st.sampled_from(["rgb", "bgr", "gray"]))
    channels = 1 if color == "gray" else 3
    return Preprocessing(
        color=color,
        scale=draw(NUMBER),
        mean=tuple(draw(st.lists(NUMBER, min_size=channels, max_size=channels))),
        std=tuple(draw(st.lists(NUMBER.filter(bool), min_size=channels, max_size=channels))),
        layout=draw(st.sampled_from(["nchw", "nhwc"])),
        fit=draw(st.sampled_from(["exact", "stretch", "letterbox", "crop"])),
        pad_value=draw(st.integers(0, 255)),
    )


def specs(name: str, rank: int | None = None) -> st.SearchStrategy[TensorSpec]:
    size = {} if rank is None else {"min_size": rank, "max_size": rank}
    shape = st.lists(st.integers(1, 999) | NAME, **size).map(tuple)
    return st.builds(
        TensorSpec, name=st.just(name), dtype=st.sampled_from(["float32", "uint8", "int64", "bool"]), shape=shape
    )


def inputs(name: str) -> st.SearchStrategy[InputEntry]:
    return st.builds(
        InputEntry, spec=specs(name, 4), kind=st.just("image"), preprocessing=preprocessings(), default=st.none()
    ) | st.builds(InputEntry, spec=specs(name), kind=st.just("tensor"), preprocessing=st.none(), default=JSON)


def outputs(name: str) -> st.SearchStrategy[OutputEntry]:
    span = st.tuples(NUMBER, NUMBER).filter(lambda r: r[0] < r[1])
    return st.builds(OutputEntry, spec=specs(name, 4), kind=st.just("image"), range=span) | st.builds(
        OutputEntry, spec=specs(name), kind=st.just("tensor"), range=st.none()
    )


REQUIREMENTS = st.builds(
    Requirements, isa=st.lists(NAME, max_size=2).map(tuple), onnxruntime=st.sampled_from(["", "1.19", "1.23.2"])
)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    paths = draw(st.lists(PATH, min_size=1, max_size=4, unique=True))
    member = st.sampled_from(paths)
    names = draw(st.lists(NAME, min_size=1, max_size=3, unique=True))
    evidence = st.none() | st.builds(
        Evidence, tag=st.sampled_from(["measured", "simulated", "predicted"]), by=NAME, detail=TEXT
    )
    engine = st.builds(
        EngineEntry,
        kind=NAME,
        member=member,
        state=st.sampled_from(["built", "build-on-device"]),
        precision=NAME,
        requires=REQUIREMENTS,
        evidence=evidence,
    )
    node = st.builds(
        NodePlan,
        name=TEXT,
        op_type=NAME,
        precision=st.sampled_from(["int8", "fp32"]),
        engine=NAME,
        reason=NAME,
        macs=st.integers(0, 10**12),
    )
    rung = st.builds(
        RungEntry,
        id=NAME,
        height_px=st.integers(1, 9999),
        width_px=st.integers(1, 9999),
        member=member,
        quality=FREE,
        compensator=st.none() | NAME,
    )
    sha256 = st.integers(0, 2**256 - 1).map(lambda n: f"{n:064x}")
    return Manifest(
        format_version=1,
        target=draw(st.sampled_from(["cpu-int8", "orin-dla-int8", "snapdragon-8gen3-int8"])),
        requires=draw(REQUIREMENTS),
        members=tuple(MemberEntry(path=p, bytes=draw(st.integers(0, 2**31)), sha256=draw(sha256)) for p in paths),
        inputs=tuple(draw(inputs(n)) for n in names),
        outputs=tuple(draw(outputs(n)) for n in names),
        rungs=tuple(draw(st.lists(rung, max_size=2, unique_by=lambda r: r.id))),
        engines=tuple(draw(st.lists(engine, min_size=1, max_size=2))),
        plan=Plan(target=draw(NAME), dialect=draw(TEXT), nodes=tuple(draw(st.lists(node, max_size=3)))),
        quality={**draw(FREE), "budget": draw(TEXT), "met": draw(st.booleans())},
        golden=draw(FREE),
        provenance=draw(FREE),
    )


@settings(max_examples=50, deadline=None)
@given(manifests())
def test_a_manifest_comes_back_equal_and_its_bytes_are_stable(manifest):
    text = json_from_manifest(manifest)
    again = manifest_from_json(text)
    assert again == manifest
    assert json_from_manifest(again) == text


@pytest.fixture
def document(kit) -> dict[str, Any]:
    recipe = kit.aged(default=[[1.0]])
    entries = tuple(MemberEntry(path=p, bytes=len(d), sha256="0" * 64) for p, d in recipe.members().items())
    return json.loads(json_from_manifest(replace(recipe.manifest(), members=entries)))


def test_the_text_is_sorted_indented_by_one_and_ends_with_a_newline(document):
    text = json_from_manifest(manifest_from_json(json.dumps(document)))
    assert text == json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def test_refuses_to_write_nan(document):
    manifest = replace(manifest_from_json(json.dumps(document)), golden={"x": float("inf")})
    with pytest.raises(ValueError, match="JSON"):
        json_from_manifest(manifest)


def at(document: Any, path: str, value: Any) -> str:
    """The document's text with one value replaced; path "inputs.0.shape"."""
    *way, last = path.split(".")
    place = document
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[int(last) if last.isdigit() else last] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("path", "value", "where", "expected"),
    [
        ("target", 3, "$.target", "a string"),
        ("target", "CPU", "$.target", "a target name"),
        ("requires.isa", "vnni", "$.requires.isa", "an array"),
        ("requires.onnxruntime", "new", "$.requires.onnxruntime", "a version"),
        ("members.0.bytes", -1, "$.members[0].bytes", "a whole number >= 0"),
        ("members.0.bytes", True, "$.members[0].bytes", "a whole number >= 0"),
        ("members.0.bytes", 1.0, "$.members[0].bytes", "a whole number >= 0"),
        ("members.0.sha256", "f" * 63, "$.members[0].sha256", "64 lower-case"),
        ("members.0.path", "../x", "$.members[0].path", "without a parent path"),
        ("members.1.path", "model/portable.onnx", "$.members", "every path once"),
        ("inputs", [], "$.inputs", "at least one"),
        ("inputs.0.dtype", "complex64", "$.inputs[0].dtype", '"float32" or '),
        ("inputs.0.shape", [1, 0, 3, 4], "$.inputs[0].shape[1]", "a whole number >= 1"),
        ("inputs.0.shape", [3, 4], "$.inputs[0].shape", "4 axes for an image"),
        ("inputs.0.kind", "movie", "$.inputs[0].kind", '"image" or "tensor"'),
        ("inputs.0.preprocessing", None, "$.inputs[0].preprocessing", "preprocessing for an image"),
        ("inputs.0.preprocessing.std", [0, 1, 1], "$.inputs[0].preprocessing.std", "other than 0"),
        ("inputs.0.preprocessing.mean", [0], "$.inputs[0].preprocessing.mean", "3 number(s)"),
        ("inputs.0.preprocessing.pad_value", 256, "$.inputs[0].preprocessing.pad_value", "0..255"),
        ("inputs.0.preprocessing.scale", "1", "$.inputs[0].preprocessing.scale", "a number"),
        ("inputs.0.preprocessing.fit", "squash", "$.inputs[0].preprocessing.fit", '"letterbox"'),
        ("inputs.1.name", "x", "$.inputs", "every name once"),
        ("outputs.0.range", [1, 0], "$.outputs[0].range", "low < high"),
        ("outputs.0.range", None, "$.outputs[0].range", "[low, high] for an image"),
        ("engines", [], "$.engines", "at least one"),
        ("engines.0.member", "engines/none.onnx", "$.engines", "'engines/none.onnx' is not"),
        ("engines.0.state", "maybe", "$.engines[0].state", '"built" or "build-on-device"'),
        ("engines.0.evidence.tag", "guessed", "$.engines[0].evidence.tag", '"measured"'),
        ("plan.nodes.0.reason", "", "$.plan.nodes[0].reason", "not empty"),
        ("plan.nodes.0.macs", 1.5, "$.plan.nodes[0].macs", "a whole number"),
        ("quality.met", "yes", "$.quality.met", "true or false"),
        ("golden", [], "$.golden", "an object"),
        ("extra", 1, "$", "expected only"),
        ("plan.nodes.0.extra", 1, "$.plan.nodes[0]", "unknown key 'extra'"),
    ],
)
def test_says_where_and_what_was_found_and_expected(document, path, value, where, expected):
    with pytest.raises(BundleManifestError) as caught:
        manifest_from_json(at(document, path, value), "net.fts")
    text = str(caught.value)
    assert text.startswith(f"net.fts: {where}: ") or text.startswith(f"manifest.json: {where}: ")
    assert expected in text


@pytest.mark.parametrize(
    "text",
    ['{"format_version": 1, "golden": NaN}', '{"format_version": 1, "golden": 1e999}',
     '{"format_version": 1, "format_version": 1}', '{"format_version": 1} x', '{"format_version": 1, "a": "\\ud800"}'],
    ids=["nan", "infinity", "key twice", "trailing", "half a character"],
)  # fmt: skip
def test_refuses_what_is_not_strict_json(text):
    with pytest.raises(BundleManifestError, match=r"manifest\.json"):
        manifest_from_json(text)


def test_refuses_half_a_character_that_could_not_be_written_again(document):
    with pytest.raises(BundleManifestError, match=r"\$\.plan\.dialect"):
        manifest_from_json(at(document, "plan.dialect", "\ud800"))


def test_refuses_another_version_before_anything_else(document):
    document["format_version"] = 2
    document["members"] = None
    with pytest.raises(BundleVersionError, match="format version 2, this version of fts reads format version 1"):
        manifest_from_json(json.dumps(document))
